package compare

import "fmt"

// Verdict is the one word a comparison ends in. Its exit status is part of the
// command's contract.
type Verdict string

// The four verdicts, from best to worst.
const (
	Parity     Verdict = "parity"
	Divergence Verdict = "divergence"
	Trouble    Verdict = "trouble"
	Untrusted  Verdict = "untrusted"
)

// VerdictInfo is a row of Verdicts.
type VerdictInfo struct {
	Verdict Verdict
	// Exit is the process's exit status; BisectExit the one under --git-bisect,
	// where 125 tells git to skip the commit.
	Exit, BisectExit int
	// Meaning is one line for --help and the README.
	Meaning string
}

// Verdicts is the table that the commands, their help, the README and the tests
// share.
var Verdicts = []VerdictInfo{
	{Parity, 0, 0, "everything that was compared agrees within its floor or threshold"},
	{Divergence, 1, 1, "the runs differ: where the error enters is named"},
	{Trouble, 2, 125, "bad usage, a file that cannot be read whole, or nothing to compare"},
	{Untrusted, 3, 125, "the dumps cannot be trusted: a guard failed, so no layer is blamed"},
}

// Info returns the verdict's row.
func (v Verdict) Info() VerdictInfo {
	for _, i := range Verdicts {
		if i.Verdict == v {
			return i
		}
	}
	panic(fmt.Sprintf("verdict %q is not in the table", v)) // only code can make one
}
