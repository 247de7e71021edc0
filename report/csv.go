package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"

	"github.com/layerparity/parity/compare"
)

// csvHeader names the columns; their order is part of the format.
var csvHeader = []string{
	"checkpoint", "step", "rank", "layer", "tap", "kind", "status", "tokens", "dims", "cos", "one_minus_cos", "rel_l2", "max_diff", "max_rel",
	"norm_ratio", "scale", "mean_diff", "snr_db", "median_error", "worst_error", "floor", "floor_of", "gain", "increment_error", "reason",
}

// CSV writes one row a checkpoint (RFC 4180). Cells that a spreadsheet would
// take for a formula get an apostrophe before them.
func CSV(w io.Writer, c *compare.Comparison, _ Options) error {
	out := csv.NewWriter(w)
	if err := out.Write(csvHeader); err != nil {
		return err
	}
	for _, ck := range c.Checkpoints {
		if err := out.Write(csvRow(ck)); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// csvRow lists a checkpoint's cells.
func csvRow(ck *compare.Checkpoint) []string {
	f := ck.Figures
	if f == nil {
		f = &compare.Figures{}
	}
	num := func(v compare.Num) string {
		if ck.Figures == nil {
			return ""
		}
		return strconv.FormatFloat(float64(v), 'g', -1, 64)
	}
	ptr := func(v *compare.Num) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(float64(*v), 'g', -1, 64)
	}
	integer := func(v *int) string {
		if v == nil {
			return ""
		}
		return strconv.Itoa(*v)
	}
	return []string{
		inert(ck.Name), integer(ck.Step), integer(ck.Rank), integer(ck.Layer), inert(ck.Tap), ck.Kind, string(ck.Status),
		strconv.Itoa(ck.Tokens), strconv.Itoa(ck.Dims), num(f.Cos), num(f.OneMinusCos), num(f.RelL2), num(f.MaxDiff), num(f.MaxRel),
		num(f.NormRatio), num(f.Scale), num(f.MeanDiff), num(f.SNR), ptr(ck.Error), ptr(ck.WorstError), ptr(ck.Floor), ck.FloorOf, ptr(ck.Gain),
		ptr(ck.IncrementError), inert(ck.Reason),
	}
}

// inert keeps a spreadsheet from running a name as a formula.
func inert(s string) string {
	s = clean(s)
	if s != "" && strings.ContainsRune("=+-@\t", rune(s[0])) {
		return "'" + s
	}
	return s
}
