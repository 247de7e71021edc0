package main

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

// reference returns the comment of a function's portable twin (row32AVX2 has
// row32Go), so that both always carry the same reference loop.
func reference(name string) []string {
	base := strings.TrimSuffix(strings.TrimSuffix(name, "AVX2"), "AVX512")
	twin := portable[base+"Go"]
	if twin == nil || twin.Doc == nil {
		log.Fatalf("writing %s: no portable twin with a comment", name)
	}
	doc := strings.TrimRight(twin.Doc.Text(), "\n")
	doc = goName.ReplaceAllString(doc, "${1}"+strings.TrimPrefix(name, base))
	return strings.Split(doc, "\n")
}
