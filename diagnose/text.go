package diagnose

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// joinPipe chains transforms.
func joinPipe(steps []string) string { return strings.Join(steps, " | ") }

// runsOf splits increasing indices into runs [lo, hi].
func runsOf(idx []int) [][2]int {
	var runs [][2]int
	for _, i := range idx {
		if n := len(runs); n > 0 && runs[n-1][1] == i-1 {
			runs[n-1][1] = i
		} else {
			runs = append(runs, [2]int{i, i})
		}
	}
	return runs
}

// rangesOf prints increasing indices for a reader: "0-3, 7, 9-12", cut after
// six runs.
func rangesOf(idx []int) string {
	runs := runsOf(idx)
	text := make([]string, len(runs))
	for i, r := range runs {
		text[i] = rangeText(r)
	}
	return join(text, 6)
}

// listArg prints indices as a list argument of a transform: "[0, 1, 2]".
func listArg(idx []int) string { return formatList(floats(idx)) }

func rangeText(r [2]int) string {
	if r[0] == r[1] {
		return strconv.Itoa(r[0])
	}
	return fmt.Sprintf("%d-%d", r[0], r[1])
}

// finiteOf returns the finite values.
func finiteOf(x []float64) []float64 {
	var out []float64
	for _, v := range x {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	return out
}

// isInteger tells whether a tensor holds indices or flags and not activations.
func isInteger(t *Tensor) bool {
	return strings.HasPrefix(t.DType, "int") || strings.HasPrefix(t.DType, "uint") || t.DType == "bool"
}
