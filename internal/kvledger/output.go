package kvledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/onerun-dev/onerun"
)

// chunk is how much of an output one key holds: several fit into a transaction.
const chunk = 200 << 10

// written is an output that is in the store, and that nothing names yet.
type written struct {
	ref    outputRecord
	inline []Write // what goes into the transaction that names it, instead of before
}

// writeOutput writes what an attempt printed to keys of its own. What is small goes with the
// transaction that names it. What isn't goes before it, and where there is no room for that, the
// end is recorded without it.
func (l *Ledger) writeOutput(ctx context.Context, lease onerun.Lease, out *onerun.Output) (*written, error) {
	if out == nil || lease.RunID == "" || ctx.Err() != nil {
		return nil, nil
	}
	o := out.Cleaned()
	if o.Text == "" {
		return nil, nil
	}
	w := &written{ref: outputRecord{Write: onerun.NewID(), Total: o.Total, Truncated: o.Truncated}}
	for text := []byte(o.Text); len(text) > 0; w.ref.Chunks++ {
		n := min(len(text), chunk)
		put := Write{Key: keyChunk(lease.RunID, lease.Attempt, w.ref.Write, w.ref.Chunks), Value: text[:n]}
		text = text[n:]
		if len(o.Text) <= chunk {
			w.inline = append(w.inline, put)
			continue
		}
		l.hook("write output")
		if _, ok, err := l.space.Commit(ctx, Txn{Writes: []Write{put}}); err != nil || !ok {
			if ctx.Err() != nil {
				return nil, err
			}
			return nil, nil
		}
	}
	return w, nil
}

// tooMuch reports whether a change may be possible without its output: the store has a limit, or no room.
func tooMuch(w *written, err error) bool {
	return w != nil && (errors.Is(err, onerun.ErrIO) || errors.Is(err, onerun.ErrConfig))
}

// keepOutput makes a written output that of an attempt, and takes the one before away.
func (t *tx) keepOutput(r *runRecord, attempt int, w *written) {
	i := slices.IndexFunc(r.Attempts, func(a attemptRecord) bool { return a.Number == attempt })
	if w == nil || i < 0 {
		return
	}
	t.dropOutput(r.Run.RunID, r.Attempts[i])
	for _, put := range w.inline {
		t.writes[put.Key] = put
	}
	ref := w.ref
	ref.At = t.now
	r.Attempts[i].Output = &ref
}

func (t *tx) dropOutput(runID string, a attemptRecord) {
	if a.Output == nil {
		return
	}
	for n := range a.Output.Chunks {
		t.delete(keyChunk(runID, a.Number, a.Output.Write, n))
	}
}

// Output implements onerun.Ledger.
func (l *Ledger) Output(ctx context.Context, namespace, runID string, attempt int) (o onerun.Output, err error) {
	none := fmt.Errorf("output of attempt %d of run %s: %w", attempt, runID, onerun.ErrNotFound)
	err = l.decide(ctx, "read the output", nil, func(t *tx) error {
		r, err := load[runRecord](t, keyRun(runID))
		if err != nil {
			return err
		}
		if r == nil || r.pruned() || r.Run.Namespace != namespace {
			return none
		}
		i := slices.IndexFunc(r.Attempts, func(a attemptRecord) bool { return a.Number == attempt })
		var a *attemptRecord
		if i >= 0 {
			a = &r.Attempts[i]
		} else if a, err = load[attemptRecord](t, keyAttempt(runID, attempt)); err != nil {
			return err
		}
		if a == nil || a.Output == nil {
			return none
		}
		var text []byte
		for n := range a.Output.Chunks {
			e, err := l.space.Read(ctx, keyChunk(runID, attempt, a.Output.Write, n))
			switch {
			case err != nil:
				return err
			case e[0].Version == 0: // replaced, or pruned, since
				return errAgain
			}
			text = append(text, e[0].Value...)
		}
		o = onerun.Output{Text: string(text), Total: a.Output.Total, Truncated: a.Output.Truncated, At: a.Output.At}
		return nil
	})
	return o, err
}

// Report implements onerun.Claimer.
func (l *Ledger) Report(ctx context.Context, lease onerun.Lease, p onerun.Progress) error {
	if ctx.Err() == nil && lease.RunID == "" {
		return fmt.Errorf("%w: a lock alone has no progress", onerun.ErrUsage)
	}
	w, err := l.writeOutput(ctx, lease, p.Output)
	if err != nil {
		return err
	}
	return l.owned(ctx, "report", lease, func(t *tx) error {
		if err := t.read(leased(lease)...); err != nil {
			return err
		}
		if err := t.clock(); err != nil {
			return err
		}
		h, err := t.lock(lease.Namespace, lease.Lock)
		if err != nil {
			return err
		}
		if !h.lockRecord.owns(lease) {
			return lost(h)
		}
		r, there, err := t.runOf(lease)
		switch {
		case err != nil:
			return err
		case !there:
			return errRunGone
		}
		count(&r.Run, p.Processed, p.Failed)
		last := r.last()
		last.Processed, last.Execution.Failed = r.Run.Processed, r.Run.Execution.Failed
		t.keepOutput(r, lease.Attempt, w)
		t.putRun(r)
		return t.keep("report", lease)
	})
}
