package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"regexp"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/notify"
)

// guardTell is what a guard needs to tell of an end that it records. It goes through the
// guard's pipe, as the rest of its task: the addresses are secrets.
type guardTell struct {
	On       []notify.Event // not Events, which is written and read as one word
	URLs     []string
	Ping     string
	Patterns []string // of what is masked
	Flags    string   // of the store, for commands to be typed
	Retries  int
	Dir      string
	Run      onerun.Run // as far as it fits
}

// maxGuardTell bounds it: all of the task has to fit into the pipe before the guard reads.
const maxGuardTell = 32 << 10

// forGuard is what the guard of a run needs; nil: there is nobody to tell.
func (x *execution) forGuard(r onerun.Run) *guardTell {
	if x.tell == nil {
		return nil
	}
	l := x.tell.listeners
	g := &guardTell{
		On: l.on, URLs: l.urls, Ping: l.pingURL, Flags: x.tell.flags, Retries: x.tell.policy.Retries,
		Run: onerun.Run{
			RunID: r.RunID, Namespace: r.Namespace, Job: r.Job, Partition: r.Partition, BusinessDate: r.BusinessDate, Lock: r.Lock, Attempt: r.Attempt,
			Execution: onerun.Execution{StartedAt: r.StartedAt, Worker: r.Worker},
		},
	}
	for _, p := range x.secrets {
		g.Patterns = append(g.Patterns, p.String())
	}
	g.Dir, _ = os.Getwd() // else the commands run where the guard does
	if text, err := json.Marshal(g); err != nil || len(text) > maxGuardTell {
		return nil
	}
	return g
}

// tell says how a run ended whose wrapper could not. The lock is free by then. recorded is
// why the ledger doesn't know it yet; nil: it does. late is what became of it there, if it had
// no claim.
func (g *guardTell) tell(s hostLocked, out onerun.Outcome, recorded error, late []onerun.Delivery) {
	l := &listeners{on: g.On, urls: g.URLs, pingURL: g.Ping}
	for _, u := range g.URLs {
		if target, err := notify.Parse(u); err == nil { // as it was when the wrapper read it
			l.targets = append(l.targets, target)
		}
	}
	if g.Ping != "" {
		if p, err := notify.ParsePing(g.Ping); err == nil {
			l.ping = &p
		}
	}
	var patterns []*regexp.Regexp
	for _, text := range g.Patterns {
		if p, err := regexp.Compile(text); err == nil {
			patterns = append(patterns, p)
		}
	}
	if l.ping != nil && l.ping.NeedsFull() && fullProgram() == "" {
		l.ping = nil
	}
	t := newTeller(l, s, func(text string) string { return maskAll(patterns, onerun.Redact(text)) })
	t.flags, t.policy.Retries, t.sender.Dir, t.sender.Env = g.Flags, g.Retries, g.Dir, os.Environ()
	o := onerun.Observation{Event: onerun.EventFinished, Run: g.Run, Outcome: &out}
	ctx, cancel := context.WithTimeout(t.ctx, tellAfter/2)
	defer cancel()
	if d, err := s.Detail(ctx, g.Run.Namespace, g.Run.RunID); err == nil && d.Run.Attempt == g.Run.Attempt {
		o.Run = d.Run
	}
	if out.Status == onerun.Failed {
		o.Event = onerun.EventFailed
	}
	if recorded != nil {
		o.Event, o.Err = onerun.EventFailed, &onerun.NotRecordedError{Outcome: out, Err: recorded}
	}
	t.Observe(o)
	for _, d := range late {
		t.Observe(onerun.Observation{Event: onerun.EventLateOutcome, Run: d.Run, Delivery: &d, Detail: d.Words()})
	}
	t.finish(false, func(func()) {})
}

// told tells of an end that was recorded, or given up to record.
func (g guardTask) told(s hostLocked, out onerun.Outcome, err error, late []onerun.Delivery) {
	if g.Tell == nil && g.Textfile == nil || errors.Is(err, onerun.ErrLost) { // who has recorded it has told it
		return
	}
	s.Leave(g.Lease)
	g.Textfile.write(out, err)
	if g.Tell != nil {
		g.Tell.tell(s, out, err, late)
	}
}
