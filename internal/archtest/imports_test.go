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
	cron = "github.com/robfig/cron/v3"

	zookeeper = "github.com/go-zookeeper/zk"
)

// sqlite is the driver with what it needs itself.
var sqlite = []string{
	"modernc.org/sqlite", "modernc.org/libc", "modernc.org/mathutil", "modernc.org/memory",
	"github.com/dustin/go-humanize", "github.com/google/uuid", "github.com/remyoudompheng/bigfft",
}

// chat is the library of chat services with what it needs itself.
var chat = []string{
	"github.com/nicholas-fedor/shoutrrr", "github.com/mattn/go-colorable", "github.com/mattn/go-isatty", "golang.org/x/term",
}

// pgx is the driver with what it needs itself.
var pgx = []string{
	"github.com/jackc/pgx", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/puddle",
	"golang.org/x/sync",
}

// goRedis is the driver with what it needs itself.
var goRedis = []string{"github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic"}

// mysql is the driver with what it needs itself.
var mysql = []string{"github.com/go-sql-driver/mysql", "filippo.io/edwards25519"}

// etcd is the client with what it needs itself.
var etcd = []string{
	"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/client/pkg/v3", "go.uber.org/zap", "go.uber.org/multierr",
	"google.golang.org/grpc", "google.golang.org/genproto/googleapis", "google.golang.org/protobuf", "github.com/golang/protobuf", "github.com/gogo/protobuf",
	"github.com/grpc-ecosystem/grpc-gateway/v2", "github.com/coreos/go-semver", "github.com/coreos/go-systemd/v22", "golang.org/x/net",
}

// otel is OpenTelemetry's API with what it needs itself, and nothing of its SDK.
var otel = []string{
	"go.opentelemetry.io/otel/attribute", "go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/metric",
	"go.opentelemetry.io/otel/semconv", "go.opentelemetry.io/otel/trace", "github.com/cespare/xxhash/v2",
}

// A rule says what may be among everything that one package depends on, at any depth. The standard library needs no
// entry, but for its package testing, and for what is heavy. Packages of this module are named from its root; "a/..." stands for a and all
// below it. A package goes by the rule that names it, else by the longest "..." above it.
type rule struct {
	pkg     string
	own     []string // of this module
	foreign []string // of other modules
	testing bool     // may depend on the standard library's package testing
	light   bool     // may not depend on the standard library's HTTP and TLS, for which every start of a job would pay
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
	{pkg: "internal/storeurl", own: []string{"."}, foreign: []string{text}},
	{pkg: "internal/config", own: []string{"."}, foreign: []string{text, yaml}},
	{pkg: "internal/importer", own: []string{".", "schedule"}, foreign: []string{text, yaml}},
	{pkg: "internal/process", own: []string{".", "schedule", "internal/..."}, foreign: []string{text, sys}},
	{pkg: "internal/notify", own: []string{".", "internal/httpconn", "internal/process", "internal/procfs"}, foreign: []string{text, sys}},
	{pkg: "internal/notify/full", own: []string{".", "internal/httpconn", "internal/notify", "internal/process", "internal/procfs"}, foreign: with(chat, text, sys)},
	{pkg: "internal/cutnet"},
	{pkg: "internal/bed", own: []string{"internal/cutnet"}}, // for tests, and for bench, as the next ones
	{pkg: "internal/pgbed", own: []string{"internal/bed", "internal/cutnet"}},
	{pkg: "internal/mariadbbed", own: []string{"internal/bed", "internal/cutnet"}},
	{pkg: "internal/redisbed", own: []string{"internal/bed", "internal/cutnet"}},
	{pkg: "internal/etcdbed", own: []string{"internal/bed", "internal/cutnet"}},
	{pkg: "internal/zkbed", own: []string{"internal/bed", "internal/cutnet"}},
	{pkg: "internal/kvledger", own: []string{"."}, foreign: []string{text}},
	{pkg: "internal/sqlledger", own: []string{"."}, foreign: []string{text}},
	{pkg: "internal/...", own: []string{".", "schedule", "internal/..."}, foreign: []string{text, sys}},

	{pkg: "model"},   // a test, and what it reads
	{pkg: "scripts"}, // tests of them

	// Each technology in its folder: a store never has a sibling's driver in it.
	{pkg: "store/memory", own: []string{"."}, foreign: []string{text}},
	{pkg: "store/mysql", own: []string{".", "internal/sqlledger"}, foreign: with(mysql, text)},
	{pkg: "store/postgres", own: []string{".", "internal/sqlledger"}, foreign: with(pgx, text)},
	{pkg: "store/redis", own: []string{"."}, foreign: with(goRedis, text, sys)},
	{pkg: "store/etcd", own: []string{".", "internal/kvledger"}, foreign: with(etcd, text, sys)},
	{pkg: "store/zookeeper", own: []string{".", "internal/kvledger"}, foreign: []string{text, sys, zookeeper}},
	{pkg: "store/hostlock", own: []string{".", "filelock", "internal/procfs"}, foreign: []string{text, sys}},
	{pkg: "store/sqlite", own: []string{".", "filelock", "internal/procfs", "internal/sqlledger", "internal/storeurl"}, foreign: with(sqlite, text, sys)},
	{pkg: "storetest", own: []string{".", "internal/procfs"}, foreign: []string{text, sys}, testing: true},

	// What a program adds to a Runner, each by itself.
	{pkg: "observe/slogobs", own: []string{".", "internal/logline", "internal/masking"}, foreign: []string{text, sys}, light: true},
	{pkg: "observe/metrics", own: []string{".", "internal/outcome"}, foreign: []string{text}, light: true},
	{pkg: "observe/metrics/metricshttp", own: []string{".", "internal/outcome", "observe/metrics"}, foreign: []string{text}},
	{pkg: "observe/otelobs", own: []string{".", "internal/outcome"}, foreign: with(otel, text), light: true},

	// Schedulers that Go programs have already, each by itself.
	{pkg: "adapter/cronjob", own: []string{".", "schedule"}, foreign: []string{text, cron}, light: true},
	{pkg: "adapter/gocronlock", own: []string{".", "schedule"}, foreign: []string{text, cron, "github.com/go-co-op/gocron/v2", "github.com/jonboulle/clockwork", "github.com/google/uuid"}, light: true},

	// Those that know every store.
	{
		pkg:     "internal/stores",
		own:     []string{".", "filelock", "internal/kvledger", "internal/procfs", "internal/sqlledger", "store/hostlock", "store/mysql", "store/postgres", "store/redis", "store/zookeeper"},
		foreign: with(slices.Concat(pgx, mysql, goRedis), text, sys, zookeeper),
	},
	{
		pkg:     "store",
		own:     []string{".", "filelock", "internal/kvledger", "internal/procfs", "internal/sqlledger", "internal/stores", "internal/storeurl", "store/..."},
		foreign: with(slices.Concat(sqlite, pgx, mysql, goRedis, etcd), text, sys, zookeeper),
	},
	// Every start of a job pays for what onerun links: one store, and no driver.
	{
		pkg:     "cmd/internal/cli",
		own:     []string{".", "schedule", "filelock", "internal/...", "store/sqlite"},
		foreign: with(sqlite, text, sys, kong, yaml),
		light:   true,
	},
	{
		pkg:     "cmd/internal/web",
		own:     []string{".", "schedule", "filelock", "internal/...", "store/sqlite", "cmd/internal/cli"},
		foreign: with(sqlite, text, sys, kong, yaml),
	},
	{
		pkg:     "cmd/onerun",
		own:     []string{".", "schedule", "filelock", "internal/...", "store/sqlite", "cmd/internal/cli"},
		foreign: with(sqlite, text, sys, kong, yaml),
		light:   true,
	},
	{
		pkg: "cmd/onerun-full",
		own: []string{
			".", "schedule", "filelock", "internal/...", "cmd/internal/cli", "cmd/internal/web",
			"store/hostlock", "store/mysql", "store/postgres", "store/redis", "store/sqlite", "store/zookeeper",
		},
		foreign: with(slices.Concat(sqlite, pgx, mysql, goRedis, chat), text, sys, kong, yaml, zookeeper),
	},
	{
		pkg:     "cmd/onerun-etcd",
		own:     []string{".", "schedule", "filelock", "internal/...", "cmd/internal/cli", "cmd/internal/web", "store/etcd", "store/hostlock", "store/sqlite"},
		foreign: with(slices.Concat(sqlite, etcd), text, sys, kong, yaml),
	},

	// The comparisons run programs, among them the least one that links what onerun does, and ask stores on servers.
	{
		pkg: "bench",
		own: []string{
			".", "internal/bed", "internal/cutnet", "internal/kvledger", "internal/mariadbbed", "internal/pgbed", "internal/redisbed", "internal/scheduler", "internal/sqlledger", "internal/zkbed", "schedule",
			"store/mysql", "store/postgres", "store/redis", "store/zookeeper",
		},
		foreign: slices.Concat(sqlite, pgx, mysql, goRedis, []string{text, sys, zookeeper}),
	},
	{pkg: "bench/etcd", own: []string{".", "internal/bed", "internal/cutnet", "internal/etcdbed", "internal/kvledger", "store/etcd"}, foreign: with(etcd, text, sys)},
	{pkg: "bench/...", own: []string{"."}, foreign: with(sqlite, text, sys, kong)},
}

// onlyFor names, of packages that are made for a few others, those that may import them: a row above says
// no more than what comes in behind an import.
var onlyFor = map[string][]string{
	"internal/sqlledger": {"store/mysql", "store/postgres", "store/sqlite"},
}

func with(list []string, more ...string) []string {
	return slices.Concat(list, more)
}

// A node is one package of the build, as `go list` describes it.
type node struct {
	ImportPath string
	Standard   bool
	Imports    []string
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
		for _, imported := range n.Imports {
			if !mayImport(name, ownName(imported)) {
				t.Errorf("package %s: imports %s, which is for %v alone", name, imported, onlyFor[ownName(imported)])
			}
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
		{"internal/importer", foreign("github.com/goccy/go-yaml/ast"), own("internal/config")},
		{"internal/pgbed", std("net"), own(".")},
		{"cmd/onerun", std("net"), std("net/http")},
		{"internal/notify", std("net/url"), foreign("github.com/nicholas-fedor/shoutrrr/pkg/router")},
		{"internal/notify/full", foreign("github.com/nicholas-fedor/shoutrrr/pkg/router"), own("internal/config")},
		{"cmd/onerun", own("internal/notify"), foreign("github.com/nicholas-fedor/shoutrrr/pkg/router")},
		{"cmd/onerun-full", foreign("github.com/nicholas-fedor/shoutrrr/pkg/router"), foreign("github.com/robfig/cron/v3")},
		{"cmd/onerun-full", own("store/postgres"), own("store/memory")},
		{"observe/slogobs", own("internal/logline"), own("internal/procfs")},
		{"observe/metrics", std("encoding/json"), std("net/http")},
		{"adapter/cronjob", own("schedule"), foreign("github.com/go-co-op/gocron/v2")},
		{"adapter/gocronlock", foreign("github.com/robfig/cron/v3"), own("adapter/cronjob")},
		{"observe/otelobs", foreign("go.opentelemetry.io/otel/trace"), foreign("go.opentelemetry.io/otel/sdk/trace")},
		{"observe/metrics/metricshttp", std("net/http"), own("observe/slogobs")},
		{"internal/notyet/deep", own("internal/procfs"), own("cmd/onerun")},
		{"store/memory", own("."), foreign("golang.org/x/sys/unix")},
		{"store/postgres", foreign("github.com/jackc/pgx/v5"), own("store/sqlite")},
		{"store/sqlite", foreign("modernc.org/sqlite"), own("store/memory")},
		{"store/etcd", foreign("go.etcd.io/etcd/client/v3"), own("store/postgres")},
		{"store/mysql", own("internal/sqlledger"), own("internal/kvledger")},
		{"internal/sqlledger", own("."), foreign("github.com/go-sql-driver/mysql")},
		{"store/redis", own("."), own("internal/sqlledger")},
		{"store", own("store/memory"), own("storetest")},
		{"storetest", std("testing"), own("store/memory")},
		{"cmd/onerun", own("store/sqlite"), own("store/postgres")},
		{"cmd/internal/cli", own("store/sqlite"), own("store")},
		{"cmd/onerun", foreign("github.com/alecthomas/kong"), foreign("github.com/google/go-cmp/cmp")},
		{"bench", own("store/postgres"), own("store/sqlite")},
		{"bench/least", own("."), own("store/postgres")},
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
	for pkg, may := range map[string]bool{"store/sqlite": true, "store/etcd": false, "internal/stores": false, "cmd/internal/cli": false} {
		if mayImport(pkg, "internal/sqlledger") != may {
			t.Errorf("package %s: may import internal/sqlledger: %v, should be %v", pkg, !may, may)
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
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps,Module", "./...")
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

// mayImport reports whether a package may import another one of this module, as far as onlyFor goes.
func mayImport(name, imported string) bool {
	few, ok := onlyFor[imported]
	return !ok || slices.Contains(few, name)
}

func (r rule) allows(dep node) bool {
	switch {
	case dep.Standard && r.light && (dep.ImportPath == "net/http" || dep.ImportPath == "crypto/tls"):
		return false
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
