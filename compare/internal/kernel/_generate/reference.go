package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"strings"
)

// portable holds the functions of ../portable.go by name.
var portable = func() map[string]*ast.FuncDecl {
	f, err := parser.ParseFile(token.NewFileSet(), "../portable.go", nil, parser.ParseComments)
	if err != nil {
		log.Fatal(err)
	}
	m := map[string]*ast.FuncDecl{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			m[fn.Name.Name] = fn
		}
	}
	return m
}()

// reference returns the comment of a function's portable twin (row32AVX2 has
// row32Go), so that both always carry the same reference loop.
func reference(name string) []string {
	base := strings.TrimSuffix(name, "AVX2")
	twin := portable[base+"Go"]
	if twin == nil || twin.Doc == nil {
		log.Fatalf("writing %s: no portable twin with a comment", name)
	}
	doc := strings.TrimRight(twin.Doc.Text(), "\n")
	return strings.Split(strings.ReplaceAll(doc, base+"Go", base+"AVX2"), "\n")
}
