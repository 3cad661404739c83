package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// The reference model must not call any rule of package domain, because it would then share its
// bugs. The check itself is tested with the model that folds like the engine, which does call
// them.
func TestReferenceModelIsIndependent(t *testing.T) {
	for _, file := range []string{"reference.go", "answers.go"} {
		if called := rulesCalled(t, file); len(called) > 0 {
			t.Errorf("%s calls %v of package domain", file, called)
		}
	}
	if called := rulesCalled(t, "model.go"); !slices.Contains(called, "EvolveEndpoint") ||
		!slices.Contains(called, "Allows") {
		t.Errorf("of package domain, model.go calls only %v", called)
	}
}

// noRules may be called nevertheless: names for messages, and a conversion.
var noRules = []string{"FactType", "CommandType", "Secret"}

// rulesCalled lists the exported functions and methods that a file calls, except those of
// imported packages other than domain.
func rulesCalled(t *testing.T, file string) (called []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var others []string
	for _, i := range parsed.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, path)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		f, is := call.Fun.(*ast.SelectorExpr)
		if !is || !f.Sel.IsExported() || slices.Contains(noRules, f.Sel.Name) {
			return true
		}
		if of, is := f.X.(*ast.Ident); !is || !slices.Contains(others, of.Name) {
			called = append(called, f.Sel.Name)
		}
		return true
	})
	return called
}
