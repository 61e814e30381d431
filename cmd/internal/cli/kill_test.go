package cli

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// witness is a job that keeps its own book, in one file that it appends to. It notes when
// it starts and ends, and when anything of an earlier run that has not ended still runs.
const witness = `
key=$1
tail -n 6 witness | while read what other group; do
	test "$what" = start && ! grep -q "^end $other $group$" witness || continue
	for f in /proc/[0-9]*/stat; do
		{ read line <$f; } 2>/dev/null || continue
		set -- ${line##*)}
		if test "$3" = "$group" && test "$1" != Z; then echo "overlap $key with $other" >>witness; fi
	done
done
echo "start $key $$" >>witness
sleep 0.02
echo "end $key $$" >>witness
`

// TestKillNine kills the wrapper at a random moment, again and again: before, while and
// after its job runs. No two runs ever overlap, none that succeeded is executed again, the
// next start works or says what to type, and afterwards the record tells what happened.
func TestKillNine(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	b := newBed(t)
	for name, text := range map[string]string{"witness.sh": witness, "witness": ""} {
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mode := func() string { return []string{"flock", "create"}[random.IntN(2)] }
	start := func(key string) []string {
		return []string{"run", "settle", "-w", "30s", "-E", "75", "--lock-mode", mode(), "--partition", key, "--", "sh", "witness.sh", key}
	}
	met := map[string]int{}
	for round := range 60 {
		key := fmt.Sprintf("p%d", round)
		p := b.start(start(key)...)
		// The moment is the subject: mostly before, while, and after.
		delay := time.Duration(random.IntN([]int{8_000, 50_000, 4_000}[round%3])) * time.Microsecond
		if round%3 == 2 && !eventually(func() bool { return strings.Contains(b.read("witness"), "end "+key+" ") }) {
			t.Fatalf("%s has not ended", key)
		}
		<-time.After(delay)
		p.kill()
		met[b.afterKill(t, key, start)]++
	}
	t.Logf("what the starts after a kill met: %v", met)
	if text := b.read("witness"); strings.Contains(text, "overlap") {
		t.Errorf("the witness saw an overlap:\n%s", text)
	}
	for _, what := range []string{"locks", "stale", "status"} {
		// The guard of a wrapper that was killed as its job ended shares the lock until it has seen that nothing is left to do.
		if !eventually(func() bool { return len(b.list(t, what)) == 0 }) {
			t.Errorf("%s: left over: %v", what, b.list(t, what))
		}
	}
	if runs := b.list(t, "history", "--limit", "0"); len(runs) != 60 {
		t.Errorf("%d runs", len(runs))
	}
}

// afterKill starts a key whose wrapper was killed, does what it is told to do if that is
// refused, and compares the record with the witness. It returns what the start met.
func (b *bed) afterKill(t *testing.T, key string, start func(string) []string) (met string) {
	t.Helper()
	name := "settle:" + key
	reruns := 0
	explained := b.object(t, "explain", name)
	switch r := b.run(start(key)...); {
	case r.code == 0 && strings.Contains(r.err, "taken_over"):
		met = "void: claimed, but never started"
	case r.code == 0:
		met = "nothing"
	case r.code == 75:
		met = "a success"
	case r.code == 79 && strings.Contains(r.err, "reason=failed") && strings.Contains(r.err, "next=\"onerun rerun "+name+" --reason TEXT"):
		met = "a death"
		b.run("rerun", name, "--reason", "TEXT").exits(t, 0)
		b.run(start(key)...).exits(t, 0)
		reruns = 1
	default:
		t.Fatalf("%s: %+v; explained before: %v", name, r, explained)
	}
	run := b.object(t, "show", name)
	attempts := run["attempts"].([]any)
	text := b.read("witness")
	starts, ends := strings.Count(text, "start "+key+" "), strings.Count(text, "end "+key+" ")
	executed := 0
	for i, a := range attempts {
		a := a.(map[string]any)
		last := i == len(attempts)-1
		if last != (a["status"] == "SUCCEEDED") || !last && a["reason"] != "owner_died" {
			t.Errorf("%s, attempt %d: %v %v", name, i+1, a["status"], a["reason"])
		}
		if a["void"] == false {
			executed++
		}
	}
	// A job can be killed before its first line, or after its last.
	if run["status"] != "SUCCEEDED" || starts > executed || executed > 1+reruns || ends < 1 || ends > 1+reruns {
		t.Errorf("%s met %s: it is %v after %d attempts, %d of them executed; the witness saw %d starts and %d ends", name, met, run["status"], len(attempts), executed, starts, ends)
	}
	if approvals := run["approvals"].([]any); len(approvals) != reruns {
		t.Errorf("%s: %d approvals", name, len(approvals))
	}
	return met
}
