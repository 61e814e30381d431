package memory

import (
	"context"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// Prune implements onerun.Operator.
func (s *Store) Prune(ctx context.Context, q onerun.PruneRequest) (onerun.Pruned, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Pruned{}, err
	}
	defer s.mu.Unlock()
	if q, err = q.Checked(); err != nil {
		return onerun.Pruned{}, err
	}
	var p onerun.Pruned
	for _, r := range s.prunable(q) {
		if p.Runs == int64(q.Limit) {
			p.More = true
			break
		}
		s.remove(r)
		p.Runs++
		switch {
		case r.Partition == "":
		case q.ForgetKeys:
			p.Forgotten++
		case s.rules.Bury(r.Run):
			tomb := r.Run
			tomb.Pruned, tomb.Labels, tomb.Error, tomb.Worker = now, nil, "", onerun.Worker{}
			tomb.Evidence = "its history was pruned on " + now.UTC().Format(time.DateOnly)
			s.tombs[s.id(r.Namespace, r.Key())] = &tomb
			p.Keys++
		}
	}
	if !p.More && q.Partition == "" {
		s.forgetRefusals(q, &p)
	}
	if q.ForgetKeys && !p.More {
		n, more := s.forget(q)
		p.Forgotten, p.More = p.Forgotten+n, more
	}
	if p.Runs+p.Forgotten > 0 && q.By != "" && q.Cursor == "" {
		s.event(now, onerun.EventPruned, onerun.Run{Namespace: q.Namespace, Job: q.Job, Partition: q.Partition}, q.Who, q.Words())
	}
	return p, nil
}

// prunable are the runs that a request is about, those that began first first.
func (s *Store) prunable(q onerun.PruneRequest) []*record {
	var all []*record
	for _, r := range s.runs {
		if r.Namespace == q.Namespace && (q.Job == "" || r.Job == q.Job) && s.rules.PruneStatus(r.Status) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *record) int {
		if c := b.StartedAt.Compare(a.StartedAt); c != 0 {
			return c
		}
		return b.seq - a.seq
	})
	kept := map[string]int{}
	var out []*record
	for _, r := range all { // newest first
		kept[r.Job]++
		over := q.Oldest || q.Partition != "" || r.FinishedAt.Before(q.Before) || q.Keep > 0 && kept[r.Job] > q.Keep
		if q.ForgetKeys && r.Partition != "" && s.rules.TakesTwo(r.Run, q.TwoPeople) { // isn't for one to forget
			continue
		}
		if over && (q.Partition == "" || r.Partition == q.Partition) && s.rules.Prunable(r.Run, s.lastApproval(r.RunID)) {
			out = append(out, r)
		}
	}
	slices.Reverse(out)
	return out
}

// remove takes a run away with all that is kept of it.
func (s *Store) remove(r *record) {
	delete(s.runs, r.RunID)
	if r.Partition != "" {
		delete(s.keys, s.id(r.Namespace, r.Key()))
	}
	s.skips = slices.DeleteFunc(s.skips, func(k *onerun.Skip) bool { return s.skipOf(*k, r) })
	s.approvals = slices.DeleteFunc(s.approvals, func(a *onerun.Approval) bool { return a.RunID == r.RunID })
	s.events = slices.DeleteFunc(s.events, func(e onerun.Event) bool { return e.RunID == r.RunID && e.By == "" })
}

// forgetRefusals removes those of keys that have no run, whose end would take them along, and of unkeyed jobs.
func (s *Store) forgetRefusals(q onerun.PruneRequest, p *onerun.Pruned) {
	s.skips = slices.DeleteFunc(s.skips, func(k *onerun.Skip) bool {
		_, ran := s.keys[s.id(k.Namespace, k.Key)]
		if k.Namespace != q.Namespace || q.Job != "" && k.Job != q.Job || !s.rules.RefusalGoes(*k, k.Key != "" && ran, q.Before) {
			return false
		}
		if p.Refusals == int64(q.Limit) {
			p.More = true
			return false
		}
		p.Refusals++
		return true
	})
}

// forget removes tombstones, so that their keys may run again.
func (s *Store) forget(q onerun.PruneRequest) (n int64, more bool) {
	for id, t := range s.tombs {
		if t.Namespace != q.Namespace || q.Job != "" && t.Job != q.Job || q.Partition != "" && t.Partition != q.Partition {
			continue
		}
		if s.rules.TakesTwo(*t, q.TwoPeople) {
			continue
		}
		if q.Partition == "" && !q.Oldest && !t.FinishedAt.Before(q.Before) {
			continue
		}
		if n == int64(q.Limit) {
			return n, true
		}
		delete(s.tombs, id)
		n++
	}
	return n, false
}

// tombOf finds the tombstone of a run or a key; nil: there is none.
func (s *Store) tombOf(namespace, runID, job, partition string) *onerun.Run {
	for _, t := range s.tombs {
		if t.Namespace == namespace && (runID != "" && t.RunID == runID || runID == "" && t.Job == job && t.Partition == partition) {
			c := *t
			return &c
		}
	}
	return nil
}

// buried are the tombstones that a query selects.
func (s *Store) buried(q onerun.Query) []onerun.Run {
	var out []onerun.Run
	for _, t := range s.tombs {
		if t.Namespace == q.Namespace && s.matches(*t, q) {
			out = append(out, *t)
		}
	}
	return out
}

// buriedRun gives a run for an approval, if it was pruned: made again of its tombstone,
// which knows the last attempt alone; unbury puts it back into the ledger.
func (s *Store) buriedRun(namespace, runID string) *record {
	t := s.tombOf(namespace, runID, "", "")
	if t == nil {
		return nil
	}
	r := &record{Run: *t, seq: len(s.runs)}
	r.Pruned, r.Evidence = time.Time{}, ""
	if r.Attempt > 0 {
		r.attempts = []onerun.Attempt{{Number: r.Attempt, Status: r.Status, Execution: r.Execution}}
	}
	return r
}

func (s *Store) unbury(r *record) {
	id := s.id(r.Namespace, r.Key())
	s.runs[r.RunID], s.keys[id] = r, r
	delete(s.tombs, id)
}
