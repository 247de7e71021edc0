package compare

// GuardStatus is how a false-spike guard ended.
type GuardStatus string

// The five ends of a guard.
const (
	Pass GuardStatus = "pass"
	Fail GuardStatus = "fail"
	// Repaired: the fault of the dump was found, undone, and the comparison
	// scored again.
	Repaired GuardStatus = "repaired"
	// NotApplicable: cannot apply to this dump.
	NotApplicable GuardStatus = "n/a"
	// NotChecked: would apply, but a file or a fact is missing.
	NotChecked GuardStatus = "not checked"
)

// Guard is one guard's result.
type Guard struct {
	// ID is a cause id of docs/causes.md, for example "capture.index_shift".
	ID     string      `json:"id"`
	Status GuardStatus `json:"status"`
	// Step and Rank place it where the comparison has several parts.
	Part string `json:"part,omitempty"`
	// Checkpoint is where it was found, "" for the run as a whole.
	Checkpoint string `json:"checkpoint,omitempty"`
	// Evidence is what was measured; Remedy one sentence on what to do.
	Evidence string `json:"evidence"`
	Remedy   string `json:"remedy,omitempty"`
	// Convention is set where what was repaired is how an engine keeps its
	// tensors and no fault of the dump: no finding accuses it.
	Convention bool `json:"-"`
}
