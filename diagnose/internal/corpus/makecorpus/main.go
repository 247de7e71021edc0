// Makecorpus writes the fault corpus as dump folders:
//
//	makecorpus DIR [ID...]
//
// DIR/<id>/ref and DIR/<id>/port for the cases named, or all; the slash of an id
// becomes an underscore. DIR/cases.json says what each case should be explained
// as. makecorpus -list prints the ids.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/layerparity/parity/diagnose/internal/corpus"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// entry is one case in cases.json.
type entry struct {
	ID     string      `json:"id"`
	Folder string      `json:"folder"`
	Title  string      `json:"title"`
	Row    string      `json:"row,omitempty"`
	DType  string      `json:"dtype"`
	Want   corpus.Want `json:"want"`
}

// run returns 0, or 2 on trouble.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == "-list" {
		for _, c := range corpus.Cases() {
			fmt.Fprintf(stdout, "%-26s %s\n", c.ID, c.Title)
		}
		return 0
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		fmt.Fprintln(stderr, "usage: makecorpus DIR [ID...]  or  makecorpus -list")
		return 2
	}
	cases, err := choose(args[1:])
	if err == nil {
		err = write(args[0], cases)
	}
	if err != nil {
		fmt.Fprintln(stderr, "makecorpus:", err)
		return 2
	}
	fmt.Fprintf(stdout, "%d cases in %s\n", len(cases), args[0])
	return 0
}

func choose(ids []string) ([]corpus.Case, error) {
	if len(ids) == 0 {
		return corpus.Cases(), nil
	}
	var out []corpus.Case
	for _, id := range ids {
		c, ok := corpus.Lookup(id)
		if !ok {
			return nil, fmt.Errorf("choosing cases: no case %q (makecorpus -list prints the ids)", id)
		}
		out = append(out, c)
	}
	return out, nil
}

func write(dir string, cases []corpus.Case) error {
	var list []entry
	for _, c := range cases {
		folder := strings.ReplaceAll(c.ID, "/", "_")
		ref, port := c.Build()
		if err := ref.Write(filepath.Join(dir, folder, "ref")); err != nil {
			return err
		}
		if err := port.Write(filepath.Join(dir, folder, "port")); err != nil {
			return err
		}
		list = append(list, entry{c.ID, folder, c.Title, c.Row, c.DType(), c.Want})
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return fmt.Errorf("listing the cases: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cases.json"), append(b, '\n'), 0o666); err != nil {
		return fmt.Errorf("listing the cases: %w", err)
	}
	return nil
}
