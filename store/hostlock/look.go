package hostlock

import (
	"context"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// Runs implements onerun.Ledger.
func (s *Store) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	runs, err := s.Remote.Runs(ctx, q)
	for i := range runs {
		s.add(&runs[i])
	}
	return runs, err
}

// Detail implements onerun.Ledger.
func (s *Store) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	d, err := s.Remote.Detail(ctx, namespace, runID)
	if err == nil {
		s.add(&d.Run)
	}
	return d, err
}

// Locks implements onerun.Ledger.
func (s *Store) Locks(ctx context.Context, namespace string) ([]onerun.LockState, error) {
	locks, err := s.Remote.Locks(ctx, namespace)
	for i := range locks {
		l := &locks[i]
		if !here(l.Holder.Worker) {
			continue
		}
		st, err := s.dir.Peek(l.Namespace, l.Lock)
		if err != nil || st.Note == nil {
			continue
		}
		if l.Run != nil {
			s.add(l.Run)
			l.Liveness, l.Evidence, l.Holder.Detail = l.Run.Liveness, l.Run.Evidence, l.Run.Evidence
		} else if st.Note.Token == l.Token {
			l.Liveness, l.Evidence = liveness(st), join(evidence(st), l.Evidence)
		}
		l.Path, l.Mode = st.Path, st.Mode
	}
	if err != nil {
		return locks, err
	}
	return append(locks, s.unclaimedLocks(namespace)...), nil
}

// here reports whether a worker is, or was, on this host, as far as a hint goes: proof is in
// the lock file.
func here(w onerun.Worker) bool {
	me := filelock.ThisWorker("")
	return w.Boot != "" && w.Boot == me.Boot || w.Machine != "" && w.Machine == me.Machine
}

// add says of a RUNNING run what this host knows beside its lease.
func (s *Store) add(r *onerun.Run) {
	if r.Status != onerun.Running || !here(r.Worker) {
		return
	}
	st, err := s.dir.Peek(r.Namespace, r.Lock)
	if err != nil || st.Note == nil || st.Note.Owner != r.Owner {
		return
	}
	r.Liveness, r.Evidence = liveness(st), join(evidence(st), r.Evidence)
	r.Stale = r.Stale || r.Liveness == onerun.Dead
}

// liveness is that of the owner whose note a lock file holds.
func liveness(st filelock.State) onerun.Liveness {
	switch n := st.Note; {
	case st.Held:
		return st.Verdict.Liveness
	case !granted(n), n.Outcome != nil:
		return onerun.Dead
	}
	return st.Verdict.Liveness
}

const evidenceEnded = "its end was noted before the store could be told"

func evidence(st filelock.State) string {
	if st.Note.Outcome != nil && !st.Held {
		return evidenceEnded
	}
	return st.Verdict.Evidence
}

func join(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "; ")
}

// knowledge is what a look at a lock file tells, without taking anything that a start might
// want: what a claim of this host would tell the store.
func (s *Store) knowledge(ctx context.Context, st filelock.State) onerun.HostKnowledge {
	n := st.Note
	switch {
	case st.Held:
		return knowing(&filelock.Held{Path: st.Path, Note: n, Liveness: st.Verdict.Liveness, Evidence: st.Verdict.Evidence, Unreadable: st.Unreadable && st.Mode == onerun.LockCreate})
	case n == nil:
		return onerun.HostKnowledge{}
	}
	switch liveness(st) {
	case onerun.Dead:
		k := onerun.HostKnowledge{Dead: []onerun.DeadOwner{{Owner: n.Owner, Void: !granted(n) || st.Verdict.Void, Evidence: evidence(st)}}}
		for _, p := range n.Proven {
			k.Dead = append(k.Dead, onerun.DeadOwner{Owner: p.Owner, Void: p.Void, Evidence: p.Evidence})
		}
		return k
	default:
		if st.Verdict.Liveness != onerun.Alive && s.closed(ctx, n) {
			return onerun.HostKnowledge{}
		}
		h := held(st.Path, n, st.Verdict.Evidence)
		return onerun.HostKnowledge{Held: &h, HeldOwner: n.Owner, HeldStale: st.Verdict.Liveness != onerun.Alive}
	}
}

// Explain implements onerun.Ledger.
func (s *Store) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	st, err := s.dir.Look(c.Namespace, c.Lock)
	if err != nil {
		return nil, err
	}
	if refused, err := s.ended(ctx, c, st); refused != nil || err != nil {
		return refused, err
	}
	refused, err := s.explain(ctx, c, s.knowledge(ctx, st))
	if err != nil {
		return nil, err
	}
	return s.foresee(ctx, c, refused)
}

// ended foresees that a claim delivers the end of its own key's run first, which waits in the
// lock file, and is refused for its sake. One that has failed is judged as a dead owner is.
func (s *Store) ended(ctx context.Context, c onerun.Claim, st filelock.State) (*onerun.Refusal, error) {
	end, run, err := s.noted(ctx, c.Namespace, st)
	if err != nil || end == nil || c.Key() == "" || run.Key() != c.Key() {
		return nil, err
	}
	reasons := map[onerun.Status]onerun.Reason{onerun.Succeeded: onerun.RefusedSucceeded, onerun.Skipped: onerun.RefusedSkipped}
	reason, ends := reasons[end.Status]
	if !ends {
		return nil, nil
	}
	run.Status, run.Evidence = end.Status, "its end was noted before the store could be told, and is delivered by the next start, or: onerun flush"
	return &onerun.Refusal{
		Reason: reason, Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock, Holder: run.Holder(), At: end.FinishedAt,
	}, nil
}

// noted is the end of a RUNNING run that waits in a lock file which nobody holds; nil: none.
func (s *Store) noted(ctx context.Context, namespace string, st filelock.State) (*onerun.Outcome, onerun.Run, error) {
	if st.Held {
		return nil, onerun.Run{}, nil
	}
	for _, l := range endsOf(st.Note, nil) {
		runs, err := s.Remote.Runs(ctx, onerun.Query{Namespace: namespace, RunID: l.RunID})
		if err != nil {
			return nil, onerun.Run{}, err
		}
		if len(runs) == 1 && runs[0].Status == onerun.Running && runs[0].Attempt == l.Attempt && runs[0].Owner == l.Owner {
			out := l.Outcome.Outcome()
			return &out, runs[0], nil
		}
	}
	return nil, onerun.Run{}, nil
}

func (s *Store) explain(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (*onerun.Refusal, error) {
	refused, err := s.Remote.ExplainKnowing(ctx, c, k)
	if err != nil || refused == nil || refused.Reason != onerun.RefusedRunning && refused.Reason != onerun.RefusedStale {
		return refused, err
	}
	r, elsewhere := s.underAnother(ctx, c, refused)
	if !elsewhere {
		return refused, nil
	}
	st, err := s.dir.Look(r.Namespace, r.Lock)
	if err != nil || st.Held {
		return refused, err
	}
	dead := provenDead(st.Note, nil, st.Verdict, r.Owner)
	if dead == nil {
		return refused, nil
	}
	k.Dead = append(k.Dead, *dead)
	return s.Remote.ExplainKnowing(ctx, c, k)
}

// Resolve implements onerun.Operator: who is proven dead here needs no waiting for the end of
// a lease.
func (s *Store) Resolve(ctx context.Context, q onerun.Resolution) (onerun.Run, error) {
	if q.RunID != "" && q.OwnerDead == "" {
		runs, err := s.Runs(ctx, onerun.Query{Namespace: q.Namespace, RunID: q.RunID})
		if err == nil && len(runs) == 1 && runs[0].Status == onerun.Running && runs[0].Liveness == onerun.Dead {
			if st, err := s.dir.Look(q.Namespace, runs[0].Lock); err == nil {
				end, run, err := s.noted(ctx, q.Namespace, st)
				if err == nil && end != nil && run.RunID == q.RunID {
					return onerun.Run{}, &onerun.StateError{Why: fmt.Sprintf("%s has ended (%s), and its next start records that, or: onerun flush; there is nothing to resolve", run.Name(), end.Status)}
				}
			}
			q.OwnerDead = runs[0].Owner
		}
	}
	return s.Remote.Resolve(ctx, q)
}

// Unlock implements onerun.Unlocker: of this host's lock files.
func (s *Store) Unlock(ctx context.Context, u onerun.UnlockRequest) error {
	if err := s.dir.Unlock(u.Namespace, u.Lock); err != nil {
		return err
	}
	if r, ok := s.Remote.(onerun.UnlockRecorder); ok {
		return r.RecordUnlock(ctx, u)
	}
	return nil
}
