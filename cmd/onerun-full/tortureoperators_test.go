package main_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// act is what an operator has typed.
type act struct {
	what, as string
	key      int64 // of a rerun or a resolve
	from, to int64
	code     int
}

var resolutions = []string{"failed", "succeeded", "skipped"}

// operate presses what there is to be pressed.
func (w *world) operate(end time.Time, r *rand.Rand) {
	self, err := os.Executable()
	if err != nil {
		w.t.Error(err)
		return
	}
	for time.Now().Before(end) {
		time.Sleep(time.Duration(200+r.IntN(1200)) * time.Millisecond)
		h, key := w.hosts[r.IntN(len(w.hosts))], max(0, w.next()-4+r.Int64N(6))
		switch r.IntN(8) {
		case 0, 1, 2:
			if w.act(h, act{what: "rerun", key: key}) != 0 {
				continue
			}
			// Two hosts take it at once, of which one may have it.
			var both sync.WaitGroup
			for _, other := range w.hosts[:2] {
				both.Go(func() { w.begin(other, key, self) })
			}
			both.Wait()
		case 3, 4: // some before they have begun
			w.act(h, act{what: "resolve", as: resolutions[r.IntN(3)], key: key + r.Int64N(3)})
		case 5, 6:
			key = w.next() + r.Int64N(2)
			if w.act(h, act{what: "stop", key: key}) == 0 && r.IntN(2) == 0 { // and says what becomes of it
				time.Sleep(time.Second)
				w.act(h, act{what: "resolve", as: resolutions[1+r.IntN(2)], key: key})
			}
		case 7:
			w.act(h, act{what: "pause"})
			time.Sleep(time.Duration(r.IntN(700)) * time.Millisecond)
			w.act(w.hosts[r.IntN(len(w.hosts))], act{what: "resume"})
		}
	}
}

// act types a command, and remembers it with its answer.
func (w *world) act(h *island, a act) int {
	args := []string{a.what}
	switch a.what {
	case "pause", "resume":
		args = append(args, "settle")
	default:
		args = append(args, fmt.Sprint("settle:", a.key))
	}
	if a.as != "" {
		args = append(args, "--as", a.as)
	}
	a.from = sinceBoot()
	cmd := h.at(w.bin, append(args, "--reason", "the dice said so", "--store-timeout", "2s")...)
	out, err := cmd.CombinedOutput()
	a.to = sinceBoot() + 10
	if cmd.ProcessState == nil {
		w.violate("machine", "%s: %v", a.what, err)
		return -1
	}
	a.code = cmd.ProcessState.ExitCode()
	switch a.code {
	case 0, 1, 69, 73, 74: // done; the state doesn't allow it; out of reach; no room
	default:
		w.violate("operator", "%q: exit status %d; it printed %q", args, a.code, out)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts = append(w.acts, a)
	if a.code == 0 {
		w.report.Operators[a.what]++
	}
	return a.code
}

// decide is what a person does about a run of which the program can't tell whether it still works,
// because its lock file was harmed: sees to it that nothing of it does, and says so. Where there are
// leases nobody needs to.
func (w *world) decide(h *island, log string) bool {
	_, text, ok := strings.Cut(log, `holder="settle:`)
	key, err := strconv.ParseInt(strings.Fields(text + " -")[0], 10, 64)
	return w.server == nil && strings.Contains(log, "reason=stale") && ok && err == nil && !w.works(key) &&
		w.act(h, act{what: "resolve", as: "failed", key: key}) == 0
}

// works reports whether a job for a key does.
func (w *world) works(key int64) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		text, _ := os.ReadFile(name) // what is gone works no more
		if bytes.Contains(text, fmt.Appendf(nil, "ONERUN_KEY=settle:%d\x00", key)) && bytes.Contains(text, []byte(workerWitness+"="+w.witness+"\x00")) {
			return true
		}
	}
	return false
}
