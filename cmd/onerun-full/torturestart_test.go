package main_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// start is one start of the job, as who started it knows it. Times are in ms since boot, the clock
// of the witness.
type start struct {
	host     *island
	key      int64
	pid      int
	from, to int64

	code    int
	alone   bool   // it ended by itself
	token   int64  // 0: it says nothing of a claim
	claimed int64  // it was granted by then
	reason  string // of a refusal, as far as it is told (equal ones are at counts 1, 2, 4, 8 …); else of a failure
	clean   bool   // its end is in the ledger, as far as it knows
	ended   chan struct{}
	cmd     *exec.Cmd

	orphaned bool // it was killed when no guard of it could be seen: what it began may go on
}

// answered reports whether a start was granted its claim, or refused.
func (s *start) answered() bool { return s.token != 0 || s.alone && (s.code == 5 || s.code == 79) }

// live starts the jobs on a host, again and again. The first lane of a host waits now and then, the
// others are more of a crowd.
func (w *world) live(h *island, lane int, end time.Time, r *rand.Rand) {
	self, err := os.Executable()
	if err != nil {
		w.t.Error(err)
		return
	}
	for time.Now().Before(end) {
		var wait []string
		if lane == 0 && r.IntN(3) == 0 {
			wait = []string{"--wait", "3s"}
		}
		s := w.begin(h, w.next()+r.Int64N(2), self, wait...)
		pause := w.pause
		if lane == 0 {
			pause /= 10
		}
		if lane > 0 || s.token == 0 { // as schedulers do, who would start it again
			time.Sleep(time.Duration(r.Int64N(int64(pause))))
		}
	}
}

// begin starts the job for a key, and waits for the end of the start.
func (w *world) begin(h *island, key int64, self string, more ...string) *start {
	args := []string{
		"run", "settle", "--partition", strconv.FormatInt(key, 10), "--ttl", w.ttl.String(), "--grace", "1s", "--finish-wait", "2s", "--store-timeout", "1s",
		"--retries", "50", "--backoff", "0s..200ms", "--retry-later", "--retry-lost", "-E", "5", "--log-level", "info",
	}
	s := &start{host: h, key: key, ended: make(chan struct{}), cmd: h.at(w.bin, append(append(args, more...), "--", self)...)}
	log := &listener{}
	s.cmd.Stdout, s.cmd.Stderr = &bytes.Buffer{}, log
	s.from = sinceBoot()
	if err := s.cmd.Start(); err != nil {
		w.violate("machine", "start: %v", err)
		return s
	}
	s.pid = s.cmd.Process.Pid
	h.enter(s)
	hung := time.AfterFunc(2*time.Minute, func() {
		w.violate("hang", "the start of %d (process %d) doesn't end; it printed %q", key, s.pid, log.text())
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		_ = s.cmd.Process.Kill()
	})
	_ = s.cmd.Wait()
	hung.Stop()
	s.to = sinceBoot() + 10 // the clock's grain
	close(s.ended)
	h.leave(s)
	s.code, s.alone = s.cmd.ProcessState.ExitCode(), s.cmd.ProcessState.Exited()
	s.read(log)
	if s.alone && !slices.Contains([]int{0, 1, 5, 9, 69, 73, 74, 75, 76, 79, 128 + 9, 128 + 15}, s.code) {
		w.violate("exit", "a start ended with %d; it printed %q", s.code, log.text())
	}
	w.mu.Lock()
	w.starts = append(w.starts, s)
	w.mu.Unlock()
	if s.code == 0 && s.clean || slices.Contains([]string{"succeeded", "failed", "skipped"}, s.reason) && s.token == 0 {
		w.settled(key)
	}
	w.decide(h, log.text())
	return s
}

// read takes from the log of a start what was claimed or refused, and how it ended.
func (s *start) read(log *listener) {
	s.claimed = log.claimed
	unrecorded := false
	for line := range strings.Lines(log.text()) {
		switch field(line, "event") {
		case "claimed":
			s.token, _ = strconv.ParseInt(field(line, "token"), 10, 64)
		case "skipped":
			s.reason = field(line, "reason")
		case "finished":
			s.clean = true
		case "failed":
			s.clean, s.reason = true, field(line, "reason")
		}
		unrecorded = unrecorded || strings.Contains(line, "not recorded yet")
	}
	s.clean = s.clean && s.token != 0 && s.alone && !unrecorded && s.code != 75 && s.code != 76
}

// field is a field of a line of the log; "": it has none.
func field(line, name string) string {
	_, rest, ok := strings.Cut(" "+line, " "+name+"=")
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return value
}

// listener keeps what a start says, and when it says that it has won its claim.
type listener struct {
	mu      sync.Mutex
	buf     bytes.Buffer
	claimed int64
}

func (l *listener) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claimed == 0 && bytes.Contains(b, []byte(" event=claimed ")) {
		l.claimed = sinceBoot() + 10
	}
	return l.buf.Write(b)
}

func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// at is a command of some build of the program, on the host.
func (h *island) at(dir string, args ...string) *exec.Cmd {
	argv := append([]string{filepath.Join(dir, "onerun")}, args...)
	if h.small != nil {
		argv = append(h.small.enter(h.dir), argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = h.dir, h.env
	return cmd
}

func (h *island) enter(s *start) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = append(h.now, s)
}

func (h *island) leave(s *start) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = slices.DeleteFunc(h.now, func(other *start) bool { return other == s })
}

// victim is the start that works on a host, else one that only asks; nil: there is none.
func (h *island) victim() *start {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found *start
	for _, s := range h.now {
		if found = cmp.Or(found, s); len(s.children()) > 0 {
			return s
		}
	}
	return found
}

func (s *start) children() []int { return childrenOf(&process{cmd: s.cmd}) }

// guard is the guard of a start; 0: there is none that lives.
func (s *start) guard() int {
	for _, pid := range s.children() {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // what is gone is none
		if isGuard(pid) && !bytes.Contains(stat, []byte(") Z ")) {
			return pid
		}
	}
	return 0
}

// job is the job of a start; 0: there is none.
func (s *start) job() int {
	for _, pid := range s.children() {
		if !isGuard(pid) {
			return pid
		}
	}
	return 0
}

// signal reaches the wrapper as long as it hasn't been waited for.
func (s *start) signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }
