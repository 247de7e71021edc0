// Package twin reads the portable loops, whose comments the assembly carries.
package twin

import (
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"regexp"
	"strings"
)

// portable holds the functions of ../portable*.go and ../narrow.go by name.
var portable = func() map[string]*ast.FuncDecl {
	m := map[string]*ast.FuncDecl{}
	for _, name := range []string{"portable.go", "portable32.go", "portable64.go", "narrow.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), "../"+name, nil, parser.ParseComments)
		if err != nil {
			log.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				m[fn.Name.Name] = fn
			}
		}
	}
	return m
}()

// goName is a function of the portable loops in a comment.
var goName = regexp.MustCompile(`\b([a-z]+[0-9]*)Go\b`)

// instructionSet ends the name of a loop in assembly.
var instructionSet = regexp.MustCompile(`(AVX2|AVX512|NEON)$`)

// Comment returns the lines of the comment of a function's portable twin (peak32AVX2
// has peak32Go), so that both always carry the same reference loop. It ends the
// program where there is none.
func Comment(name string) []string {
	isa := instructionSet.FindString(name)
	twin := portable[strings.TrimSuffix(name, isa)+"Go"]
	if twin == nil || twin.Doc == nil {
		log.Fatalf("writing %s: no portable twin with a comment", name)
	}
	doc := strings.TrimRight(twin.Doc.Text(), "\n")
	doc = goName.ReplaceAllString(doc, "${1}"+isa)
	return strings.Split(doc, "\n")
}
