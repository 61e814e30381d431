package onerun_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLibraryGuide: each piece of code in the guide stands, line by line, in an example that the
// tests execute, and each file that it names is there.
func TestLibraryGuide(t *testing.T) {
	var examples []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		name := filepath.Base(path)
		if err != nil || !strings.HasPrefix(name, "example") || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		examples = append(examples, unindented(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	fenced := regexp.MustCompile("(?s)```go\n(.*?)```")
	blocks := fenced.FindAllStringSubmatch(string(guide), -1)
	if len(blocks) < 10 {
		t.Errorf("the guide has %d pieces of code", len(blocks))
	}
	for _, block := range blocks {
		code, found := unindented(block[1]), false
		for _, e := range examples {
			found = found || strings.Contains(e, "\n"+code)
		}
		if !found {
			t.Errorf("no example has\n%s", block[1])
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#:]+)`).FindAllStringSubmatch(fenced.ReplaceAllString(string(guide), ""), -1) {
		if _, err := os.Stat(filepath.Join("docs", link[1])); err != nil {
			t.Error(err)
		}
	}
}

// unindented is text without the blanks at the beginnings of its lines.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(text, "")
}
