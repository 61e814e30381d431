package cli

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/onerun-dev/onerun"
)

// followEvery is how often the store is asked for more: twice as often as it is told.
const followEvery = liveEvery / 2

// follow prints what an attempt prints, until it has ended.
func (c *logsCmd) follow(ctx context.Context, e *env, s onerun.Store, run onerun.Run, attempt int) error {
	var f follower
	for {
		// Before the output is read: after the end there is no more.
		dead := run.Status == onerun.Running && run.Liveness == onerun.Dead
		over := dead || run.Status != onerun.Running || run.Attempt != attempt
		o, err := c.look(ctx, e, s, run.RunID, attempt)
		if err == nil {
			err = c.more(e, &f, o)
		} else if errors.Is(err, onerun.ErrNotFound) {
			err = nil
		}
		if err != nil {
			return err
		}
		switch {
		case !over:
		case f.total == 0:
			return c.note(e, "nothing is kept of what attempt %d of %s printed, if it printed anything", attempt, run.Name())
		case dead:
			return c.note(e, "%s has died: %s", run.Name(), run.Evidence)
		default:
			return nil
		}
		rest(followEvery)
		if run, err = again(ctx, e, s, run.RunID); err != nil {
			return err
		}
	}
}

// look reads what is kept of an attempt so far.
func (c *logsCmd) look(ctx context.Context, e *env, s onerun.Store, runID string, attempt int) (onerun.Output, error) {
	ctx, cancel := e.bound(ctx)
	defer cancel()
	return s.Output(ctx, e.Namespace, runID, attempt)
}

// again reads a run once more.
func again(ctx context.Context, e *env, s onerun.Store, runID string) (onerun.Run, error) {
	ctx, cancel := e.bound(ctx)
	defer cancel()
	run, found, err := find(ctx, e, s, runID)
	if err == nil && !found {
		err = noSuchRun(runID)
	}
	return run, err
}

// more prints what has come since the last look.
func (c *logsCmd) more(e *env, f *follower, o onerun.Output) error {
	first := f.total == 0
	text, missed := f.take(o)
	switch {
	case missed:
		if err := c.note(e, "it prints faster than is kept; some of it is missing here"); err != nil {
			return err
		}
	case first && o.Truncated:
		if err := c.note(e, "this begins with the end of %d bytes", o.Total); err != nil {
			return err
		}
	}
	return c.print(e, text)
}

func (c *logsCmd) print(e *env, text string) error {
	if !c.Raw && isTerminal(1) {
		text = escaped(text)
	}
	_, err := io.WriteString(e.out, text)
	return written(err)
}

// follower finds out what is new in an output of which only the end is kept. How many bytes
// came is known, but masked secrets have another length than what was printed; so the
// end of what was shown is looked for where it should be, and else nearest to there.
type follower struct {
	shown string // the end of it
	total int64
}

// How much of what was shown is looked for, in bytes: as much as there is, and less when its
// beginning isn't kept any more.
const (
	mostKnown  = 1024
	leastKnown = 16
)

// take gives what is new, and whether something is missing before it.
func (f *follower) take(o onerun.Output) (text string, missed bool) {
	came := o.Total - f.total
	switch {
	case o.Text == "" || came <= 0:
		return "", false
	case f.total == 0:
		text = o.Text
	default:
		at := f.place(o.Text, came)
		missed = at < 0
		text = o.Text[max(at, 0):]
	}
	f.total = o.Total
	f.shown = onerun.LastBytes(f.shown+text, mostKnown)
	return text, missed
}

// place is where what is new begins; -1: something before it is missing.
func (f *follower) place(text string, came int64) int {
	if at := int64(len(text)) - came; at >= 0 && (strings.HasSuffix(text[:at], f.shown) || strings.HasSuffix(f.shown, text[:at])) {
		return int(at)
	}
	for n := len(f.shown); n > 0 && n >= min(leastKnown, len(f.shown)); n /= 4 {
		if at := nearest(text, f.shown[len(f.shown)-n:], int64(len(text))-came); at >= 0 {
			return at
		}
	}
	return -1
}

// nearest is the end of that place of a part in a text which is nearest to one; -1: there is
// none.
func nearest(text, part string, to int64) int {
	best := -1
	for from := 0; ; {
		i := strings.Index(text[from:], part)
		if i < 0 {
			return best
		}
		at := from + i + len(part)
		if best < 0 || distance(at, to) < distance(best, to) {
			best = at
		}
		from += i + 1
	}
}

func distance(a int, b int64) int64 { return max(int64(a)-b, b-int64(a)) }
