package kvledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// Heartbeat implements onerun.Claimer. It renews the mortal key that is there; one that is gone
// stays gone.
func (l *Ledger) Heartbeat(ctx context.Context, lease onerun.Lease) (beat onerun.Beat, err error) {
	err = l.owned(ctx, "heartbeat", lease, func(t *tx) error {
		if err := t.clock(); err != nil { // before it is sent: the store reckons from later on
			return err
		}
		now := t.now
		if err := t.read(leased(lease)...); err != nil {
			return err
		}
		h, err := t.lock(lease.Namespace, lease.Lock)
		if err != nil {
			return err
		}
		_, there, err := t.runOf(lease)
		switch {
		case err != nil:
			return err
		case !h.lockRecord.owns(lease):
			return lost(h)
		case !there:
			return errRunGone
		case !h.alive:
			return fmt.Errorf("%w: %s", onerun.ErrLost, ranOut(h.Expires))
		}
		h.Expires = now.Add(lease.TTL)
		t.put(keyLock(lease.Namespace, lease.Lock), h.lockRecord)
		t.putMortal(keyLife(lease.Namespace, lease.Lock), lifeRecord{Owner: lease.Owner, Expires: h.Expires}, lease.TTL)
		beat = onerun.Beat{Now: now, Stop: h.Stop}
		return t.keep("heartbeat", lease)
	})
	if err != nil {
		return onerun.Beat{}, err
	}
	return beat, nil
}

// owned decides about something that is the owner's, who knows what it was after its last call.
func (l *Ledger) owned(ctx context.Context, what string, lease onerun.Lease, f func(t *tx) error) error {
	err := l.decide(ctx, what, l.recall(lease.Owner), f)
	if err != nil {
		l.remember(lease.Owner, nil)
	}
	return err
}

// keep commits, and remembers what that left for the owner's next call.
func (t *tx) keep(step string, lease onerun.Lease) error {
	entries, err := t.commit(step)
	if err != nil {
		return err
	}
	keys := []string{keyLock(lease.Namespace, lease.Lock), keyLife(lease.Namespace, lease.Lock)}
	if lease.RunID != "" && entries != nil {
		if _, ok := entries[keyRun(lease.RunID)]; ok {
			keys = append(keys, keyRun(lease.RunID))
		}
	}
	t.l.remember(lease.Owner, entries, keys...)
	return nil
}

// leased are the keys that a lease is.
func leased(lease onerun.Lease) []string {
	keys := []string{keyLock(lease.Namespace, lease.Lock), keyLife(lease.Namespace, lease.Lock)}
	if lease.RunID != "" {
		keys = append(keys, keyRun(lease.RunID))
	}
	return keys
}

// runOf gives the run of a lease, nil for a lock alone; there is whether that is as the lease has it.
func (t *tx) runOf(lease onerun.Lease) (r *runRecord, there bool, err error) {
	if lease.RunID == "" {
		return nil, true, nil
	}
	r, err = load[runRecord](t, keyRun(lease.RunID))
	there = err == nil && r != nil && r.Run.Status == onerun.Running && r.Run.Attempt == lease.Attempt && r.Run.Owner == lease.Owner && r.last() != nil
	return r, there, err
}

var errRunGone = fmt.Errorf("%w: its run has vanished from the store", onerun.ErrLost)

func lost(h held) error {
	if h.vanished {
		return fmt.Errorf("%w: %s", onerun.ErrLost, vanished)
	}
	if h.owner() == "" {
		return fmt.Errorf("%w: the lock has no owner any more", onerun.ErrLost)
	}
	return fmt.Errorf("%w: the lock has a new owner with token %d", onerun.ErrLost, h.Token)
}

// Finish implements onerun.Claimer.
func (l *Ledger) Finish(ctx context.Context, lease onerun.Lease, out onerun.Outcome) error {
	if s := out.Status; ctx.Err() == nil && lease.RunID != "" && s != onerun.Succeeded && s != onerun.Failed && s != onerun.Skipped {
		return fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, s)
	}
	w, err := l.writeOutput(ctx, lease, out.Output)
	if err != nil {
		return err
	}
	if err = l.finish(ctx, lease, out, w); tooMuch(w, err) {
		err = l.finish(ctx, lease, out, nil)
	}
	l.remember(lease.Owner, nil)
	return err
}

func (l *Ledger) finish(ctx context.Context, lease onerun.Lease, out onerun.Outcome, w *written) error {
	return l.owned(ctx, "finish", lease, func(t *tx) error {
		keys := []string{keyLock(lease.Namespace, lease.Lock)}
		if lease.RunID != "" {
			keys = append(keys, keyRun(lease.RunID))
		}
		if err := t.read(keys...); err != nil {
			return err
		}
		// Not what beats and ends by itself: an end holds until somebody else has the lock.
		delete(t.seen, keyLife(lease.Namespace, lease.Lock))
		if err := t.clock(); err != nil {
			return err
		}
		lr, err := load[lockRecord](t, keyLock(lease.Namespace, lease.Lock))
		if err != nil {
			return err
		}
		h := held{lockRecord: lr}
		r, there, err := t.runOf(lease)
		if err != nil {
			return err
		}
		if !lr.owns(lease) {
			done, err := t.recorded(lease, lr, r, out)
			if err != nil || done {
				return err
			}
			return lost(h)
		}
		if !there {
			return errRunGone
		}
		if r != nil {
			t.keepOutput(r, lease.Attempt, w)
			if err := t.close(r, out, onerun.ByOwner); err != nil {
				return err
			}
			t.putRun(r)
		}
		t.free(&h)
		entries, err := t.commit("finish")
		if err == nil {
			l.freed(keyLock(lease.Namespace, lease.Lock), entries)
		}
		return err
	})
}

// recorded reports whether a finish has been done already: its reply was lost.
func (t *tx) recorded(lease onerun.Lease, lr *lockRecord, r *runRecord, out onerun.Outcome) (bool, error) {
	if lease.RunID == "" {
		return lr != nil && lr.Owner == "" && lr.Token == lease.Token, nil
	}
	if r == nil || r.pruned() {
		return false, nil
	}
	a, err := t.attempt(r, lease)
	return a != nil && a.Status == out.Status && a.Reason == out.Reason, err
}

// attempt finds the attempt of a lease; nil: there is none of that owner.
func (t *tx) attempt(r *runRecord, lease onerun.Lease) (*attemptRecord, error) {
	i := slices.IndexFunc(r.Attempts, func(a attemptRecord) bool { return a.Number == lease.Attempt })
	if i >= 0 {
		if r.Attempts[i].Owner == lease.Owner {
			return &r.Attempts[i], nil
		}
		return nil, nil
	}
	a, err := load[attemptRecord](t, keyAttempt(r.Run.RunID, lease.Attempt))
	if err != nil || a == nil || a.Owner != lease.Owner {
		return nil, err
	}
	return a, nil
}

// free takes a lock's owner away. Its token stays.
func (t *tx) free(h *held) {
	ns, name := h.Namespace, h.Lock
	h.lockRecord, h.alive = h.lockRecord.free(), false
	t.put(keyLock(ns, name), h.lockRecord)
	t.delete(keyLife(ns, name))
	t.delete(keyHeld(ns, name))
}

// close ends the last attempt of a run, and reckons its next retry by the policy
// of the attempt's own owner.
func (t *tx) close(r *runRecord, out onerun.Outcome, by onerun.ClosedBy) error {
	run := &r.Run
	run.Status, run.Reason, run.ExitCode, run.Signal = out.Status, out.Reason, out.ExitCode, out.Signal
	run.Error = onerun.CutError(out.Error)
	count(run, out.Processed, out.Failed)
	run.FinishedAt, run.LeaseExpiresAt, run.NextRetryAt = out.FinishedAt.UTC(), time.Time{}, time.Time{}
	if out.FinishedAt.IsZero() {
		run.FinishedAt = t.now
	}
	if a := r.last(); a != nil {
		a.Status, a.Void, a.Execution, a.ClosedBy = run.Status, out.Void, run.Execution, by
	}
	if run.Status != onerun.Failed || run.Partition == "" {
		return nil
	}
	if out.Void { // it never started, so it may start at once
		run.NextRetryAt = t.now
		return nil
	}
	failures := r.Failures
	for _, a := range r.Attempts {
		if a.Status == onerun.Failed && !a.Void {
			failures++
		}
	}
	if at, ok := r.Policy.NextRetry(t.now, failures, run.Reason, rand.Float64()); ok {
		run.NextRetryAt = at.Truncate(time.Microsecond)
	}
	return nil
}

// count takes counts over, as far as there are any.
func count(r *onerun.Run, processed, failed *int64) {
	if processed != nil {
		r.Processed = processed
	}
	if failed != nil {
		r.Execution.Failed = failed
	}
}

// roomToEnd is what a RUNNING run's record has to leave for the texts of its end, and of late ones: a claim
// can be refused for its size, an end can't.
const roomToEnd = 64 << 10

// putRun writes a run down, and puts it where listings find it.
func (t *tx) putRun(r *runRecord) {
	key := keyRun(r.Run.RunID)
	for _, k := range t.listed[key] { // by an earlier step of this transaction
		delete(t.writes, k)
	}
	want := listed(r.Run)
	if e := t.seen[key]; e.Version != 0 {
		if old, err := decode[runRecord](key, e.Value); err == nil {
			for _, k := range listed(old.Run) {
				if slices.Contains(want, k) {
					want = slices.DeleteFunc(want, func(w string) bool { return w == k })
				} else {
					t.delete(k)
					t.listed[key] = append(t.listed[key], k)
				}
			}
		}
	}
	for _, k := range want {
		t.putText(k, r.Run.RunID)
	}
	t.listed[key] = append(t.listed[key], want...)
	most := MaxValue
	if r.Run.Status == onerun.Running {
		most -= roomToEnd
	}
	t.write(Write{Key: key}, r, most)
}
