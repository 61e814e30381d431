package model

import (
	"embed"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:embed *.pml
var files embed.FS

// covered has spin tell which statements it never came to.
const covered = "-o3 -Dd_step=atomic"

// whole are the searches that must find nothing, each of them to its end.
var whole = []struct {
	file, defines string
	live          bool // every due key ends, or is visibly blocked
}{
	// Of what is in a d_step, or was merged with what stands before it, spin doesn't tell whether it came there.
	{file: "lease.pml", defines: covered},
	{file: "host.pml", defines: covered},
	{file: "ledger.pml", defines: covered},
	{file: "fence.pml", defines: covered},
	{file: "host.pml", defines: "-DLIVE -DDEATHS=2 -DLOSSES=0 -DNO_LEASE", live: true},
	{file: "host.pml", defines: "-DLIVE -DDEATHS=1 -DLOSSES=1", live: true},
	// An approval is bound to the attempt that its approver saw, so it is used up already when that isn't noted.
	{file: "ledger.pml", defines: "-DNO_SPEND"},
}

// mutants are protocols that lack one step each, with the promise that must be seen broken then.
var mutants = []struct{ file, defines, broken string }{
	{"lease.pml", "-DNO_MARGIN", "beside"},
	{"lease.pml", "-DNO_GUARD", "beside"},
	{"lease.pml", "-DFROM_ANSWER", "beside"},
	{"lease.pml", "-DFROM_LAST_TRY", "beside"},
	{"lease.pml", "-DNO_LOOK", "beside"},
	{"lease.pml", "-DDRIFT=2", "beside"},    // the clocks run apart by more than is assumed
	{"lease.pml", "-DNO_EXCUSE", "beside"},  // the exceptions are real
	{"host.pml", "-DNO_SPOOL", "forgotten"}, // the store first, then the note
	{"host.pml", "-DNO_SPOOL -DONLY=6", "again"},
	{"host.pml", "-DNO_PROOF", "wrong_proof"},
	{"host.pml", "-DNO_PROOF -DONLY=5", "overlap"},
	{"host.pml", "-DNO_ADOPT", "locked_out"},
	{"host.pml", "-DLIVE -DDEATHS=2 -DLOSSES=0 -DNO_LEASE -DNO_TAKEOVER", "ends"},
	{"ledger.pml", "-DNO_CAS", "again"},
	{"ledger.pml", "-DNO_CAS -DONLY=2", "two_owners"},
	{"ledger.pml", "-DNO_EXPECT", "unseen"},
	{"ledger.pml", "-DUNBOUND", "unseen"},
	{"ledger.pml", "-DUNBOUND -DNO_SPEND -DONLY=4", "spent_twice"},
	{"ledger.pml", "-DNO_CORRECTION", "denied"},
	{"ledger.pml", "-DALWAYS_CORRECT", "overruled"},
	{"ledger.pml", "-DNO_KEPT", "forgotten"},
	{"fence.pml", "-DNO_FENCE", "stale_commit"},
	{"fence.pml", "-DTOKEN_AGAIN", "stale_effect"},
	{"fence.pml", "-DNO_OWNER", "robbed"},

	// A hole that is known, see README.md: no mutant, but what the code does.
	{"host.pml", "-DTHAW", "forgotten"},
	{"host.pml", "-DTHAW -DONLY=6", "again"},
}

// possible is what must be able to happen, or the searches would have looked at nothing: the can(N) of the models.
var possible = []struct{ file, n, what string }{
	{"lease.pml", "1", "a grant comes so late that it has to be renewed first"},
	{"lease.pml", "2", "the guard kills the job of a frozen wrapper, by its deadline"},
	{"lease.pml", "3", "a claim is asked again, and adopted"},
	{"lease.pml", "4", "a dead owner's lease isn't over, and its own host takes over"},
	{"host.pml", "5", "a start delivers the end that it finds noted"},
	{"host.pml", "6", "a guard delivers the end that a dead wrapper had noted"},
	{"host.pml", "7", "a claim closes a dead owner's attempt"},
	{"host.pml", "8", "a start finds the flock free, and a job that lives"},
	{"host.pml", "14", "the claim of a dead start is granted late, and nobody on its host knows of it any more"},
	{"ledger.pml", "9", "an end that comes late says SUCCEEDED, as does another attempt: the run was executed twice"},
	{"ledger.pml", "10", "an end comes late, after a person has decided"},
	{"ledger.pml", "11", "an end comes late, and corrects"},
	{"ledger.pml", "12", "an approval is spent"},
	{"fence.pml", "13", "an owner that was replaced ends, and frees nothing"},
}

func TestProtocol(t *testing.T) {
	for _, c := range whole {
		t.Run(c.file+c.defines, func(t *testing.T) {
			t.Parallel()
			out := search(t, c.file, c.defines, c.live, "-O1")
			t.Log(stored.FindString(out))
			for _, sign := range []string{"Search not completed", "max search depth too small", "out of memory", "aborted"} {
				if strings.Contains(out, sign) {
					t.Errorf("the search was cut short: %s\n%s", sign, out)
				}
			}
			if !strings.Contains(out, "errors: 0\n") {
				t.Errorf("a promise doesn't hold:\n%s", out)
			}
			if strings.Contains(out, "BITSTATE") {
				t.Error("the search was not exhaustive")
			}
			if c.defines != covered {
				return
			}
			for _, rule := range unreached(out) {
				t.Errorf("nothing ever comes to %s", rule)
			}
		})
	}
}

func TestMutants(t *testing.T) {
	for _, c := range mutants {
		t.Run(c.file+c.defines, func(t *testing.T) {
			t.Parallel()
			live := strings.Contains(c.defines, "-DLIVE")
			out := search(t, c.file, c.defines, live, short)
			found := violation.FindStringSubmatch(out)
			switch {
			case live && c.broken == "ends" && strings.Contains(out, "pan:1: acceptance cycle"):
			case live || found == nil:
				t.Errorf("%s should be broken; spin found:\n%s", c.broken, out)
			case found[1] != c.broken:
				t.Errorf("%s should be broken; spin found %s", c.broken, found[1])
			}
		})
	}
}

func TestPossible(t *testing.T) {
	for _, c := range possible {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			if out := search(t, c.file, "-DCAN="+c.n, false, short); !strings.Contains(out, "assertion violated ("+c.n+"!="+c.n+")") {
				t.Errorf("it can't happen:\n%s", out)
			}
		})
	}
}

// TestEveryMutant sees to it that what a model offers as a mutant is tried, and nothing else is called one.
func TestEveryMutant(t *testing.T) {
	offered, tried := map[string]bool{}, map[string]bool{}
	names, err := files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := files.ReadFile(name.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range switches.FindAllSubmatch(text, -1) {
			offered[string(found[1])] = true
		}
	}
	note := func(defines string) {
		for _, d := range strings.Fields(strings.ReplaceAll(defines, covered, "")) {
			name, _, _ := strings.Cut(strings.TrimPrefix(d, "-D"), "=")
			tried[name] = true
		}
	}
	for _, c := range mutants {
		note(c.defines)
	}
	for _, c := range whole {
		note(c.defines)
	}
	for _, always := range []string{"CAN", "ONLY", "OWNERS", "STARTS", "ATTEMPTS"} { // sizes, and what the tests above set
		delete(offered, always)
		delete(tried, always)
	}
	for name := range offered {
		if !tried[name] {
			t.Errorf("nobody tries %s", name)
		}
	}
	for name := range tried {
		if !offered[name] {
			t.Errorf("no model knows %s", name)
		}
	}
}

var (
	violation = regexp.MustCompile(`(?m)^pan:1: assertion violated .*!\((\w+)\)\)? \(at depth`)
	stored    = regexp.MustCompile(`\d+ states, stored`)
	place     = regexp.MustCompile(`(?m)^\t(\S+:\d+, state \d+, "(.*)")$`)
	switches  = regexp.MustCompile(`(?m)^#(?:ifn?def|elif defined\() ?(\w+)`)
)

// unreached are the statements that no state has come to, without the ends of what goes on for ever, and without what must not
// be reached: on one host, where no person decides, no end has to be kept beside another.
func unreached(out string) (rules []string) {
	for _, found := range place.FindAllStringSubmatch(out, -1) {
		if found[2] != "-end-" && !(strings.HasPrefix(found[1], "host.pml") && strings.HasPrefix(found[2], "late[")) {
			rules = append(rules, found[1])
		}
	}
	return rules
}

// short is for a search that soon finds what it looks for: to compile its verifier takes longer.
const short = "-O0"

// search makes a verifier of a model and has it look at every state. It gives what that printed.
func search(t *testing.T, file, defines string, live bool, optimise string) string {
	t.Helper()
	for _, need := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Fatalf("%v: install the Debian packages spin and gcc, or type make test-deps", err)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	run("spin", slices.Concat(strings.Fields(defines), []string{"-a", file})...)
	compile, pan := []string{optimise, "-w", "-DMEMLIM=1500", "-o", "pan", "pan.c"}, []string{"-m200000", "-w20"}
	if live {
		compile = append(compile, "-DNFAIR=3")
		pan = append(pan, "-a", "-f") // with weak fairness: whoever always can act does
	} else {
		compile = append(compile, "-DSAFETY")
	}
	run("gcc", compile...)
	return run("./pan", pan...)
}
