package main

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
	"syscall"
	"testing"
	"time"
)

// The witness of a lane is a file that a job and all that it starts hold locked, in
// whatever group or session: should a second job begin while anything of the first one
// lives, it is refused that lock and says so. Argument 1 is what the job is like, 2 how
// it exits. What it leaves ends before its first process does, if nobody is killed.
const tortured = `
exec 9>>witness
flock -n 9 || { echo "$ONERUN_PARTITION" >>overlaps; exit 99; }
echo "$ONERUN_PARTITION" >>begun
case $1 in
children) sleep 0.15 & ;;
left) setsid sleep 0.15 & ;;
deep) (setsid sh -c 'setsid sleep 0.15 & sleep 0.1; wait' & wait) & ;;
stubborn) trap '' TERM; (trap '' TERM; sleep 0.15) & ;;
flood) head -c 3M /dev/zero; head -c 1M /dev/zero >&2 ;;
closed) exec >&- 2>&- ;;
esac
sleep 0.1
wait
echo "$ONERUN_PARTITION" >>finished
exit $2
`

var natures = []string{"plain", "children", "left", "deep", "stubborn", "flood", "closed"}

// assaults are what befalls a run. harmless ones leave it its own end. None has the first
// process end before what it has started: that would be left alone, and so no survivor.
var assaults = []struct {
	name     string
	harmless bool
	do       func(p *proc, pause func())
}{
	{"nothing", true, func(*proc, func()) {}},
	{"kill the wrapper", false, func(p *proc, _ func()) { p.signal(syscall.SIGKILL) }},
	{"kill the guard", true, func(p *proc, _ func()) { p.signalGuard(syscall.SIGKILL) }},
	{"kill the guard, then the wrapper", false, func(p *proc, pause func()) {
		p.signalGuard(syscall.SIGKILL)
		pause()
		p.signal(syscall.SIGKILL)
	}},
	{"freeze the wrapper for a while", true, func(p *proc, pause func()) {
		p.signal(syscall.SIGSTOP)
		pause()
		p.signal(syscall.SIGCONT)
	}},
	{"freeze the wrapper, then kill it", false, func(p *proc, pause func()) {
		p.signal(syscall.SIGSTOP)
		pause()
		p.signal(syscall.SIGKILL)
	}},
	{"freeze the guard, kill the wrapper, let the guard go on", false, func(p *proc, pause func()) {
		guards := p.signalGuard(syscall.SIGSTOP)
		p.signal(syscall.SIGKILL)
		pause()
		for _, pid := range guards {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}},
	{"freeze both, kill the wrapper, let the guard go on", false, func(p *proc, pause func()) {
		p.signal(syscall.SIGSTOP)
		guards := p.signalGuard(syscall.SIGSTOP)
		pause()
		p.signal(syscall.SIGKILL)
		for _, pid := range guards {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}},
	{"stop it, then kill the wrapper", false, func(p *proc, pause func()) {
		stop := exec.Command(program(), "stop", "job:"+p.cmd.Args[4], "--reason", "torture")
		stop.Env = p.cmd.Env
		if stop.Start() != nil {
			return
		}
		pause()
		p.signal(syscall.SIGKILL)
		_ = stop.Wait() // there may be nothing to stop any more
	}},
}

func (p *proc) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *proc) signalGuard(s syscall.Signal) []int {
	pids := guardsOf(p.cmd.Process.Pid)
	for _, pid := range pids {
		_ = syscall.Kill(pid, s)
	}
	return pids
}

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
		nature, code, assault := natures[r.IntN(len(natures))], r.IntN(2)*3, assaults[r.IntN(len(assaults))]
		args := []string{"run", "job", "--partition", key, "-w", "20s", "--grace", "50ms"}
		if timeout := r.IntN(4) == 0; timeout {
			args = append(args, "--timeout", strconv.Itoa(30+r.IntN(150))+"ms")
		} else if assault.harmless {
			own[key] = map[int]string{0: "SUCCEEDED", 3: "FAILED"}[code]
		}
		p := b.start(append(args, "--", "sh", "witness.sh", nature, strconv.Itoa(code))...)
		go func() { _, _ = io.Copy(io.Discard, p.out) }()
		moment, length := time.Duration(r.IntN(160))*time.Millisecond, time.Duration(r.IntN(120))*time.Millisecond
		what := fmt.Sprintf("%s: %s, %v, after %s %s (%s)", key, nature, args[2:], moment, assault.name, length)
		story = append(story, what)
		<-time.After(moment)
		assault.do(p, func() { <-time.After(length) })
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
