package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/onerun-dev/onerun"

// What comes from other modules, each entry with all below it.
const (
	text = "golang.org/x/text"
	sys  = "golang.org/x/sys"
	kong = "github.com/alecthomas/kong"
	yaml = "github.com/goccy/go-yaml"
)

// sqlite is the driver with what it needs itself.
var sqlite = []string{
	"modernc.org/sqlite", "modernc.org/libc", "modernc.org/mathutil", "modernc.org/memory",
	"github.com/dustin/go-humanize", "github.com/google/uuid", "github.com/remyoudompheng/bigfft",
}

// A rule says what may be among everything that one package depends on, at any depth. The standard library needs no
// entry, but for its package testing. Packages of this module are named from its root; "a/..." stands for a and all
// below it. A package goes by the rule that names it, else by the longest "..." above it.
type rule struct {
	pkg     string
	own     []string // of this module
	foreign []string // of other modules
	testing bool     // may depend on the standard library's package testing
}

// rules has a row for every package. A row without "..." names a package that must exist, so that a renamed or lost
// package can't make the test pass with nothing to look at.
var rules = []rule{
	// The idea: what every user of the library gets.
	{pkg: ".", foreign: []string{text}},
	{pkg: "schedule", foreign: []string{text}},

	// What the rest is made of.
	{pkg: "filelock", own: []string{".", "internal/procfs"}, foreign: []string{text, sys}},
	{pkg: "internal/procfs", own: []string{"."}, foreign: []string{text, sys}},
	{pkg: "internal/config", own: []string{"."}, foreign: []string{text, yaml}},
	{pkg: "internal/process", own: []string{".", "schedule", "internal/..."}, foreign: []string{text, sys}},
	{pkg: "internal/...", own: []string{".", "schedule", "internal/..."}, foreign: []string{text, sys}},

	// Each technology in its folder: a store never has a sibling's driver in it.
	{pkg: "store/memory", own: []string{"."}, foreign: []string{text}},
	{pkg: "store/sqlite", own: []string{".", "filelock", "internal/procfs"}, foreign: with(sqlite, text, sys)},
	{pkg: "storetest", own: []string{".", "internal/procfs"}, foreign: []string{text, sys}, testing: true},

	// Those that know every store.
	{pkg: "store", own: []string{".", "filelock", "internal/procfs", "store/..."}, foreign: with(sqlite, text, sys)},
	{
		pkg:     "cmd/onerun",
		own:     []string{".", "schedule", "filelock", "internal/...", "store", "store/sqlite"},
		foreign: with(sqlite, text, sys, kong, yaml),
	},

	// The comparisons run programs, among them the least one that links what onerun does.
	{pkg: "bench/...", own: []string{"."}, foreign: with(sqlite, text, sys, kong)},
}

func with(list []string, more ...string) []string {
	return slices.Concat(list, more)
}

// A node is one package of the build, as `go list` describes it.
type node struct {
	ImportPath string
	Standard   bool
	Deps       []string
	Module     *struct{ Main bool }
}

func (n node) ours() bool {
	return n.Module != nil && n.Module.Main
}

func TestImports(t *testing.T) {
	build := load(t)
	for _, r := range rules {
		if strings.HasSuffix(r.pkg, "/...") {
			continue
		}
		if _, ok := build[importPath(r.pkg)]; !ok {
			t.Errorf("package %s: not found; the table of rules expects it", r.pkg)
		}
	}
	for path, n := range build {
		if !n.ours() {
			continue
		}
		name := ownName(path)
		r, ok := ruleFor(name)
		if !ok {
			t.Errorf("package %s: no rule; add a row that says what it may drag in", name)
			continue
		}
		for _, dep := range n.Deps {
			d, ok := build[dep]
			if !ok {
				t.Errorf("package %s: go list names its dependency %s but doesn't describe it", name, dep)
			} else if !r.allows(d) {
				t.Errorf("package %s: depends on %s", name, dep)
			}
		}
	}
}

// The rules must be able to fail: each line is a dependency that has to be told from the one beside it.
func TestRulesTellApart(t *testing.T) {
	std := func(path string) node { return node{ImportPath: path, Standard: true} }
	own := func(name string) node {
		return node{ImportPath: importPath(name), Module: &struct{ Main bool }{true}}
	}
	foreign := func(path string) node { return node{ImportPath: path, Module: &struct{ Main bool }{}} }
	for _, c := range []struct {
		pkg       string
		good, bad node
	}{
		{".", std("context"), std("testing")},
		{".", foreign("golang.org/x/text/unicode/norm"), foreign("golang.org/x/textual")},
		{".", std("time"), own("schedule")},
		{"schedule", std("time"), own(".")},
		{"filelock", own("."), own("store/sqlite")},
		{"filelock", foreign("golang.org/x/sys/unix"), foreign("modernc.org/sqlite/lib")},
		{"internal/process", own("internal/procfs"), own("filelock")},
		{"internal/process", own("internal/procfs"), foreign("github.com/goccy/go-yaml/ast")},
		{"internal/config", foreign("github.com/goccy/go-yaml/ast"), own("internal/process")},
		{"internal/notyet/deep", own("internal/procfs"), own("cmd/onerun")},
		{"store/memory", own("."), foreign("golang.org/x/sys/unix")},
		{"store/sqlite", foreign("modernc.org/sqlite"), own("store/memory")},
		{"store", own("store/memory"), own("storetest")},
		{"storetest", std("testing"), own("store/memory")},
		{"cmd/onerun", own("store"), own("store/memory")},
		{"cmd/onerun", foreign("github.com/alecthomas/kong"), foreign("github.com/google/go-cmp/cmp")},
		{"bench", own("."), own("store/sqlite")},
	} {
		r, ok := ruleFor(c.pkg)
		if !ok {
			t.Errorf("package %s: no rule", c.pkg)
			continue
		}
		if !r.allows(c.good) {
			t.Errorf("package %s: %s refused", c.pkg, c.good.ImportPath)
		}
		if r.allows(c.bad) {
			t.Errorf("package %s: %s accepted", c.pkg, c.bad.ImportPath)
		}
	}
	for _, pkg := range []string{"util", "cmd/other", "store/unheard", "bench2"} {
		if r, ok := ruleFor(pkg); ok {
			t.Errorf("package %s: goes by the rule of %s, should have none", pkg, r.pkg)
		}
	}
}

// load asks the go command for every package of this module with all that its builds depend on, tests left out.
func load(t *testing.T) map[string]node {
	t.Helper()
	const root = "../.."
	seeEveryFolder(t, root)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Deps,Module", "./...")
	cmd.Dir = root
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0") // as the program is built
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	build := make(map[string]node)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var n node
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			return build
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		build[n.ImportPath] = n
	}
}

// seeEveryFolder reads the module's folders. What the go command reads in a process of its own doesn't count as this
// test's input: without this, `go test` would go on showing a cached pass after an import was added elsewhere.
func seeEveryFolder(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (d.Name()[0] == '.' || d.Name() == "bin") {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ruleFor(name string) (rule, bool) {
	var best rule
	for _, r := range rules {
		if r.pkg == name {
			return r, true
		}
		if matches(r.pkg, name) && len(r.pkg) > len(best.pkg) {
			best = r
		}
	}
	return best, best.pkg != ""
}

func (r rule) allows(dep node) bool {
	switch {
	case dep.Standard:
		return r.testing || !below("testing", dep.ImportPath)
	case dep.ours():
		name := ownName(dep.ImportPath)
		return slices.ContainsFunc(r.own, func(pattern string) bool { return matches(pattern, name) })
	default:
		return slices.ContainsFunc(r.foreign, func(root string) bool { return below(root, dep.ImportPath) })
	}
}

// matches reports whether the pattern, a name or "a/...", stands for the name.
func matches(pattern, name string) bool {
	if root, ok := strings.CutSuffix(pattern, "/..."); ok {
		return below(root, name)
	}
	return pattern == name
}

func below(root, path string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// ownName is a package's name from the module's root, which is itself ".".
func ownName(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

func importPath(name string) string {
	if name == "." {
		return module
	}
	return module + "/" + name
}
