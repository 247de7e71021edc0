// Command neon writes the NEON loops of package kernel. From the folder above:
//
//	go run ./neon -out ../loops_arm64.s -stubs ../loops_arm64.go
//
// Each function is the assembly of a loop in ../../portable*.go and carries the same
// comment; ../check.sh compares the committed files with fresh ones.
package main

import (
	"flag"
	"log"
	"os"
)

func main() {
	out := flag.String("out", "", "the `file` of the assembly")
	stubs := flag.String("stubs", "", "the `file` of the declarations")
	flag.Parse()

	var f file
	for _, e := range []element{f32, f64} {
		tile(&f, e)
		peak(&f, e)
		increments(&f, e)
	}
	f16(&f)
	bf16(&f)
	narrow(&f)
	add(&f)
	largest(&f)

	for _, w := range []struct{ path, text string }{{*out, f.assembly()}, {*stubs, f.declarations()}} {
		if err := os.WriteFile(w.path, []byte(w.text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
