package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/onerun-dev/onerun"
)

// attemptOf is the number of a lease's attempt as the scripts take it.
func attemptOf(l onerun.Lease) string {
	if l.RunID == "" {
		return ""
	}
	return digits(l.Attempt)
}

// Heartbeat implements onerun.Claimer, in one round trip.
func (s *Store) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	k := s.keys(l.Namespace)
	v, err := s.call(ctx, s.scripts.heartbeat, k, []string{k.lock(l.Lock), k.run(l.RunID)}, l.Owner, digits(l.Token), l.RunID, attemptOf(l))
	if err != nil {
		return onerun.Beat{}, s.explain("heartbeat", err)
	}
	r := replyOf(v)
	switch {
	case r.err != nil:
		return onerun.Beat{}, badAnswer("heartbeat", r.err)
	case len(r.at) == 0:
		return onerun.Beat{}, fmt.Errorf("%w: %s of this owner is not in the store any more", onerun.ErrLost, l.Lock)
	}
	return onerun.Beat{Now: fromMicros(r.text(0)), Stop: r.text(1)}, nil
}

// Finish implements onerun.Claimer, in one round trip.
func (s *Store) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if l.RunID != "" && !ended(o.Status) {
		return fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, o.Status)
	}
	s.hook("record the end")
	err := s.finish(ctx, l, o)
	if o.Output != nil && refusedText(err) { // the status is never lost for the sake of its text
		o.Output = nil
		err = s.finish(ctx, l, o)
	}
	s.hook("recorded")
	return err
}

// refusedText reports whether an end could perhaps be recorded if it were shorter: whatever
// it was that the server refused, but not that it can't be reached, or that the end comes
// too late.
func refusedText(err error) bool {
	return errors.Is(err, onerun.ErrIO) || errors.Is(err, onerun.ErrInternal)
}

func ended(s onerun.Status) bool {
	return s == onerun.Succeeded || s == onerun.Failed || s == onerun.Skipped
}

func (s *Store) finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	k := s.keys(l.Namespace)
	about, text := outputOf(o.Output)
	v, err := s.call(ctx, s.scripts.finish, k,
		[]string{k.lock(l.Lock), k.run(l.RunID), k.out(l.RunID, l.Attempt), k.byStatus(onerun.Running), k.alone()},
		l.Owner, digits(l.Token), l.RunID, attemptOf(l), string(l.Lock), string(o.Status), string(o.Reason), flag(o.Void), micros(o.FinishedAt),
		encode(endOf(o, onerun.ByOwner)), strconv.FormatFloat(rand.Float64(), 'f', 6, 64), about, text)
	if err != nil {
		return s.explain("record the end", err)
	}
	r := replyOf(v)
	result, status, token := r.text(0), onerun.Status(r.text(1)), r.number(2)
	switch {
	case r.err != nil:
		return badAnswer("record the end", r.err)
	case result != "lost":
		return nil
	case token != 0 && token != l.Token:
		return fmt.Errorf("%w: the lock has a new owner with token %d", onerun.ErrLost, token)
	case status != "" && status != onerun.Running:
		return fmt.Errorf("%w: the attempt is %s already", onerun.ErrLost, status)
	}
	return fmt.Errorf("%w: the lock or the run is not this owner's any more, or has vanished", onerun.ErrLost)
}

// aboutOutput is what is kept of an output beside its text.
type aboutOutput struct {
	Total     int64 `json:"total"`
	Truncated bool  `json:"truncated,omitempty"`
}

// outputOf is an output as the scripts take it; empty for none.
func outputOf(o *onerun.Output) (about, text string) {
	if o == nil {
		return "", ""
	}
	c := o.Cleaned()
	if c.Text == "" {
		return "", ""
	}
	return encode(aboutOutput{c.Total, c.Truncated}), c.Text
}

// Report implements onerun.Claimer, in one round trip.
func (s *Store) Report(ctx context.Context, l onerun.Lease, p onerun.Progress) error {
	if l.RunID == "" {
		return fmt.Errorf("%w: a lock alone has no progress", onerun.ErrUsage)
	}
	k := s.keys(l.Namespace)
	about, text := outputOf(p.Output)
	told := func(n *int64) string {
		if n == nil {
			return ""
		}
		return digits(*n)
	}
	v, err := s.call(ctx, s.scripts.report, k, []string{k.lock(l.Lock), k.run(l.RunID), k.out(l.RunID, l.Attempt)},
		l.Owner, digits(l.Token), l.RunID, attemptOf(l), told(p.Processed), told(p.Failed), about, text)
	if err != nil {
		return s.explain("report progress", err)
	}
	if v != int64(1) {
		return fmt.Errorf("%w: the run was closed by somebody else", onerun.ErrLost)
	}
	return nil
}

// Output implements onerun.Ledger.
func (s *Store) Output(ctx context.Context, namespace, runID string, attempt int) (onerun.Output, error) {
	k := s.keys(namespace)
	f, err := persist(ctx, func() ([]any, error) {
		return inTime(ctx, func() ([]any, error) { return s.db.HMGet(ctx, k.out(runID, attempt), "about", "text", "at").Result() })
	})
	if err != nil {
		return onerun.Output{}, s.explain("read an output", err)
	}
	r := &reply{at: f}
	o := onerun.Output{Text: r.text(1), At: fromMicros(r.text(2))}
	if o.Text == "" {
		return onerun.Output{}, fmt.Errorf("output of attempt %d of run %s: %w", attempt, runID, onerun.ErrNotFound)
	}
	var about aboutOutput
	if err := json.Unmarshal([]byte(r.text(0)), &about); err != nil {
		return onerun.Output{}, badAnswer("read an output", err)
	}
	o.Total, o.Truncated = about.Total, about.Truncated
	return o, nil
}
