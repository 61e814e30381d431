package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// verified is the document of onerun verify --json.
type verified struct {
	OK                        bool
	Verdict, Store, Namespace string
	Checks                    []examined
	Left                      []string
}

// verifying is a bed whose temporary files are its own, so that what is left can be seen.
func verifying(t *testing.T) *bed {
	b := newBed(t)
	if err := os.Mkdir(b.path("tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.env = append(b.env, "TMPDIR="+b.path("tmp"))
	return b
}

// verify examines, expects an exit code, and that nothing is left behind.
func (b *bed) verify(t *testing.T, code int, args ...string) verified {
	t.Helper()
	r := b.run(append([]string{"verify", "--json"}, args...)...).exits(t, code)
	if r.err != "" {
		t.Errorf("onerun verify %q says on standard error: %s", args, r.err)
	}
	return documented(t, r.out)
}

func documented(t *testing.T, text string) (v verified) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// is says which checks there are, and which of them failed.
func (v verified) is(t *testing.T, checks string, failed ...string) {
	t.Helper()
	var names []string
	for _, c := range v.Checks {
		names = append(names, c.Check)
		if c.OK == slices.Contains(failed, c.Check) || c.Evidence == "" {
			t.Errorf("%s: ok is %v: %s", c.Check, c.OK, c.Evidence)
		}
	}
	if got := strings.Join(names, " "); got != checks || v.OK != (len(failed) == 0) || strings.Contains(v.Verdict, "NOT") == v.OK {
		t.Errorf("checks %s, ok %v, verdict %q", got, v.OK, v.Verdict)
	}
}

func (v verified) says(t *testing.T, check, what string) {
	t.Helper()
	for _, c := range v.Checks {
		if c.Check == check && !strings.Contains(c.Evidence, what) {
			t.Errorf("%s: %q is not in: %s", check, what, c.Evidence)
		}
	}
}

// nothingLeft: no process, no file, no run, no skip, no lock.
func (b *bed) nothingLeft(t *testing.T, locks string) {
	t.Helper()
	if !eventually(func() bool { return len(b.witnesses()) == 0 }) {
		t.Errorf("processes are left: %v", b.witnesses())
	}
	for dir, want := range map[string]string{b.path("tmp"): "", locks: ".held"} {
		if !eventually(func() bool { return strings.Join(listed(dir), " ") == want }) { // a wrapper that was killed had a directory, which its guard removes
			t.Errorf("left in %s: %v", dir, listed(dir))
		}
	}
	for _, what := range []string{"history", "locks", "status", "stale"} {
		if rows := b.list(t, what); len(rows) != 0 {
			t.Errorf("%s: %v", what, rows)
		}
	}
}

func listed(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // none is empty
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// witnesses are the processes on this bed's temporary files, zombies left out.
func (b *bed) witnesses() (lines []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		text, _ := os.ReadFile(name) // gone meanwhile: it runs no more
		if line := strings.ReplaceAll(string(text), "\x00", " "); strings.Contains(line, b.path("tmp")) {
			lines = append(lines, line)
		}
	}
	return lines
}

// before is a script around onerun that has each command executed by something else.
func before(words string) string {
	return "for a; do shift; set -- \"$@\" \"$a\"; test \"$a\" != -- || set -- \"$@\" " + words + "; done\nexec onerun \"$@\"\n"
}

// stray executes a command that is to be killed in a session of its own, without a parent and without onerun's mark.
const stray = `
case "$*" in
*child:*) (env -u ONERUN_OWNER setsid "$@" <&3 &) 3<&0; exec cat >/dev/null ;;
*) exec "$@" ;;
esac
`

const allChecks = "one-key one-lock wrapper-killed wrapper-and-guard-killed holder-frozen"

// TestVerify: on a store that keeps its promises all checks hold, and nothing is left behind.
func TestVerify(t *testing.T) {
	t.Parallel()
	b := verifying(t)
	v := b.verify(t, 0, "--rounds", "4", "--processes", "5", "--ttl", "1s")
	v.is(t, allChecks)
	v.says(t, "one-key", "5 processes contended in 4 rounds")
	v.says(t, "one-key", "16 starts were refused")
	v.says(t, "holder-frozen", "no leases")
	if v.Namespace != "default" || v.Store != "sqlite:"+b.path("store") || len(v.Left) != 0 {
		t.Errorf("%+v", v)
	}
	b.nothingLeft(t, b.path("store/locks"))
	out := b.run("verify", "--rounds", "1", "--ttl", "1s").exits(t, 0)
	lines := strings.Split(strings.TrimSpace(out.out), "\n")
	if len(lines) != 6 || !strings.HasPrefix(lines[0], "ok      one-key: ") || !strings.HasPrefix(lines[5], "it holds here: ") || out.err != "" {
		t.Errorf("it printed %s and %s", out.out, out.err)
	}
	b.nothingLeft(t, b.path("store/locks"))
}

// TestVerifyTwoStores: what leads every start to a store or lock directory of its own is found
// out by what was executed.
func TestVerifyTwoStores(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env, script string
		args        []string
		failed      string
		evidence    string
	}{
		"relative_store":     {env: "ONERUN_STORE=sqlite:jobs.db", failed: allChecks, evidence: "3 of them executed it; they don't see one store"},
		"relative_directory": {env: "ONERUN_STORE=sqlite:store/jobs.db", failed: allChecks, evidence: "a relative path means another place"},
		"relative_lock_dir":  {args: []string{"--lock-dir", "mine"}, failed: "one-lock wrapper-killed wrapper-and-guard-killed holder-frozen", evidence: "3 of them executed it"},
		"script":             {script: "ONERUN_STORE=sqlite:$PWD/own.db exec onerun \"$@\"\n", failed: allChecks, evidence: "does "},
		"namespaces":         {script: "exec onerun --namespace n$$ \"$@\"\n", failed: "one-key one-lock wrapper-killed wrapper-and-guard-killed holder-frozen", evidence: "does "},
		// A command that doesn't get the token, and one that leaves its group, its parents and onerun's mark.
		"tokens":            {script: before("env ONERUN_TOKEN=7"), failed: "one-key one-lock", evidence: "round 2: the token 7 doesn't follow after 7"},
		"strays":            {script: before("DIR/stray"), failed: "wrapper-killed wrapper-and-guard-killed"},
		"script_that_waits": {script: "onerun \"$@\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := verifying(t)
			if c.env != "" {
				b.env = append(b.env, c.env)
			}
			args := append([]string{"--processes", "3", "--rounds", "2", "--ttl", "1s"}, c.args...)
			if c.script != "" {
				for name, text := range map[string]string{"onerun-here": c.script, "stray": stray} {
					if err := os.WriteFile(b.path(name), []byte("#!/bin/sh\n"+strings.ReplaceAll(text, "DIR", b.dir)), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				args = append(args, "--program", "./onerun-here")
			}
			code := 0
			if c.failed != "" {
				code = 1
			}
			v := b.verify(t, code, args...)
			v.is(t, allChecks, strings.Fields(c.failed)...)
			v.says(t, "one-lock", c.evidence)
			if name == "relative_store" {
				v.says(t, "wrapper-killed", "a second start was let in")
			}
			if left := listed(b.path("tmp")); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestVerifyJob: a job's settings are used, but not its command, its lock or its messages.
func TestVerifyJob(t *testing.T) {
	t.Parallel()
	b := verifying(t)
	b.env = slices.DeleteFunc(b.env, func(entry string) bool { return strings.HasPrefix(entry, "ONERUN_STORE=") })
	b.env = append(b.env, "ONERUN_CONFIG=onerun.yaml")
	config := `store: "sqlite:store/"
namespace: prod
defaults: {lock_dir: mylocks, notify: ["command:touch ` + b.path("told") + `"], notify_on: [skip, failure, recovery], retries: 3, rerun: two-person, on_crash: manual, date: "2026-01-01"}
jobs:
  settle: {command: [touch, ` + b.path("executed") + `], lock: bank, lock_mode: create}
  by-key: {command: [touch, ` + b.path("executed") + `], scope: key}
`
	if err := os.WriteFile(b.path("onerun.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	bank := b.start("lock", "bank", "--", "sh", "-c", "echo up; read x")
	bank.says("up")
	for _, job := range []string{"settle", "by-key", "of-no-file"} {
		v := b.verify(t, 0, job, "--processes", "3", "--rounds", "2", "--ttl", "1s")
		v.is(t, allChecks)
		if v.Namespace != "prod" {
			t.Errorf("%s: %+v", job, v)
		}
	}
	bank.goesOn()
	if bank.wait() != 0 {
		t.Error("the lock of a job was disturbed")
	}
	for _, name := range []string{"told", "executed", "store/locks"} {
		if _, err := os.Stat(b.path(name)); err == nil {
			t.Errorf("there is %s", name)
		}
	}
	if names := listed(b.path("mylocks")); !slices.Contains(names, ".held") || slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "verify") }) {
		t.Errorf("in the lock directory: %v", names)
	}
	if rows := b.list(t, "history"); len(rows) != 0 {
		t.Errorf("history: %v", rows)
	}
}

// TestVerifyEnded: whatever ends it in the middle, nothing goes on.
func TestVerifyEnded(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"interrupted": syscall.SIGINT, "terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := verifying(t)
			p := b.start("verify", "--rounds", "500")
			if !eventually(func() bool {
				names, _ := filepath.Glob(b.path("tmp/onerun-verify-*/witness-one-key"))
				if len(names) == 0 {
					return false
				}
				text, _ := os.ReadFile(names[0])
				return len(sightings(string(text))) > 3
			}) {
				t.Fatalf("nothing was executed; it says %s", p.err.String())
			}
			if err := p.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if code := p.wait(); code != 128+int(sig) {
				t.Errorf("it ended with %d, and said %s", code, p.err.String())
			}
			if sig != syscall.SIGKILL {
				b.nothingLeft(t, b.path("store/locks"))
			} else if !eventually(func() bool { return len(b.witnesses()) == 0 }) {
				t.Errorf("processes are left: %v", b.witnesses())
			}
		})
	}
}

// TestVerifyHung: it ends also when several of its starts never would.
func TestVerifyHung(t *testing.T) {
	t.Parallel()
	b := verifying(t)
	b.put(t, "hung", "#!/bin/sh\necho begun >>"+b.path("begun")+"\nexec sleep 1000\n")
	if err := os.Chmod(b.path("hung"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := b.start("verify", "--processes", "3", "--program", "./hung")
	b.sees("begun", atLeast(3))
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("it ended with %d, and said %s", code, p.err.String())
	}
	if left := listed(b.path("tmp")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestVerifyNoRoom: a disk that is full says nothing about the promises, and isn't told as a promise that doesn't hold.
func TestVerifyNoRoom(t *testing.T) {
	t.Parallel()
	b := verifying(t)
	b.put(t, "full", "#!/bin/sh\necho 'onerun: write lock file /x: no space left on device' >&2\nexit 74\n")
	if err := os.Chmod(b.path("full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if r := b.run("verify", "--json", "--processes", "3", "--program", "./full").exits(t, 74).oneLine(t); !strings.Contains(r.err, "no space left") {
		t.Errorf("it said %s", r.err)
	}
	if left := listed(b.path("tmp")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestVerifyMeeting: hosts with one store and one namespace meet, and agree; others don't meet, and
// where lock files aren't shared, both find it out.
func TestVerifyMeeting(t *testing.T) {
	t.Parallel()
	const rendezvous = "met one-of-all-hosts-key one-of-all-hosts-lock"
	for name, c := range map[string]struct {
		hosts          [][]string
		checks, failed string
		evidence       string
	}{
		"one_store":       {hosts: [][]string{{}, {}}, checks: rendezvous},
		"three":           {hosts: [][]string{{"--hosts", "3"}, {"--hosts", "3"}, {"--hosts", "3"}}, checks: rendezvous},
		"two_namespaces":  {hosts: [][]string{{"--namespace", "a", "--within", "3s"}, {"--namespace", "b", "--within", "3s"}}, checks: "met", failed: "met", evidence: "another store or another namespace"},
		"two_lock_dirs":   {hosts: [][]string{{"--lock-dir", "LOCKS/a"}, {"--lock-dir", "LOCKS/b"}}, checks: rendezvous, failed: "one-of-all-hosts-lock", evidence: "round 1: 2 processes executed it"},
		"the_others_late": {hosts: [][]string{{"--within", "1s"}}, checks: "met", failed: "met", evidence: "1 of 2 hosts came"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := verifying(t)
			code := 0
			if c.failed != "" {
				code = 1
			}
			var all []*proc
			for _, args := range c.hosts {
				args = slices.Clone(args)
				for i := range args {
					args[i] = strings.Replace(args[i], "LOCKS", b.dir, 1)
				}
				all = append(all, b.start(append([]string{"verify", "--json", "--rendezvous", "tonight", "--rounds", "3", "--processes", "3"}, args...)...))
			}
			for _, p := range all {
				text := p.all()
				if got := p.wait(); got != code {
					t.Errorf("it ended with %d, and said %s and %s", got, text, p.err.String())
					continue
				}
				v := documented(t, text)
				v.is(t, c.checks, strings.Fields(c.failed)...)
				if c.failed != "" {
					v.says(t, c.failed, c.evidence)
				}
			}
			if left := listed(b.path("tmp")); len(left) != 0 {
				t.Errorf("left: %v", left)
			}
			if rows := b.list(t, "history"); len(rows) != 0 {
				t.Errorf("history: %v", rows)
			}
		})
	}
}

// all is what a program prints, to its end.
func (p *proc) all() string {
	p.t.Helper()
	text := make(chan string, 1)
	go func() {
		var b strings.Builder
		_, _ = p.out.WriteTo(&b)
		text <- b.String()
	}()
	select {
	case s := <-text:
		return s
	case <-time.After(patience):
		p.t.Fatalf("process %d goes on after %s", p.cmd.Process.Pid, patience)
		return ""
	}
}

// TestVerifyUsage: what can't be is refused before anything is started.
func TestVerifyUsage(t *testing.T) {
	t.Parallel()
	b := verifying(t)
	for _, args := range [][]string{
		{"--processes", "1"},
		{"--rounds", "0"},
		{"--ttl", "1ms"},
		{"--hosts", "3"},
		{"--within", "1m"},
		{"--rendezvous", "a b"},
		{"--rendezvous", "x", "--hosts", "1"},
		{"a/b"},
		{"--program", "./no-such"},
		{"--rendezvous", ""},
		{"01890a5d-ac96-774b-bcce-b302099a8057"},
	} {
		b.run(append([]string{"verify"}, args...)...).exits(t, 64).oneLine(t)
	}
	b.run("verify", "--store", "sqlite:/no/such/directory/x.db").exits(t, 73).oneLine(t)
	b.run("verify", "--config", "no-such").exits(t, 78).oneLine(t)
	if left := listed(b.path("tmp")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestWitness: what is written in it is believed, to the line.
func TestWitness(t *testing.T) {
	t.Parallel()
	const first = "in a own 5 1 2 100\nin a/child own 5 3 4 110\nat a own 5 1 2 200\n"
	for text, want := range map[string]string{
		first + "in b other 6 5 6 210\n":                             "",
		first + "at a/child own 5 3 4 250\nin b other 6 5 6 210\n":   "still ran",
		first + "in b other 6 5 6 200\n":                             "still ran",
		first + "in b other 6 5 6 300\noverlap a other 6 5 6 301\n":  `the command of "a" still ran`,
		first + "in b other 6 5 6 300\nat a own 5 1 2 2":             "", // cut off: whoever wrote it died
		first + "in b - - 5 6 300\n" + "out b - - 5 6 400\nnonsense": "",
	} {
		seen := testimony(sightings(text))
		err := seen.follows(seen.of(sawIn, "b")[0], "a")
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.Contains(got, want) {
				t.Errorf("%q: %s, want %q", text, got, want)
			}
		} else if want != "" {
			t.Errorf("%q: nothing, want %q", text, want)
		}
	}
	// Who runs while another is started is found by the one that is started.
	b := verifying(t)
	path := b.path("witness")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	there := b.start("verify", "--probe", "hold:there", path)
	if !eventually(func() bool { text, _ := os.ReadFile(path); return len(sightings(string(text))) == 1 }) {
		t.Fatal("nothing was written")
	}
	b.run("verify", "--probe", "once:beside", path).exits(t, 0).silent(t)
	_ = there.in.Close()
	if there.wait() != 0 {
		t.Error(there.err.String())
	}
	b.run("verify", "--probe", "once:after", path).exits(t, 0).silent(t)
	text, _ := os.ReadFile(path)
	seen := testimony(sightings(string(text)))
	if len(seen.of(sawOverlap, "there")) != 1 || len(seen) != 5 || seen.overlaps() == "" || len(seen.of(sawOut, "there")) != 1 {
		t.Errorf("%s", text)
	}
}
