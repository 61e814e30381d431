package main_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// The histories of locks and keys, as those know them who typed the commands: what was asked and
// answered, from when to when. Porcupine looks for an order of it all, in which nothing comes before
// what had been answered when it was asked, and each answer is one that the rules allow. It knows
// nothing of the ledger, but for claims whose process was killed before it could tell its answer.

// op is a step of a history.
type op struct {
	what  string
	token int64
	as    string // of a refusal, its reason; of an end, what it is known to be; of a resolve, the state
	sure  bool   // it is known to have been done
}

func (o op) String() string { return fmt.Sprintf("%s %d %s %v", o.what, o.token, o.as, o.sure) }

// never is the end of what nobody has seen end.
const never = int64(math.MaxInt64)

func step(what op, from, to int64) porcupine.Operation {
	return porcupine.Operation{Input: what, Call: from, Return: to}
}

// checkHistories searches one history for the lock, and one for each key.
func (w *world) checkHistories(order []*span, owners map[int64]*start) {
	spans := map[int64]*span{}
	for _, s := range order {
		spans[s.token] = s
	}
	var lock, pauses []porcupine.Operation
	keys := map[int64][]porcupine.Operation{}
	for token, s := range owners {
		if s == nil {
			continue
		}
		claim, end := s.claim(token, spans[token])
		lock = append(lock, claim, end)
		keys[s.key] = append(keys[s.key], claim, end)
		if seen := spans[token]; !s.clean && seen != nil && seen.end == "0" {
			keys[s.key] = append(keys[s.key], step(op{what: "correct", token: token}, seen.to, never))
		}
	}
	for _, s := range w.starts {
		if s.token == 0 && s.answered() {
			why := cmp.Or(s.reason, map[int]string{5: "skip", 79: "blocked"}[s.code])
			keys[s.key] = append(keys[s.key], step(op{what: "refused", as: why}, s.from, s.to))
		}
	}
	for _, a := range w.acts {
		until := a.to
		if a.code != 0 {
			until = never // should it have been done all the same
		}
		o := step(op{what: a.what, as: a.as, sure: a.code == 0}, a.from, until)
		switch {
		case a.code == 1: // it changed nothing
		case a.what == "pause" || a.what == "resume":
			pauses = append(pauses, o)
		case a.what == "rerun" || a.what == "resolve":
			keys[a.key] = append(keys[a.key], o)
		}
	}
	w.search("the lock", lockModel(), lock)
	for key, ops := range keys {
		w.search(fmt.Sprint("key ", key), keyModel(), append(ops, pauses...))
	}
}

// claim is a claim that was granted, and the end of what it began.
func (s *start) claim(token int64, seen *span) (claim, end porcupine.Operation) {
	granted, last := cmp.Or(s.claimed, never), s.from
	if seen != nil {
		granted = min(granted, seen.from+10)
		if last = seen.to; s.orphaned {
			last = seen.from
		}
	}
	ended, as := never, "unknown"
	if s.clean {
		ended = s.to
		switch {
		case s.code == 0:
			as = "succeeded"
		case s.reason == "exit" || s.reason == "signal":
			as = "failed"
		case s.reason == "stopped":
			as = "blocked"
		}
	}
	return step(op{what: "claim", token: token}, s.from, granted), step(op{what: "end", token: token, as: as}, last, ended)
}

// search looks for an order of a history.
func (w *world) search(name string, model porcupine.Model, ops []porcupine.Operation) {
	w.report.Operations += len(ops)
	result := porcupine.CheckOperationsTimeout(model, ops, 20*time.Second)
	if result == porcupine.Ok {
		return
	}
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var text strings.Builder
	for _, o := range ops[:min(len(ops), 150)] {
		fmt.Fprintf(&text, "\n%d %d %v", o.Call, o.Return, o.Input)
	}
	w.violate("history", "the rules allow no order of what was answered about %s (%s):%s", name, result, text.String())
}

// lockModel: a lock has one owner at a time, and its tokens grow. The state is the last token,
// negative while it has none.
func lockModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, _ any) (bool, any) {
			last, o := state.(int64), input.(op)
			if o.what == "claim" {
				return last <= 0 && o.token > -last, o.token
			}
			return last == o.token, -o.token
		},
	}
}

// fate is what a key is.
type fate struct {
	state    string // "": there was no run; running, failed (to be tried again), blocked (failed for good), succeeded, skipped
	token    int64  // of the last attempt, until a person has decided about it
	approved bool   // to be executed once more
	paused   bool   // its job is
}

// keyModel: the claim table of the contract, and what operators may change.
func keyModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{fate{}} },
		Step: func(state, input, _ any) []any {
			var next []any
			for _, f := range state.(fate).after(input.(op)) {
				next = append(next, f)
			}
			return next
		},
	}
	return m.ToModel()
}

// after are the states that can follow a step; none: it can't be taken.
func (f fate) after(o op) (next []fate) {
	may := func(ok bool, states ...string) {
		for _, s := range states {
			if to := f; ok {
				to.state, to.approved = s, false
				next = append(next, to)
			}
		}
	}
	stays := func(ok bool) {
		if ok {
			next = append(next, f)
		}
	}
	switch o.what {
	case "pause", "resume":
		stays(!o.sure)
		f.paused = o.what == "pause"
		stays(true)
	case "claim":
		ok := f.state == "" || f.state == "failed" || f.approved
		f.token = o.token
		may(ok && !f.paused, "running")
	case "end":
		own := f.state == "running" && f.token == o.token
		if o.as != "unknown" {
			may(own, o.as)
			return next
		}
		may(own, "failed", "blocked", "succeeded")
		stays(!own)
	case "correct":
		stays(true)
		may((f.state == "failed" || f.state == "blocked") && f.token == o.token && !f.approved, "succeeded")
	case "refused":
		ended := f.state != "" && f.state != "running"
		switch o.as {
		case "running":
			stays(f.state == "running")
		case "succeeded", "skipped":
			stays(f.state == o.as && !f.approved)
		case "failed":
			stays(f.state == "blocked" && !f.approved)
		case "retry_not_due":
			stays(f.state == "failed" && !f.approved && !f.paused)
		case "paused":
			stays(f.paused && f.state != "running" && (f.state == "" || f.state == "failed" || f.approved))
		case "locked":
			stays(!f.paused && f.state != "running" && (!ended || f.state == "failed" || f.approved))
		case "skip": // one of those but for failed and retry_not_due
			stays(f.state != "blocked" || f.approved)
		case "blocked": // failed, retry_not_due or stale
			stays(f.state != "succeeded" && f.state != "skipped" || f.approved)
		default: // stale
			stays(true)
		}
	case "rerun":
		stays(!o.sure)
		f.approved = true
		stays(f.state != "" && f.state != "running")
	case "resolve":
		stays(!o.sure)
		f.token = 0
		open := f.state == "running" || f.state == "failed" || f.state == "blocked"
		switch o.as {
		case "failed":
			may(f.state == "running", "failed", "blocked")
		case "succeeded":
			may(open, "succeeded")
		case "skipped":
			may(open || f.state == "", "skipped")
		}
	}
	return next
}
