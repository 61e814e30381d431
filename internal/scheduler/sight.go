package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// recentRuns is how many runs of a job are looked at, the newest. What is older is asked for where it may matter, so that a
// look at a job of which all is well costs the same after a million runs.
const recentRuns = 50

// sight is what one look at a job sees of it.
type sight struct {
	*Engine
	job    *Job
	since  time.Time    // when its schedule began to count
	now    time.Time    // of the look
	newest []onerun.Run // newest first
	full   bool         // there may be more
	older  []onerun.Run // of them, those that run or FAILED; nil: they were not asked for
	wide   bool         // they were
	before *lastLook    // what the look before it saw; nil: there was none
	absent map[string]bool
}

// lastLook is what a look leaves for the next one.
type lastLook struct {
	newest  string          // the newest run, and which attempt of it
	running []string        // run ids
	absent  map[string]bool // partitions of fires of which there was no run
}

// see looks at a job's newest runs, and beyond them where something may have gone by unseen: after more than recentRuns starts
// since the look before, as of a backfill, and while something runs for longer than as many.
func (e *Engine) see(ctx context.Context, j *Job, since, now time.Time) (*sight, error) {
	s := &sight{Engine: e, job: j, since: since, now: now, before: e.alerts.recall(j.Name), absent: map[string]bool{}}
	limit := max(recentRuns, 2*j.AtMost.Runs+2)
	var err error
	if s.newest, err = e.Store.Runs(ctx, onerun.Query{Namespace: e.Namespace, Job: j.Name, Limit: limit}); err != nil {
		return nil, err
	}
	s.full = len(s.newest) >= limit
	if s.full && (s.gap() || slices.ContainsFunc(s.before.running, func(id string) bool { return !s.has(id) })) {
		return s, s.widen(ctx)
	}
	return s, nil
}

// gap reports whether runs may have begun of which neither this look nor the one before it has seen anything.
func (s *sight) gap() bool {
	return s.before == nil || s.full && !slices.ContainsFunc(s.newest, func(r onerun.Run) bool { return nameOf(r) == s.before.newest })
}

func nameOf(r onerun.Run) string { return fmt.Sprintf("%s %d", r.RunID, r.Attempt) }

// has reports whether a run was seen.
func (s *sight) has(id string) bool {
	is := func(r onerun.Run) bool { return r.RunID == id }
	return slices.ContainsFunc(s.newest, is) || slices.ContainsFunc(s.older, is)
}

// widen asks for older runs that may be a trouble.
func (s *sight) widen(ctx context.Context) error {
	if s.wide || !s.full {
		return nil
	}
	for _, status := range []onerun.Status{onerun.Running, onerun.Failed} {
		runs, err := s.Store.Runs(ctx, onerun.Query{Namespace: s.Namespace, Job: s.job.Name, Statuses: []onerun.Status{status}, Limit: recentRuns})
		if err != nil {
			return err
		}
		for _, r := range runs {
			if !s.has(r.RunID) {
				s.older = append(s.older, r)
			}
		}
	}
	s.wide = true
	return nil
}

// remembered is what the next look is to know.
func (s *sight) remembered() *lastLook {
	m := &lastLook{absent: s.absent}
	if len(s.newest) > 0 {
		m.newest = nameOf(s.newest[0])
	}
	for _, r := range slices.Concat(s.newest, s.older) {
		if r.Status == onerun.Running {
			m.running = append(m.running, r.RunID)
		}
	}
	return m
}

// run finds the run of a key, nil if there is none: by itself where it isn't among those that were seen.
func (s *sight) run(ctx context.Context, partition string) (*onerun.Run, error) {
	for _, runs := range [][]onerun.Run{s.newest, s.older} {
		for i := range runs {
			if runs[i].Partition == partition {
				return &runs[i], nil
			}
		}
	}
	return s.one(ctx, onerun.Query{Namespace: s.Namespace, Job: s.job.Name, Partition: partition, Limit: 1})
}

func (s *sight) one(ctx context.Context, q onerun.Query) (*onerun.Run, error) {
	runs, err := s.Store.Runs(ctx, q)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return &runs[0], nil
}

// troubles are what is wrong with the job, where people know of some.
func (s *sight) troubles(ctx context.Context, known map[AlertKind]open) (all []trouble, err error) {
	for _, one := range []struct {
		kind  AlertKind
		found func(context.Context, open) (trouble, bool, error)
	}{
		{AlertFailure, s.failing},
		{AlertStale, s.stale},
		{AlertLate, s.notInTime},
		{AlertSkip, s.skipping},
		{AlertOften, s.often},
	} {
		if !s.job.tells(one.kind) {
			continue
		}
		t, ok, err := one.found(ctx, known[one.kind])
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, t)
		}
	}
	return all, nil
}

// failing: a date that FAILED stays a trouble until somebody deals with it; of fires that stand for nothing but
// themselves the newest counts.
func (s *sight) failing(ctx context.Context, known open) (trouble, bool, error) {
	t, found, well := s.failed(known.Run)
	if found || known.Cause == "" {
		return t, found, nil
	}
	// Before it is over it has to be, however many runs there were since.
	if err := s.widen(ctx); err != nil {
		return trouble{}, false, err
	}
	if t, found, _ = s.failed(known.Run); found || known.Run == "" {
		return t, found, nil
	}
	r, err := s.one(ctx, onerun.Query{Namespace: s.Namespace, RunID: known.Run})
	if err != nil || r == nil || well && s.job.alone(*r) {
		return trouble{}, false, err
	}
	return s.failedStill(*r)
}

// failed looks for a run that FAILED. well: one that stands for nothing but itself has ended well since.
func (s *sight) failed(known string) (t trouble, found, well bool) {
	held := -1
	for i, r := range s.newest {
		switch alone := s.job.alone(r); {
		case well && alone:
		case r.Status == onerun.Failed:
			return s.job.failure(r), true, well
		case r.Status == onerun.Running && r.RunID == known:
			held = i
		case r.Status == onerun.Succeeded && alone && held < 0:
			well = true
		}
	}
	for _, r := range s.older {
		if r.Status == onerun.Failed && !s.job.alone(r) {
			return s.job.failure(r), true, well
		}
	}
	if held >= 0 {
		t, found, _ = s.failedStill(s.newest[held])
	}
	return t, found, well
}

// failedStill is what became of a failure that people know of: while it is done again, nobody knows whether it is over.
func (s *sight) failedStill(r onerun.Run) (trouble, bool, error) {
	switch r.Status {
	case onerun.Failed:
		return s.job.failure(r), true, nil
	case onerun.Running:
		return trouble{kind: AlertFailure, held: true}, true, nil
	}
	return trouble{}, false, nil
}

func (s *sight) stale(ctx context.Context, known open) (trouble, bool, error) {
	search := func() (trouble, bool) {
		for _, r := range slices.Concat(s.newest, s.older) {
			if r.Status == onerun.Running && r.Stale {
				return staleness(r), true
			}
		}
		return trouble{}, false
	}
	t, found := search()
	if found || known.Cause == "" {
		return t, found, nil
	}
	if err := s.widen(ctx); err != nil {
		return trouble{}, false, err
	}
	if t, found = search(); found {
		return t, found, nil
	}
	r, err := s.one(ctx, onerun.Query{Namespace: s.Namespace, RunID: known.Cause})
	if err != nil || r == nil || r.Status != onerun.Running || !r.Stale {
		return trouble{}, false, err
	}
	return staleness(*r), true, nil
}
