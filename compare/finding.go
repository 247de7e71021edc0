package compare

// Proof says how strongly a finding is backed by the tensors.
type Proof string

// The three strengths of proof, strongest first. See docs/causes.md.
const (
	// ProofExact: a stated transform turns one side into the other down to
	// the storage dtype's rounding (After is at most a few Floors).
	ProofExact Proof = "exact"
	// ProofFit: a fit of one or a few parameters explains at least 99 % of
	// the error's energy.
	ProofFit Proof = "fit"
	// ProofSignature: only the shape of the error speaks for it. Never first
	// when an exact or fit finding exists.
	ProofSignature Proof = "signature"
)

// Finding names one cause and its proof on the dumped tensors. It is plain
// data, so that report needs nothing of diagnose.
type Finding struct {
	// Cause is a stable id of docs/causes.md, for example "rope.theta".
	Cause string `json:"cause"`
	// Checkpoint is where the cause was proven, with the step and rank prefix
	// where the comparison has several.
	Checkpoint string `json:"checkpoint"`
	// Layer is the decoder layer, nil outside the layers.
	Layer *int  `json:"layer,omitempty"`
	Proof Proof `json:"proof"`
	// Before and After are rel_l2 = ‖port-ref‖ / ‖ref‖ of the checkpoint
	// before and after the transform; Floor is what the storage dtype's
	// rounding alone would leave. All three are measured on the tensors.
	Before Num `json:"before"`
	After  Num `json:"after"`
	Floor  Num `json:"floor"`
	// Params and Rows are the numbers of fitted parameters and of rows that
	// the fit was tested on.
	Params int `json:"params"`
	Rows   int `json:"rows"`
	// Values holds what each side does ("reference", "port") or the fitted
	// figures, by name. Numbers are Num so that JSON stays valid.
	Values map[string]any `json:"values,omitempty"`
	// Claim is one sentence: which rule each side follows.
	Claim   string   `json:"claim"`
	For     []string `json:"for,omitempty"`
	Against []string `json:"against,omitempty"`
	// Try is the command line that reproduces the proof; every exact finding
	// has one.
	Try string `json:"try,omitempty"`
	// Verify says what to check before changing code, Fix what to change.
	Verify string `json:"verify,omitempty"`
	Fix    string `json:"fix,omitempty"`
}
