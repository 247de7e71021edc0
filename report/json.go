// Package report writes a comparison for people and programs: one file for each
// output, a row in the Formats table. It computes no figure.
package report

import (
	"encoding/json"
	"io"

	"github.com/layerparity/parity/compare"
)

// JSON writes the comparison as parity.compare/1: fixed order, shortest
// round-trip numbers, "NaN" and "Infinity" as strings. The same comparison gives
// the same bytes.
func JSON(w io.Writer, c *compare.Comparison) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(c)
}
