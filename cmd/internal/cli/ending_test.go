package cli

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// trees are jobs that are hard to end. Each says "up" when all of it is there.
var trees = map[string]string{
	"more to come":              "touch up; sleep 100; true",
	"pipe":                      "touch up; sleep 100 | cat",
	"pipe that isn't read":      "touch up; yes | sleep 100",
	"deaf":                      "trap '' TERM; (sleep 100; sleep 100) & touch up; sleep 100; sleep 100",
	"deaf to all":               "trap '' TERM INT HUP QUIT PIPE USR1 USR2; (sleep 100; sleep 100) & touch up; while :; do sleep 1; done",
	"left":                      "setsid sh -c 'touch up; exec sleep 100' & wait",
	"left and deaf":             "setsid sh -c 'trap \"\" TERM; touch up; while :; do sleep 1; done' & wait",
	"left twice":                "setsid sh -c 'setsid sh -c \"trap : TERM; touch up; while :; do sleep 1; done\" & wait' & wait",
	"stopped":                   "sleep 100 & touch up; kill -STOP 0; wait",
	"stopped and deaf":          "trap '' TERM; sleep 100 & touch up; kill -STOP 0; sleep 100",
	"left and stopped":          "setsid sh -c 'touch up; kill -STOP $$; sleep 100' & wait",
	"nohup":                     "nohup sleep 100 >nohup.out 2>&1 & touch up; wait",
	"forks on":                  "trap '' TERM; touch up; while :; do (sleep 1) & sleep 0.01; done",
	"ends well when it is told": "trap 'exit 0' TERM; touch up; while :; do sleep 0.01; done",
}

// survey tells of every process of the bed's tree that can still do something.
const survey = `grep -lzsxF "TREE=$PWD" /proc/[0-9]*/environ | while IFS=/ read -r _ _ pid _; do
	grep -sq '^State:.[^ZX]' /proc/$pid/status && tr '\0' ' ' </proc/$pid/cmdline
done >beside
:`

// TestTimeoutLeavesNothing: when onerun ends after --timeout, all of the job is gone, whatever
// it does about it, and whoever waits for the lock gets it no earlier. All trees at once,
// since each takes its time.
func TestTimeoutLeavesNothing(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for name, tree := range trees {
		for _, how := range [][]string{{"run", "settle"}, {"lock", "L"}} {
			b := newBed(t)
			all.Go(func() { endTree(t, b, how[0]+", "+name, tree, how) })
		}
	}
	all.Wait()
}

func endTree(t *testing.T, b *bed, name, tree string, how []string) {
	p := b.start(slices.Concat(how, []string{"--timeout", "5s", "--grace", "100ms", "--", "env", "TREE=" + b.dir, "sh", "-c", tree})...)
	if !eventually(func() bool { return exists(b.path("up")) }) {
		t.Errorf("%s: it isn't up", name)
		return
	}
	next := b.start(slices.Concat(how, []string{"-w", "forever", "--", "sh", "-c", survey})...)
	if code := p.wait(); code != 124 {
		t.Errorf("%s: exit status %d; %s", name, code, p.err.String())
	}
	if left := b.ofTree(); len(left) != 0 {
		t.Errorf("%s: left are %v", name, left)
	}
	if code := next.wait(); code != 0 || b.read("beside") != "" {
		t.Errorf("%s: the next one, exit status %d, runs beside %q", name, code, b.read("beside"))
	}
	if how[0] == "lock" {
		return
	}
	if run := b.list(t, "history")[1]; run["status"] != "FAILED" || run["reason"] != "timeout" {
		t.Errorf("%s: it is %v %v", name, run["status"], run["reason"])
	}
}

// ofTree are the processes of a job that TREE marks, among those of the bed.
func (b *bed) ofTree() []string {
	return slices.DeleteFunc(b.survivors(), func(pid string) bool {
		text, _ := os.ReadFile("/proc/" + pid + "/environ")
		n, _ := strconv.Atoi(pid)
		return !strings.Contains(string(text), "TREE="+b.dir+"\x00") || !runs(n)
	})
}

// TestSignalToEverybody: a service manager signals all the processes of a unit, wrapper, guard
// and job, in whatever order. The end is recorded, by whoever is left to do so, and the next
// start is none the worse.
func TestSignalToEverybody(t *testing.T) {
	t.Parallel()
	orders := map[string]func(wrapper, guard string, job []string) []string{
		"wrapper first": func(w, g string, job []string) []string { return append([]string{w, g}, job...) },
		"guard first":   func(w, g string, job []string) []string { return append([]string{g, w}, job...) },
		"job first":     func(w, g string, job []string) []string { return append(slices.Clone(job), g, w) },
	}
	for _, c := range []struct {
		signals []syscall.Signal
		job     string
		code    int
		reasons []string
		signal  any
	}{
		{[]syscall.Signal{syscall.SIGTERM}, "touch up; sleep 600 & wait", 143, []string{"signal"}, "SIGTERM"},
		{[]syscall.Signal{syscall.SIGTERM}, "setsid sleep 600 & touch up; trap 'exit 7' TERM; while :; do sleep 0.01; done", 7, []string{"exit"}, nil},
		{[]syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGCONT}, "touch up; sleep 600", 129, []string{"signal"}, "SIGHUP"},
		{[]syscall.Signal{syscall.SIGKILL}, "setsid sleep 600 & touch up; wait", 137, []string{"owner_died", "signal"}, nil},
		{[]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}, "trap '' TERM; setsid sleep 600 & touch up; while :; do sleep 1; done", 137, []string{"owner_died", "signal"}, nil},
	} {
		for order, sort := range orders {
			b := newBed(t)
			b.env = append(b.env, "TREE="+b.dir)
			p := b.start("run", "settle", "--partition", "p", "--log-file", b.path("log"), "--", "sh", "-c", c.job)
			guard := guardOf(t, p, 0)
			if !eventually(func() bool { return exists(b.path("up")) }) {
				t.Fatal("the job isn't up")
			}
			wrapper := strconv.Itoa(p.cmd.Process.Pid)
			job := slices.DeleteFunc(b.ofTree(), func(pid string) bool { return pid == wrapper })
			for _, s := range c.signals {
				for _, pid := range sort(wrapper, strconv.Itoa(guard), job) {
					n, _ := strconv.Atoi(pid)
					_ = syscall.Kill(n, s) // the one before may have taken it along
				}
			}
			if code := p.wait(); code != c.code {
				t.Errorf("%v, %s: exit status %d, want %d", c.signals, order, code, c.code)
			}
			if !eventually(func() bool { return len(b.ofTree()) == 0 && !runs(guard) }) {
				t.Errorf("%v, %s: left are %v", c.signals, order, b.ofTree())
			}
			b.run("run", "settle", "--partition", "q", "--log-file", b.path("log"), "-w", "30s", "--", "true").exits(t, 0)
			b.run("run", "settle", "--partition", "p", "--log-file", b.path("log"), "--", "touch", "again").exits(t, 79)
			run := b.object(t, "show", "settle:p")
			if run["status"] != "FAILED" || !slices.Contains(c.reasons, run["reason"].(string)) || len(c.reasons) == 1 && run["signal"] != c.signal || exists(b.path("again")) {
				t.Errorf("%v, %s: it is %v %v %v", c.signals, order, run["status"], run["reason"], run["signal"])
			}
		}
	}
}

// TestTimeoutAsksFirst: what has left the group is asked to end, too, also when it is stopped,
// and by the guard when the wrapper can't.
func TestTimeoutAsksFirst(t *testing.T) {
	t.Parallel()
	for _, frozen := range []bool{false, true} {
		b := newBed(t)
		p := b.start("run", "settle", "--timeout", "5s", "--grace", "10m", "--", "sh", "-c",
			`setsid sh -c 'trap "touch asked; exit" TERM; touch up; kill -STOP $$; while :; do sleep 0.01; done' & wait`)
		guard := guardOf(t, p, 0)
		if !eventually(func() bool { return exists(b.path("up")) }) {
			t.Fatal("the job isn't up")
		}
		if frozen {
			p.signal(syscall.SIGSTOP)
		}
		if !eventually(func() bool { return exists(b.path("asked")) }) {
			t.Errorf("frozen %v: what has left the group was not asked to end", frozen)
		}
		// Before the guard ends it: the grace is long. To a wrapper that has slept through it
		// all, the guard's signal is as anybody's.
		p.signal(syscall.SIGCONT)
		if code := p.wait(); code != 124 && !(frozen && code == 143) {
			t.Errorf("frozen %v: exit status %d; %s", frozen, code, p.err.String())
		}
		if !eventually(func() bool { return !runs(guard) }) {
			t.Errorf("frozen %v: the guard goes on", frozen)
		}
	}
}
