package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestTorture tears runs apart at random moments, in three lanes at once, and finds no two
// of one lane at a time, nothing that survives, nothing that hangs, and no end that isn't
// the job's own where nobody touched it. TORTURE_SEED repeats a failed test's choices, if not
// its moments; TORTURE_ROUNDS makes it longer.
func TestTorture(t *testing.T) {
	t.Parallel()
	seed, rounds := uint64(time.Now().UnixNano()), 30
	if s := os.Getenv("TORTURE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	if s := os.Getenv("TORTURE_ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	var lanes sync.WaitGroup
	for lane := range 3 {
		lanes.Go(func() { torture(t, newBed(t), rand.New(rand.NewPCG(seed, uint64(lane))), rounds) })
	}
	lanes.Wait()
	if t.Failed() {
		t.Logf("again: TORTURE_SEED=%d TORTURE_ROUNDS=%d", seed, rounds)
	}
}

func torture(t *testing.T, b *bed, r *rand.Rand, rounds int) {
	if err := os.WriteFile(b.path("witness.sh"), []byte(tortured), 0o600); err != nil {
		t.Error(err)
		return
	}
	var story []string
	own := map[string]string{} // how those ended that nobody touched
	for i := range rounds {
		key := "p" + strconv.Itoa(i)
		nature, code, a := natures[r.IntN(len(natures))], r.IntN(2)*3, assaults[r.IntN(len(assaults))]
		args := []string{"run", "job", "--partition", key, "-w", "20s", "--grace", "50ms"}
		if a.group {
			args = append(args, "--hold", "tree")
			nature = []string{"plain", "children", "stubborn", "flood", "closes", "parts"}[r.IntN(6)]
		}
		if timeout := r.IntN(4) == 0; timeout {
			args = append(args, "--timeout", strconv.Itoa(30+r.IntN(150))+"ms")
		} else if a.harmless {
			own[key] = map[int]string{0: "SUCCEEDED", 3: "FAILED"}[code]
		}
		if output := r.IntN(5); output < 3 {
			args = append(args, []string{"--output=on-failure", "--output=never", "--capture=none"}[output])
		}
		cmd := b.command(append(args, "--", "sh", "witness.sh", nature, strconv.Itoa(code), shuffled(r, "0 1 2 3 4 5 6"))...)
		closed, reads := "", r.IntN(4)
		if r.IntN(4) == 0 {
			closed = closeSome(r, cmd)
		}
		p := launch(t, cmd)
		go func() { _, _ = io.Copy(io.Discard, p.out) }()
		if reads == 0 && !slices.Contains(args, "--capture=none") { // without a pipe in between, SIGPIPE is the job's own
			_ = p.read.Close()
		}
		moment, length := time.Duration(r.IntN(160))*time.Millisecond, time.Duration(r.IntN(120))*time.Millisecond
		what := fmt.Sprintf("%s: %s %d, %v, closed %q, read %v, after %s %s (%s)", key, nature, code, args[4:], closed, reads != 0, moment, a.name, length)
		story = append(story, what)
		<-time.After(moment)
		a.do(victim{p, key, func() { <-time.After(length) }})
		select {
		case err := <-p.ended:
			if got := codeOf(err); own[key] != "" && got != code {
				t.Errorf("%s: exit status %d, want %d; %s", what, got, code, p.err.String())
			}
		case <-time.After(patience):
			t.Errorf("%s: it hangs", what)
			return
		}
	}
	// One more start settles what is still open, when nothing of it lives any more.
	b.run("run", "job", "--partition", "last", "-w", "20s", "--", "sh", "witness.sh", "plain", "0").exitsInLane(t, 0)
	if exists(b.path("overlaps")) {
		t.Errorf("two jobs at a time: %s\n%s", strings.Fields(b.read("overlaps")), strings.Join(story, "\n"))
	}
	begun, finished := strings.Fields(b.read("begun")), strings.Fields(b.read("finished"))
	if n := len(begun); n != len(slices.Compact(slices.Sorted(slices.Values(begun)))) {
		t.Errorf("a key has begun twice: %v", begun)
	}
	for _, run := range b.list(t, "history", "--limit", strconv.Itoa(rounds+1)) {
		key, status := run["partition"].(string), run["status"].(string)
		switch {
		case status == "RUNNING":
			t.Errorf("%s is RUNNING", key)
		case status == "SUCCEEDED" && !slices.Contains(finished, key):
			t.Errorf("%s is SUCCEEDED, and has never finished", key)
		case own[key] != "" && status != own[key]:
			t.Errorf("%s is %s %v, want %s", key, status, run["reason"], own[key])
		}
	}
	if !eventually(func() bool { return len(b.survivors()) == 0 }) {
		t.Errorf("survivors: %v", b.survivors())
	}
}

// shuffled are words in a random order.
func shuffled(r *rand.Rand, words string) string {
	w := strings.Fields(words)
	r.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
	return strings.Join(w, " ")
}

// closeSome has a program start without some of its standard descriptors.
func closeSome(r *rand.Rand, cmd *exec.Cmd) (closed string) {
	for fd := range 3 {
		if r.IntN(2) == 0 {
			closed += fmt.Sprintf(" %d>&-", fd)
		}
	}
	cmd.Args = append([]string{"sh", "-c", `exec "$@"` + closed, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return closed
}

func (r result) exitsInLane(t *testing.T, code int) {
	if r.code != code {
		t.Errorf("exit status %d, want %d; %s", r.code, code, r.err)
	}
}

// survivors are the processes that were started on the bed's store, guards too.
func (b *bed) survivors() (pids []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		text, _ := os.ReadFile(name) // gone meanwhile, or a zombie
		if strings.Contains(string(text), "ONERUN_STORE=sqlite:"+b.path("store")+"\x00") {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}
