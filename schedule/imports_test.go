package schedule

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// Users' programs import this package, so it must bring nothing along; and
// without time/tzdata a slim image would know no zone but UTC (case B07).
func TestImports(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	embedded := false
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range file.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			first, _, _ := strings.Cut(path, "/")
			if strings.Contains(first, ".") && path != "golang.org/x/text/unicode/norm" {
				t.Errorf("%s imports %s", name, path)
			}
			embedded = embedded || path == "time/tzdata"
		}
	}
	if !embedded {
		t.Error("time/tzdata is not imported: the zone database is not embedded")
	}
}
