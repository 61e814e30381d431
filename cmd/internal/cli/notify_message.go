package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/masking"
	"github.com/onerun-dev/onerun/internal/notify"
)

const (
	notifyOutput = 4 << 10 // of a job's output, in a message
	pingBody     = 10_000  // bytes of a ping, as healthchecks.io asks for
)

// ending is how an attempt ended.
type ending struct {
	run        onerun.Run
	output     string // the end of what it printed, masked
	unrecorded string // why its end could not be recorded; "": it is
}

func endingOf(o onerun.Observation) ending {
	e, out := ending{run: o.Run}, o.Outcome
	r := &e.run
	r.Status, r.Reason, r.ExitCode, r.Signal, r.Error, r.FinishedAt = out.Status, out.Reason, out.ExitCode, out.Signal, out.Error, out.FinishedAt
	if o.Event == onerun.EventLeaseLost || errors.As(o.Err, new(*onerun.NotRecordedError)) {
		e.unrecorded = o.Err.Error()
	}
	if out.Output != nil {
		e.output = out.Output.Text
	}
	return e
}

// well reports whether there is nothing to worry about.
func (e ending) well() bool { return e.run.Status != onerun.Failed && e.unrecorded == "" }

// message is what every message says of a run.
func (t *teller) message(ev notify.Event, r onerun.Run) *notify.Message {
	v := viewRun(r)
	m := &notify.Message{
		Event: ev, Time: stamp(time.Now()), Namespace: v.Namespace, Job: v.Job, Key: v.Key, BusinessDate: v.BusinessDate,
		RunID: nilIf(v.RunID, ""), Attempt: nilIf(v.Attempt, 0), Status: nilIf(string(v.Status), ""), Reason: v.Reason, ExitCode: v.ExitCode, Signal: v.Signal,
		Error: t.masked(v.Error, r), StartedAt: v.StartedAt, FinishedAt: v.FinishedAt, DurationMS: v.DurationMS, Worker: t.masked(v.Worker, r), Host: v.Host,
		NextRetryAt: v.NextRetryAt, VersionLabel: t.masked(v.VersionLabel, r), Labels: map[string]string{},
	}
	for k, label := range v.Labels {
		m.Labels[t.redact(k)] = t.redact(label)
	}
	return m
}

func (t *teller) masked(s *string, about onerun.Run) *string {
	if s == nil {
		return nil
	}
	m := masking.Keep(t.redact, *s, masking.Names(about)...)
	return &m
}

// words are title and text of a message: lines for people, about a run and whoever else is
// known by name.
func (t *teller) words(m *notify.Message, r onerun.Run, known []string, title string, lines ...string) *notify.Message {
	if r.Namespace != onerun.DefaultNamespace {
		title = "[" + r.Namespace + "] " + title
	}
	names := append(masking.Names(r), known...)
	mask := func(s string) string { return masking.Keep(t.redact, printable(s), names...) }
	m.Title = mask(title)
	text := []string{m.Title}
	for _, line := range lines {
		if line != "" {
			text = append(text, mask(line))
		}
	}
	m.Text = strings.Join(text, "\n")
	return m
}

// commands are what to type about a run.
func (t *teller) commands(r onerun.Run, rerun bool) []string {
	ref := r.Key()
	if ref == "" { // the job's name alone is its latest run
		ref = r.RunID
	}
	lines := []string{"onerun" + t.flags + " show " + ref, "onerun" + t.flags + " logs " + ref}
	if rerun && r.Key() != "" {
		lines = append(lines, "onerun"+t.flags+" rerun "+ref+" --reason TEXT")
	}
	return lines
}

// failure is the message of a failed attempt.
func (t *teller) failure(e ending) *notify.Message {
	r := e.run
	m := t.message(notify.Failure, r)
	title := r.Name() + " failed"
	if r.Status != onerun.Failed {
		title = r.Name() + " ended, but that could not be recorded"
	}
	if host := r.Worker.Host; host != "" {
		title += " on " + host
	}
	if why := endWords(r); why != "" {
		title += ": " + why
	}
	how := fmt.Sprintf("attempt %d", r.Attempt)
	if !r.FinishedAt.IsZero() {
		how += ", after " + span(r.FinishedAt.Sub(r.StartedAt))
	}
	if !r.NextRetryAt.IsZero() {
		how += "; it will be tried again at " + r.NextRetryAt.Format(time.RFC3339)
	}
	if e.unrecorded != "" {
		unrecorded := join(r.Error, e.unrecorded)
		m.Error = t.masked(&unrecorded, r)
	}
	if e.output != "" {
		end := onerun.LastBytes(t.redact(e.output), notifyOutput)
		m.Output = &end
	}
	return t.words(m, r, nil, title, append([]string{how, r.Error, e.unrecorded}, t.commands(r, e.unrecorded == "" && r.NextRetryAt.IsZero())...)...)
}

// endWords say how a run ended.
func endWords(r onerun.Run) string {
	how := ""
	switch {
	case r.Signal != "":
		how = r.Signal
	case r.ExitCode != nil && r.Status == onerun.Failed:
		how = fmt.Sprintf("exit code %d", *r.ExitCode)
	}
	if how != "" && (r.Reason == onerun.ReasonExit || r.Reason == onerun.ReasonSignal) {
		return how
	}
	return join(string(r.Reason), how)
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// twice is the message of an end that came too late.
func (t *teller) twice(o onerun.Observation) *notify.Message {
	m := t.message(notify.Failure, o.Run)
	return t.words(m, o.Run, nil, o.Run.Name()+" may have run twice", append([]string{
		fmt.Sprintf("attempt %d: %s (%s)", o.Delivery.Attempt, o.Detail, o.Delivery.Outcome.Status),
	}, t.commands(o.Run, false)...)...)
}

// refusal is the message of a start that was refused. Where the key's own run stands in the
// way, it tells of that.
func (t *teller) refusal(ev notify.Event, o onerun.Observation) *notify.Message {
	x, r := o.Refusal, o.Run
	m := t.message(ev, r)
	if h := x.Holder; h.RunID != "" && h.Name == r.Key() {
		m.RunID, m.Attempt, m.Status, m.Worker, m.Host = &h.RunID, nilIf(h.Attempt, 0), nilIf(string(h.Status), ""), t.masked(nilIf(h.Worker.String(), ""), r), nilIf(h.Worker.Host, "")
	}
	holder := masking.Keep(t.redact, x.Holder.String(), append(masking.Names(r), x.Holder.Name)...)
	m.Reason, m.Holder, m.Count, m.NextRetryAt = nilIf(string(x.Reason), ""), nilIf(holder, ""), nilIf(x.Count, 0), stampOrNil(x.RetryAt)
	title := r.Name() + " was skipped: " + string(x.Reason)
	if ev == notify.Blocked {
		title = r.Name() + " is blocked: " + string(x.Reason)
	}
	count, next := "", ""
	if x.Count > 1 {
		count = fmt.Sprintf("%d starts were refused so far", x.Count)
	}
	if t.next != nil {
		next = "next: " + t.next(r, x)
	}
	return t.words(m, r, []string{x.Holder.Name}, title, holder, count, next)
}

// recovery is the message of a success after a failure; nil if there was none.
func (t *teller) recovery(ctx context.Context, r onerun.Run) *notify.Message {
	what := ""
	if r.Partition != "" {
		if r.Attempt < 2 {
			return nil
		}
		d, err := t.store.Detail(ctx, r.Namespace, r.RunID)
		if err != nil {
			return nil
		}
		for _, a := range d.Attempts {
			if a.Number == r.Attempt-1 && a.Status == onerun.Failed {
				what = fmt.Sprintf("attempt %d succeeded, after attempt %d failed: %s", r.Attempt, a.Number, a.Reason)
			}
		}
	} else if before := t.before(ctx, r); before != nil && before.Status == onerun.Failed {
		what = "it succeeded, after run " + before.RunID + " failed: " + string(before.Reason)
	}
	if what == "" {
		return nil
	}
	return t.words(t.message(notify.Recovery, r), r, nil, r.Name()+" has recovered", append([]string{what}, t.commands(r, false)[:1]...)...)
}

// before is the last run of an unkeyed job before this one.
func (t *teller) before(ctx context.Context, r onerun.Run) *onerun.Run {
	runs, err := t.store.Runs(ctx, onerun.Query{Namespace: r.Namespace, Job: r.Job, Until: r.StartedAt, Limit: 20})
	if err != nil {
		return nil
	}
	for _, b := range runs {
		if b.Partition == "" && b.RunID != r.RunID {
			return &b
		}
	}
	return nil
}

// retryOf is when the store says that a failed run is due again.
func (t *teller) retryOf(ctx context.Context, r onerun.Run) time.Time {
	runs, err := t.store.Runs(ctx, onerun.Query{Namespace: r.Namespace, RunID: r.RunID})
	if err != nil || len(runs) == 0 || runs[0].Attempt != r.Attempt {
		return time.Time{}
	}
	return runs[0].NextRetryAt
}

// watchLate looks whether a run goes on past its time, and tells that once.
func (t *teller) watchLate(ctx context.Context, r onerun.Run) {
	wait := t.policy.StaleAfter
	if wait == 0 {
		wait = onerun.MinStaleAfter
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		runs, err := t.store.Runs(ctx, onerun.Query{Namespace: r.Namespace, RunID: r.RunID})
		if err == nil && len(runs) == 1 && runs[0].Stale && runs[0].Status == onerun.Running && runs[0].Attempt == r.Attempt {
			now := runs[0]
			t.tell(notify.Late, now, tellBeside, func(context.Context) *notify.Message { return t.late(now) })
			return
		}
		timer.Reset(lookForLate)
	}
}

// lookForLate is how often.
const lookForLate = time.Minute

func (t *teller) late(r onerun.Run) *notify.Message {
	title := r.Name() + " is late"
	if host := r.Worker.Host; host != "" {
		title += " on " + host
	}
	ref := r.Key()
	if ref == "" {
		ref = r.RunID
	}
	return t.words(t.message(notify.Late, r), r, nil, title, "it is still running, since "+r.StartedAt.Format(time.RFC3339),
		"onerun"+t.flags+" show "+ref, "onerun"+t.flags+" stop "+ref+" --reason TEXT")
}

// pingText is the body of a ping of an end.
func (t *teller) pingText(e ending) string {
	head := join(string(e.run.Status), endWords(e.run))
	for _, line := range []string{e.run.Error, e.unrecorded} {
		if line != "" {
			head += "\n" + line
		}
	}
	head = masking.Keep(t.redact, head, masking.Names(e.run)...) + "\n"
	if e.output != "" {
		head += "\n"
	}
	return head + onerun.LastBytes(t.redact(e.output), max(0, pingBody-len(head)))
}
