package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// heal makes everything whole, and lets what waits be delivered. It reports whether there is a ledger to look at.
func (w *world) heal() bool {
	for _, h := range w.hosts {
		if h.net != nil {
			h.net.Pass(true, true)
		}
	}
	for i := 0; ; i++ {
		code := w.act(w.hosts[0], act{what: "resume"})
		if code == 0 || code == 1 {
			break
		}
		if i == 20 {
			w.violate("recovery", "resume ends with %d, again and again", code)
			return false
		}
	}
	for _, h := range w.hosts {
		for i := 0; ; i++ {
			out, err := h.at(w.bin, "flush").CombinedOutput()
			if strings.Contains(string(out), "nothing waits") {
				break
			}
			if i == 20 {
				w.violate("recovery", "flush, again and again: %v, %q", err, out)
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	for i, h := range w.hosts { // what nobody was left to record, the next start of the job on that host finds
		start := func() (string, error) {
			out, err := h.at(w.bin, "run", "settle", "--partition", fmt.Sprint("after-", i), "--wait", "1m", "--", "true").CombinedOutput()
			return string(out), err
		}
		out, err := start()
		if err != nil && w.decide(h, out) {
			out, err = start()
		}
		if err != nil {
			w.violate("recovery", "a start when all is whole again: %v, %q", err, out)
		}
	}
	return true
}

// span is what the witness saw of one execution.
type span struct {
	token, from, to int64 // ms since boot: its first and last sign of life
	key             int64
	end             string // its exit status; "": it didn't get so far
	begun           int
}

// seen are the executions that the witness saw, the oldest token first.
func (w *world) seen() (order []*span) {
	spans := map[int64]*span{}
	text, err := os.ReadFile(w.witness)
	if err != nil {
		w.violate("machine", "%v", err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			w.violate("machine", "the witness saw %q", line)
			continue
		}
		token, _ := strconv.ParseInt(f[1], 10, 64)
		s := spans[token]
		at, _ := strconv.ParseInt(f[3], 10, 64)
		if s == nil {
			s = &span{token: token, from: at, to: at}
			s.key, _ = strconv.ParseInt(strings.TrimPrefix(f[2], "settle:"), 10, 64)
			spans[token] = s
			order = append(order, s)
		}
		switch f[0] {
		case "end":
			s.end = f[3]
			continue
		case "begin":
			s.begun++
		}
		s.to = max(s.to, at)
	}
	slices.SortFunc(order, func(a, b *span) int { return int(a.token - b.token) })
	return order
}

// check holds everything against what the witnesses saw.
func (w *world) check() {
	order := w.seen()
	w.report.Executions = len(order)
	owners := w.checkLedger(order)
	var last *span // the one of those before that was seen last
	for _, s := range order {
		if s.begun != 1 {
			w.violate("overlap", "token %d (%d) was given to %d jobs", s.token, s.key, s.begun)
		}
		switch {
		case last == nil || s.from >= last.to:
		case owners[last.token] != nil && owners[last.token].orphaned:
			w.report.Excepted++
		default:
			w.violate("overlap", "token %d (%d) worked from %d ms to %d, and token %d (%d) from %d to %d", last.token, last.key, last.from, last.to, s.token, s.key, s.from, s.to)
		}
		if last == nil || s.to > last.to {
			last = s
		}
	}
	if w.tables != nil {
		if err := w.tables.check(); err != nil {
			w.violate("commit", "%v", err)
		}
	}
	w.checkHistories(order, owners)
}

type attempt struct {
	Attempt  int                              `json:"attempt"`
	Token    int64                            `json:"token"`
	PID      int                              `json:"pid"`
	Status   string                           `json:"status"`
	Reason   string                           `json:"reason"`
	ClosedBy string                           `json:"closed_by"`
	Void     bool                             `json:"void"`
	Late     *struct{ Status, Reason string } `json:"late_outcome"`
}

type approval struct {
	Status  string `json:"status"`
	Attempt int    `json:"attempt"`
	Used    int    `json:"used_attempt"`
}

type shown struct {
	Partition string     `json:"partition"`
	Status    string     `json:"status"`
	Attempts  []attempt  `json:"attempts"`
	Approvals []approval `json:"approvals"`
}

// query asks the ledger, when all is whole again.
func (w *world) query(into any, args ...string) bool {
	out, err := w.hosts[0].at(w.bin, append(args, "--json")...).Output()
	if err == nil {
		err = json.Unmarshal(out, into)
	}
	if err != nil {
		w.violate("recovery", "onerun %q: %v", args, err)
	}
	return err == nil
}

// checkLedger: every end that a job told is the recorded one, unless it was killed before it could
// end; and what follows a success was approved, each time anew. It returns whose the tokens are, nil
// for those of nobody who is known.
func (w *world) checkLedger(order []*span) map[int64]*start {
	owners := map[int64]*start{}
	var runs []struct {
		RunID string `json:"run_id"`
	}
	if !w.query(&runs, "history", "settle", "--limit", "0") {
		return owners
	}
	spans := map[int64]*span{}
	for _, s := range order {
		spans[s.token] = s
	}
	type who struct { // a process's number can be another's later
		pid int
		key string
	}
	silent := map[who]*start{} // those that don't tell of a claim
	for _, s := range w.starts {
		if s.token != 0 {
			owners[s.token] = s
		} else {
			silent[who{s.pid, fmt.Sprint(s.key)}] = s
		}
	}
	recorded := map[int64]bool{}
	for _, run := range runs {
		var of shown
		if !w.query(&of, "show", run.RunID) {
			continue
		}
		used := map[int]approval{}
		for _, a := range of.Approvals {
			if _, twice := used[a.Used]; a.Used != 0 && twice {
				w.violate("again", "%s: two approvals were used for attempt %d", of.Partition, a.Used)
			}
			used[a.Used] = a
		}
		for i, a := range of.Attempts {
			recorded[a.Token] = true
			if i > 0 {
				before := of.Attempts[i-1]
				ok := used[a.Attempt]
				if before.Status == "SUCCEEDED" && (ok.Attempt != before.Attempt || ok.Status != "SUCCEEDED") {
					w.violate("again", "%s was executed after it had SUCCEEDED, without an approval: %+v after %+v", of.Partition, a, before)
				}
			}
			if owners[a.Token] == nil {
				owners[a.Token] = silent[who{a.PID, of.Partition}]
			}
			w.checkAttempt(of.Partition, a, spans[a.Token], owners[a.Token])
		}
	}
	for _, s := range order {
		if !recorded[s.token] {
			w.violate("lost outcome", "token %d (%d) worked, and isn't in the ledger", s.token, s.key)
		}
	}
	return owners
}

// checkAttempt compares what is recorded with how the job has ended. s is the start that it was of.
func (w *world) checkAttempt(partition string, a attempt, seen *span, s *start) {
	w.report.Reasons[strings.TrimSpace(a.Status+" "+a.Reason)]++
	status, reason := a.Status, a.Reason
	if a.Late != nil {
		status, reason = a.Late.Status, a.Late.Reason
	}
	if a.Status == "RUNNING" {
		w.violate("lost outcome", "%s is still RUNNING: %+v", partition, a)
		return
	}
	end := ""
	if seen != nil {
		end = seen.end
	}
	if s != nil && seen != nil && (s.code == 73 || s.code == 74) && s.alone {
		w.violate("disk", "%s token %d was executed by a start that ended with %d", partition, a.Token, s.code)
	}
	if status == "SUCCEEDED" && end != "0" && a.ClosedBy != "operator" && !strings.HasPrefix(partition, "after-") {
		w.violate("lost outcome", "%s token %d is recorded as SUCCEEDED, and ended with %q: %+v", partition, a.Token, end, a)
		return
	}
	killed := slices.Contains([]string{"signal", "owner_died", "lease_lost", "stopped"}, reason) || reason == "lease_expired" && s != nil && s.orphaned
	if end == "" || killed || (end == "0") == (status == "SUCCEEDED") {
		return // killed between its last word and its end, at the latest
	}
	if s != nil && s.host.hidden(s) {
		w.report.Excepted++
		return
	}
	w.violate("lost outcome", "%s token %d ended with %s, and is recorded as %s %s (late: %+v): %+v", partition, a.Token, end, a.Status, a.Reason, a.Late, a)
}

// hidden reports whether the end of a start can have stood in a lock file that was harmed: all that
// its host had of it.
func (h *island) hidden(s *start) bool {
	return slices.ContainsFunc(h.spoiled, func(at int64) bool { return at >= s.from && (!s.clean || at <= s.to) })
}
