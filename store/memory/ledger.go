package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// Explain implements onerun.Ledger. What a claim would settle first (a dead owner
// under policy auto) is taken into account, and left as it is.
func (s *Store) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	return s.ExplainKnowing(ctx, c, onerun.HostKnowledge{})
}

// ExplainKnowing implements onerun.HostClaimer.
func (s *Store) ExplainKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (*onerun.Refusal, error) {
	if c.Order != onerun.OrderAny {
		return nil, errNoOrder
	}
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	trial := s.clone()
	l := trial.lockOf(c.Namespace, c.Lock)
	trial.settle(c, l, k, now)
	v, _ := trial.judge(c, l, k, now)
	if v.Reason == "" {
		return nil, nil
	}
	ref := trial.refuse(c, v, now)
	ref.Count = 0 // recorded in the copy only
	return ref, nil
}

// clone copies the store as far as a claim can change it.
func (s *Store) clone() *Store {
	t := New(WithNow(s.now), WithRules(s.rules))
	copies := map[*record]*record{}
	for id, r := range s.runs {
		c := *r
		c.attempts = slices.Clone(r.attempts)
		copies[r], t.runs[id] = &c, &c
	}
	for k, r := range s.keys {
		t.keys[k] = copies[r]
	}
	for k, l := range s.locks {
		c := *l
		c.run = copies[l.run]
		t.locks[k] = &c
	}
	for k, j := range s.jobs {
		t.jobs[k] = j
	}
	t.approvals, t.tombs = s.approvals, s.tombs
	return t
}

// Runs implements onerun.Ledger.
func (s *Store) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var found []*record
	for _, r := range s.runs {
		if r.Namespace == q.Namespace && s.matches(r.Run, q) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *record) int {
		if c := b.StartedAt.Compare(a.StartedAt); c != 0 {
			return c
		}
		return b.seq - a.seq
	})
	runs := make([]onerun.Run, 0, len(found))
	for _, r := range found {
		runs = append(runs, s.look(r, now))
	}
	if q.Pruned || q.RunID != "" || q.Partition != "" {
		runs = append(runs, s.buried(q)...)
		slices.SortStableFunc(runs, func(a, b onerun.Run) int { return b.StartedAt.Compare(a.StartedAt) })
	}
	if q.Limit > 0 && len(runs) > q.Limit {
		runs = runs[:q.Limit]
	}
	return runs, nil
}

func (s *Store) matches(r onerun.Run, q onerun.Query) bool {
	switch {
	case q.RunID != "" && r.RunID != q.RunID,
		q.Job != "" && s.rules.Name(r.Job) != s.rules.Name(q.Job),
		q.Partition != "" && s.rules.Name(r.Partition) != s.rules.Name(q.Partition),
		len(q.Statuses) > 0 && !slices.Contains(q.Statuses, r.Status),
		r.StartedAt.Before(q.Since),
		!q.Until.IsZero() && !r.StartedAt.Before(q.Until),
		q.RetryDue && (r.Status != onerun.Failed || r.NextRetryAt.IsZero()):
		return false
	}
	return true
}

// look adds what is found out about a run when it is read.
func (s *Store) look(r *record, now time.Time) onerun.Run {
	run := r.Run
	run.Labels = maps.Clone(r.Labels)
	for _, k := range s.skips {
		if s.skipOf(*k, r) {
			run.Skips += k.Count
		}
	}
	if run.Status != onerun.Running {
		return run
	}
	run.Liveness, run.Evidence = onerun.Unknown, "its lease runs until "+r.LeaseExpiresAt.Format(time.RFC3339)
	if s.over(s.lockOf(r.Namespace, r.Lock), now) {
		run.Stale, run.Evidence = true, "its lease ran out at "+r.LeaseExpiresAt.Format(time.RFC3339)
	}
	if now.Sub(run.StartedAt) > s.staleAfter(r) {
		run.Stale = true
	}
	return run
}

// staleAfter is how long a run may last until it is shown as stale: what its owner
// said, else twice the longest of the job's last 50 successes.
func (s *Store) staleAfter(r *record) time.Duration {
	if r.StaleAfter > 0 {
		return r.StaleAfter
	}
	var ended []onerun.Run
	for _, o := range s.runs {
		if o.Namespace == r.Namespace && o.Job == r.Job && o.Status != onerun.Running {
			ended = append(ended, o.Run)
		}
	}
	slices.SortFunc(ended, func(a, b onerun.Run) int { return b.StartedAt.Compare(a.StartedAt) })
	longest := time.Duration(0)
	for _, e := range s.rules.Usual(ended) {
		longest = max(longest, e.FinishedAt.Sub(e.StartedAt))
	}
	return onerun.UsualStaleAfter(longest)
}

// skipOf reports whether a skip belongs to a run: to its key, or, for an unkeyed
// run, to the run as holder.
func (s *Store) skipOf(k onerun.Skip, r *record) bool {
	if k.Namespace != r.Namespace || k.Job != r.Job {
		return false
	}
	if key := r.Key(); key != "" {
		return k.Key == key
	}
	return k.Key == "" && k.Holder == r.Run.Holder().ID()
}

// Detail implements onerun.Ledger.
func (s *Store) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Detail{}, err
	}
	defer s.mu.Unlock()
	r := s.runs[runID]
	if t := s.tombOf(namespace, runID, "", ""); t != nil {
		return onerun.Detail{Run: *t, Events: s.eventsOf(runID)}, nil
	}
	if r == nil || r.Namespace != namespace {
		return onerun.Detail{}, fmt.Errorf("run %s: %w", runID, onerun.ErrNotFound)
	}
	d := onerun.Detail{Run: s.look(r, now), Attempts: slices.Clone(r.attempts)}
	for _, k := range s.skips {
		if s.skipOf(*k, r) {
			d.Skips = append(d.Skips, *k)
		}
	}
	for _, a := range s.approvals {
		if a.RunID == runID {
			d.Approvals = append(d.Approvals, *a)
		}
	}
	d.Events = s.eventsOf(runID)
	return d, nil
}

func (s *Store) eventsOf(runID string) (out []onerun.Event) {
	for _, e := range s.events {
		if e.RunID == runID {
			out = append(out, e)
		}
	}
	return out
}

// Skips implements onerun.Ledger.
func (s *Store) Skips(ctx context.Context, namespace, job, partition string) ([]onerun.Skip, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []onerun.Skip
	for _, k := range s.skips {
		if k.Namespace == namespace && k.Job == job && k.Key == onerun.MakeKey(job, partition) {
			out = append(out, *k)
		}
	}
	return out, nil
}

// Decisions implements onerun.Ledger.
func (s *Store) Decisions(ctx context.Context, namespace, job string) ([]onerun.Event, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []onerun.Event
	for _, e := range s.events {
		if e.Namespace == namespace && e.Job == job && e.RunID == "" && e.By != "" {
			out = append(out, e)
		}
	}
	return out, nil
}

// Jobs implements onerun.Ledger.
func (s *Store) Jobs(ctx context.Context, namespace string) ([]onerun.JobState, error) {
	if _, err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []onerun.JobState
	for _, j := range s.jobs {
		if j.Namespace == namespace {
			out = append(out, *j)
		}
	}
	slices.SortFunc(out, func(a, b onerun.JobState) int { return strings.Compare(a.Job, b.Job) })
	return out, nil
}

// Locks implements onerun.Ledger.
func (s *Store) Locks(ctx context.Context, namespace string) ([]onerun.LockState, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []onerun.LockState
	for _, l := range s.locks {
		if l.lease.Owner == "" || l.lease.Namespace != namespace {
			continue
		}
		state := onerun.LockState{Namespace: namespace, Lock: l.lease.Lock, Token: l.lease.Token, Holder: l.holder(), Liveness: onerun.Unknown}
		if l.run != nil {
			run := s.look(l.run, now)
			state.Run = &run
		}
		out = append(out, state)
	}
	slices.SortFunc(out, func(a, b onerun.LockState) int { return strings.Compare(string(a.Lock), string(b.Lock)) })
	return out, nil
}
