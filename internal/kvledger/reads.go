package kvledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// fresh is a look at the store beside a transaction, at the same time by the clock.
func (t *tx) fresh() *tx {
	return &tx{ctx: t.ctx, l: t.l, now: t.now, seen: map[string]Entry{}, writes: map[string]Write{}, listed: map[string][]string{}}
}

// page is how many entries are read at once.
const page = MaxRange

// walk calls f for every entry below a path, in order, until that says that it is enough.
func (l *Ledger) walk(ctx context.Context, below string, f func(e Entry) (more bool, err error)) error {
	from, to := under(below)
	return l.walkRange(ctx, from, to, page, f)
}

func (l *Ledger) walkRange(ctx context.Context, from, to string, atOnce int, f func(e Entry) (more bool, err error)) error {
	for {
		entries, err := l.space.Range(ctx, from, to, atOnce)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if more, err := f(e); err != nil || !more {
				return err
			}
		}
		if len(entries) < atOnce {
			return nil
		}
		from = after(entries[len(entries)-1].Key)
	}
}

// shown adds to runs what is found out about them when they are read.
func (t *tx) shown(records ...*runRecord) ([]onerun.Run, error) {
	var keys []string
	for _, r := range records {
		if r.pruned() {
			continue
		}
		keys = append(keys, keySkips(r.Run.Namespace, r.Run.Job, r.Run.Partition, r.Run.Holder().ID()))
		if r.Run.Status == onerun.Running {
			keys = append(keys, keyLock(r.Run.Namespace, r.Run.Lock), keyLife(r.Run.Namespace, r.Run.Lock))
		}
	}
	if err := t.read(keys...); err != nil {
		return nil, err
	}
	out := make([]onerun.Run, 0, len(records))
	for _, r := range records {
		run := r.Run
		if r.pruned() {
			run = bare(run) // earlier programs left more there
			run.Evidence = "its history was pruned on " + run.Pruned.UTC().Format(time.DateOnly)
			out = append(out, run)
			continue
		}
		n, err := load[countRecord](t, keySkips(run.Namespace, run.Job, run.Partition, run.Holder().ID()))
		if err != nil {
			return nil, err
		}
		if n != nil {
			run.Skips = n.Count
		}
		if run.Status == onerun.Running {
			if err := t.judge(&run); err != nil {
				return nil, err
			}
		}
		out = append(out, run)
	}
	return out, nil
}

// records reads the runs that entries of a listing name, those that are there.
func (t *tx) records(entries []Entry) ([]*runRecord, error) {
	keys := make([]string, 0, len(entries))
	for _, e := range entries {
		keys = append(keys, keyRun(string(e.Value)))
	}
	f := t.fresh()
	if err := f.read(keys...); err != nil {
		return nil, err
	}
	var out []*runRecord
	for _, k := range keys {
		r, err := load[runRecord](f, k)
		if err != nil {
			return nil, err
		}
		if r != nil {
			out = append(out, r)
		}
	}
	return out, nil
}

func matches(r onerun.Run, q onerun.Query) bool {
	switch {
	case r.Namespace != q.Namespace,
		q.RunID != "" && r.RunID != q.RunID,
		q.Job != "" && r.Job != q.Job,
		q.Partition != "" && r.Partition != q.Partition,
		len(q.Statuses) > 0 && !slices.Contains(q.Statuses, r.Status),
		r.StartedAt.Before(q.Since),
		!q.Until.IsZero() && !r.StartedAt.Before(q.Until),
		q.RetryDue && (r.Status != onerun.Failed || r.NextRetryAt.IsZero()):
		return false
	}
	return true
}

// Runs implements onerun.Ledger.
func (l *Ledger) Runs(ctx context.Context, q onerun.Query) (runs []onerun.Run, err error) {
	err = l.decide(ctx, "list the runs", nil, func(t *tx) error {
		runs = nil
		if err := t.clock(); err != nil {
			return err
		}
		found, err := t.find(q)
		if err != nil {
			return err
		}
		slices.SortStableFunc(found, func(a, b *runRecord) int {
			if c := b.Run.StartedAt.Compare(a.Run.StartedAt); c != 0 {
				return c
			}
			return strings.Compare(b.Run.RunID, a.Run.RunID)
		})
		if q.Limit > 0 && len(found) > q.Limit {
			found = found[:q.Limit]
		}
		for some := range slices.Chunk(found, MaxOps) {
			shown, err := t.fresh().shown(some...)
			if err != nil {
				return err
			}
			runs = append(runs, shown...)
		}
		return nil
	})
	return runs, err
}

// find selects runs by the listing that has the fewest others in it.
func (t *tx) find(q onerun.Query) ([]*runRecord, error) {
	ns := segment(q.Namespace)
	switch {
	case q.RunID != "":
		return t.findOne(keyRun(q.RunID), q)
	case q.Job != "" && q.Partition != "":
		key, err := load[keyRecord](t, keyOf(q.Namespace, q.Job, q.Partition))
		if err != nil || key == nil {
			return nil, err
		}
		return t.findOne(keyRun(key.RunID), q)
	}
	all := len(q.Statuses) == 0
	only := func(s onerun.Status) bool { return !all && len(q.Statuses) == 1 && q.Statuses[0] == s }
	var found []*runRecord
	var err error
	switch {
	case only(onerun.Running):
		found, err = t.findHeld(q)
	case only(onerun.Failed), q.RetryDue:
		found, err = t.findIn(path("failed", ns), q)
	case q.Job != "":
		found, err = t.findIn(path("hist", ns, segment(q.Job)), q)
	default:
		found, err = t.findIn(path("time", ns), q)
	}
	if err != nil || !q.Pruned {
		return found, err
	}
	buried, err := t.findIn(path("tomb", ns), q)
	return append(found, buried...), err
}

func (t *tx) findOne(key string, q onerun.Query) ([]*runRecord, error) {
	r, err := load[runRecord](t, key)
	if err != nil || r == nil || !matches(r.Run, q) {
		return nil, err
	}
	return []*runRecord{r}, nil
}

// findIn walks a listing from the newest on.
func (t *tx) findIn(listing string, q onerun.Query) (found []*runRecord, err error) {
	from, to := under(listing)
	if !q.Since.IsZero() { // the last that is wanted
		_, to = under(path(listing, newest(q.Since)))
	}
	if !q.Until.IsZero() { // the first that is too new
		_, from = under(path(listing, newest(q.Until)))
	}
	atOnce := page
	if q.Limit > 0 && len(q.Statuses) == 0 && !q.RetryDue { // most of what is read is wanted
		atOnce = min(q.Limit+1, page)
	}
	var some []Entry
	look := func() error {
		records, err := t.records(some)
		some = nil
		for _, r := range records {
			if matches(r.Run, q) {
				found = append(found, r)
			}
		}
		return err
	}
	err = t.l.walkRange(t.ctx, from, to, atOnce, func(e Entry) (bool, error) {
		if some = append(some, e); len(some) < min(atOnce, MaxOps) {
			return true, nil
		}
		if err := look(); err != nil {
			return false, err
		}
		return q.Limit == 0 || len(found) < q.Limit, nil
	})
	if err == nil {
		err = look()
	}
	return found, err
}

// findHeld finds RUNNING runs: each holds a lock.
func (t *tx) findHeld(q onerun.Query) (found []*runRecord, err error) {
	locks, err := t.heldLocks(q.Namespace)
	if err != nil {
		return nil, err
	}
	var runs []Entry
	for _, h := range locks {
		if h.RunID != "" {
			runs = append(runs, Entry{Value: []byte(h.RunID)})
		}
	}
	for some := range slices.Chunk(runs, MaxOps) {
		records, err := t.records(some)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if matches(r.Run, q) {
				found = append(found, r)
			}
		}
	}
	return found, nil
}

// heldLocks are the locks of a namespace that have an owner.
func (t *tx) heldLocks(ns string) (out []held, err error) {
	var names []onerun.LockName
	err = t.l.walk(t.ctx, path("held", segment(ns)), func(e Entry) (bool, error) {
		names = append(names, onerun.LockName(e.Value))
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(names, MaxOps/2) {
		f := t.fresh()
		var keys []string
		for _, n := range some {
			keys = append(keys, keyLock(ns, n), keyLife(ns, n))
		}
		if err := f.read(keys...); err != nil {
			return nil, err
		}
		for _, n := range some {
			h, err := f.lock(ns, n)
			if err != nil {
				return nil, err
			}
			if h.owner() != "" {
				out = append(out, h)
			}
		}
	}
	return out, nil
}

// Locks implements onerun.Ledger.
func (l *Ledger) Locks(ctx context.Context, namespace string) (out []onerun.LockState, err error) {
	err = l.decide(ctx, "list the locks", nil, func(t *tx) error {
		out = nil
		if err := t.clock(); err != nil {
			return err
		}
		locks, err := t.heldLocks(namespace)
		if err != nil {
			return err
		}
		for _, h := range locks {
			state := onerun.LockState{Namespace: namespace, Lock: h.Lock, Token: h.Token, Liveness: onerun.Unknown}
			if h.over() {
				state.Evidence = ranOut(h.Expires)
			}
			var r *runRecord
			if h.RunID != "" {
				f := t.fresh()
				if r, err = load[runRecord](f, keyRun(h.RunID)); err != nil {
					return err
				}
				if r == nil || r.Run.Status != onerun.Running || r.Run.Lock != h.Lock {
					continue // it ended while this was read
				}
				runs, err := f.shown(r)
				if err != nil {
					return err
				}
				state.Run = &runs[0]
			}
			state.Holder = h.holder(r)
			out = append(out, state)
		}
		slices.SortFunc(out, func(a, b onerun.LockState) int { return strings.Compare(string(a.Lock), string(b.Lock)) })
		return nil
	})
	return out, err
}

// Detail implements onerun.Ledger.
func (l *Ledger) Detail(ctx context.Context, namespace, runID string) (d onerun.Detail, err error) {
	err = l.decide(ctx, "read the run", nil, func(t *tx) error {
		d = onerun.Detail{}
		r, err := load[runRecord](t, keyRun(runID))
		if err != nil {
			return err
		}
		if err := t.clock(); err != nil {
			return err
		}
		if r == nil || r.Run.Namespace != namespace {
			return fmt.Errorf("run %s: %w", runID, onerun.ErrNotFound)
		}
		runs, err := t.shown(r)
		if err != nil {
			return err
		}
		d.Run = runs[0]
		if d.Events, err = l.events(ctx, namespace, "run", runID); err != nil || r.pruned() {
			return err
		}
		earlier, err := l.earlier(ctx, r)
		if err != nil {
			return err
		}
		for _, a := range append(earlier, r.Attempts...) {
			if a.Status == onerun.Running {
				a.LeaseExpiresAt = d.Run.LeaseExpiresAt
			}
			d.Attempts = append(d.Attempts, a.Attempt)
		}
		spent, err := l.spent(ctx, r)
		if err != nil {
			return err
		}
		d.Approvals = append(spent, r.Approvals...)
		slices.SortStableFunc(d.Approvals, func(a, b onerun.Approval) int { return cmp.Compare(a.ID, b.ID) })
		below := path("skip", segment(namespace), segment(r.Run.Job), segment(r.Run.Partition))
		if r.Run.Partition == "" {
			below = path(below, digest(r.Run.Holder().ID())[:32])
		}
		d.Skips, err = l.skips(ctx, below)
		return err
	})
	return d, err
}

// Skips implements onerun.Ledger.
func (l *Ledger) Skips(ctx context.Context, namespace, job, partition string) (out []onerun.Skip, err error) {
	err = l.decide(ctx, "read the refusals", nil, func(*tx) error {
		out, err = l.skips(ctx, path("skip", segment(namespace), segment(job), segment(partition)))
		return err
	})
	return out, err
}

func (l *Ledger) skips(ctx context.Context, below string) (out []onerun.Skip, err error) {
	err = l.walk(ctx, below, func(e Entry) (bool, error) {
		k, err := decode[onerun.Skip](e.Key, e.Value)
		if err == nil {
			out = append(out, *k)
		}
		return err == nil, err
	})
	slices.SortStableFunc(out, func(a, b onerun.Skip) int { return a.FirstAt.Compare(b.FirstAt) })
	return out, err
}

// Jobs implements onerun.Ledger.
func (l *Ledger) Jobs(ctx context.Context, namespace string) (out []onerun.JobState, err error) {
	err = l.decide(ctx, "list the jobs", nil, func(*tx) error {
		out = nil
		err := l.walk(ctx, path("job", segment(namespace)), func(e Entry) (bool, error) {
			j, err := decode[onerun.JobState](e.Key, e.Value)
			if err == nil {
				out = append(out, *j)
			}
			return err == nil, err
		})
		slices.SortFunc(out, func(a, b onerun.JobState) int { return strings.Compare(a.Job, b.Job) })
		return err
	})
	return out, err
}

// Namespaces lists those in which a lock is held.
func (l *Ledger) Namespaces(ctx context.Context) (out []string, err error) {
	err = l.decide(ctx, "list the namespaces", nil, func(t *tx) error {
		out = nil
		from, to := under("held")
		for {
			entries, err := l.space.Range(ctx, from, to, 1)
			if err != nil || len(entries) == 0 {
				return err
			}
			parts := strings.SplitN(entries[0].Key, "/", 3)
			lock, err := load[lockRecord](t.fresh(), path("lock", parts[1], parts[2]))
			if err != nil {
				return err
			}
			if lock != nil {
				out = append(out, lock.Namespace)
			}
			_, from = under(path(parts[0], parts[1]))
		}
	})
	return out, err
}
