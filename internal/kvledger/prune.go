package kvledger

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// examined bounds how many runs one step of Prune looks at.
const examined = 5000

// Prune implements onerun.Operator. Each run goes in a transaction of its own, so no claim is held
// up. The cursor is the last run that was looked at.
func (l *Ledger) Prune(ctx context.Context, q onerun.PruneRequest) (p onerun.Pruned, err error) {
	err = l.decide(ctx, "prune", nil, func(t *tx) error {
		if q, err = q.Checked(); err != nil {
			return err
		}
		if err := t.clock(); err != nil {
			return err
		}
		return t.prune(q, &p)
	})
	return p, err
}

// told is at the beginning of a cursor when the pruning has been recorded.
const told = "!"

func (t *tx) prune(q onerun.PruneRequest, p *onerun.Pruned) error {
	cursor, recorded := strings.CutPrefix(q.Cursor, told)
	q.Cursor = cursor
	if err := t.pruneRuns(q, p); err != nil {
		return err
	}
	if !p.More && q.Partition == "" && !q.Before.IsZero() {
		if err := t.pruneRefusals(q, p); err != nil {
			return err
		}
	}
	if q.ForgetKeys && !p.More {
		if err := t.forget(q, p); err != nil {
			return err
		}
	}
	if p.More && (recorded || p.Runs+p.Forgotten > 0) {
		p.Cursor = told + p.Cursor
	}
	if p.Runs+p.Forgotten == 0 || q.By == "" || recorded { // the first step that removes something stands for all
		return nil
	}
	return t.l.decide(t.ctx, "record the pruning", nil, func(t *tx) error {
		if err := t.clock(); err != nil {
			return err
		}
		if err := t.event(nil, onerun.Run{Namespace: q.Namespace, Job: q.Job, Partition: q.Partition}, onerun.EventPruned, q.Who, q.Words()); err != nil {
			return err
		}
		_, err := t.commit("record the pruning")
		return err
	})
}

// pruneRuns removes the runs that a request is about, those that began first first.
func (t *tx) pruneRuns(q onerun.PruneRequest, p *onerun.Pruned) error {
	cuts := &cuts{t: t, q: q, of: map[string]string{}}
	one := func(r *runRecord) (more bool, err error) {
		over, err := cuts.over(r)
		if err != nil || !over {
			return true, err
		}
		if p.Runs == int64(q.Limit) {
			p.More = true
			return false, nil
		}
		gone, err := t.remove(r, q)
		if err != nil || !gone {
			return true, err
		}
		p.Runs++
		switch {
		case r.Run.Partition == "":
		case q.ForgetKeys:
			p.Forgotten++
		default:
			p.Keys++
		}
		return true, nil
	}
	if q.Partition != "" {
		found, err := t.find(onerun.Query{Namespace: q.Namespace, Job: q.Job, Partition: q.Partition})
		if err != nil || len(found) == 0 {
			return err
		}
		_, err = one(found[0])
		return err
	}
	listing := path("done", segment(q.Namespace))
	from, to := under(listing)
	if strings.HasPrefix(q.Cursor, from) {
		from = after(q.Cursor)
	}
	if !q.Before.IsZero() && q.Keep == 0 && !q.Oldest {
		// What ended before that began before that, unless a worker's clock is a day late.
		to = path(listing, oldest(q.Before.Add(24*time.Hour)))
	}
	seen := 0
	var some []Entry
	look := func() (bool, error) {
		records, err := t.records(some)
		if err != nil {
			return false, err
		}
		last := ""
		if n := len(some); n > 0 {
			last = some[n-1].Key
		}
		some = nil
		for _, r := range records {
			if more, err := one(r); err != nil || !more {
				return false, err
			}
		}
		if seen += len(records); last != "" {
			p.Cursor = last
		}
		if seen >= examined {
			p.More = true
		}
		return !p.More, nil
	}
	err := t.l.walkRange(t.ctx, from, to, page, func(e Entry) (bool, error) {
		if some = append(some, e); len(some) < MaxOps {
			return true, nil
		}
		return look()
	})
	if err == nil && !p.More {
		_, err = look()
	}
	if !p.More {
		p.Cursor = ""
	}
	return err
}

// cuts says which runs are over a limit.
type cuts struct {
	t  *tx
	q  onerun.PruneRequest
	of map[string]string // by job: where the oldest of the successes that stay by their number is listed
}

func (c *cuts) over(r *runRecord) (bool, error) {
	q, run := c.q, r.Run
	switch {
	case r.pruned(), run.Status != onerun.Succeeded, r.lastApproval() != nil, q.Job != "" && run.Job != q.Job:
		return false, nil
	case q.ForgetKeys && run.Partition != "" && takesTwo(run, q): // isn't for one to forget
		return false, nil
	case q.Oldest, q.Partition != "", run.FinishedAt.Before(q.Before):
		return true, nil
	case q.Keep == 0:
		return false, nil
	}
	cut, ok := c.of[run.Job]
	if !ok {
		var err error
		if cut, err = c.cut(run.Job); err != nil {
			return false, err
		}
		c.of[run.Job] = cut
	}
	return cut != "" && inHistory(run) > cut, nil
}

// cut finds where the oldest success of a job is listed that stays by its number; "": all stay.
func (c *cuts) cut(job string) (cut string, err error) {
	kept := 0
	from, to := under(path("hist", segment(c.q.Namespace), segment(job)))
	var some []Entry
	look := func() error {
		records, err := c.t.records(some)
		some = nil
		for _, r := range records {
			if r.Run.Status == onerun.Succeeded && kept < c.q.Keep {
				if kept++; kept == c.q.Keep {
					cut = inHistory(r.Run)
				}
			}
		}
		return err
	}
	err = c.t.l.walkRange(c.t.ctx, from, to, min(page, c.q.Keep+1), func(e Entry) (bool, error) {
		if some = append(some, e); len(some) < MaxOps {
			return true, nil
		}
		return kept < c.q.Keep, look()
	})
	if err == nil {
		err = look()
	}
	return cut, err
}

func takesTwo(run onerun.Run, q onerun.PruneRequest) bool {
	return run.TwoPeople || slices.Contains(q.TwoPeople, run.Job)
}

// spare is how many writes of a transaction are for what a run always has.
const spare = 20

// remove takes a run away with all that is kept of it, unless somebody works with it.
func (t *tx) remove(r *runRecord, q onerun.PruneRequest) (gone bool, err error) {
	key, rest := keyRun(r.Run.RunID), []string(nil)
	err = t.l.decide(t.ctx, "prune", nil, func(f *tx) error {
		gone, f.now = false, t.now
		now, err := load[runRecord](f, key)
		if err != nil || now == nil || onerun.Expected(now.Run) != onerun.Expected(r.Run) || now.lastApproval() != nil || now.pruned() {
			return err
		}
		if rest, err = t.restOf(now); err != nil {
			return err
		}
		if now.Run.Partition != "" && !q.ForgetKeys {
			tomb := &runRecord{Run: bare(now.Run), EventID: now.EventID}
			tomb.Run.Pruned = t.now
			f.putRun(tomb)
		} else {
			f.forgetRun(now)
		}
		for len(rest) > 0 && len(f.writes) < MaxOps-spare {
			f.delete(rest[0])
			rest = rest[1:]
		}
		_, err = f.commit("prune")
		gone = err == nil
		return err
	})
	if err != nil || !gone {
		return gone, err
	}
	// What a run has besides can be much. Nothing leads to it any more.
	for some := range slices.Chunk(rest, MaxOps) {
		var txn Txn
		for _, k := range some {
			txn.Writes = append(txn.Writes, Write{Key: k, Delete: true})
		}
		t.l.hook("prune the rest")
		if _, _, err := t.l.space.Commit(t.ctx, txn); err != nil {
			return true, err
		}
	}
	return true, nil
}

// bare is what a tombstone says of a run.
func bare(r onerun.Run) onerun.Run {
	return onerun.Run{
		RunID: r.RunID, Namespace: r.Namespace, Job: r.Job, Partition: r.Partition, BusinessDate: r.BusinessDate, Lock: r.Lock,
		Status: r.Status, Attempt: r.Attempt, ScheduledAt: r.ScheduledAt, Pruned: r.Pruned,
		Execution: onerun.Execution{Token: r.Token, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt, OnCrash: r.OnCrash, TwoPeople: r.TwoPeople},
	}
}

// forgetRun takes a run away, and its key with it.
func (t *tx) forgetRun(r *runRecord) {
	for _, k := range append(listed(r.Run), keyRun(r.Run.RunID)) {
		t.delete(k)
	}
	if r.Run.Partition != "" {
		t.delete(keyOf(r.Run.Namespace, r.Run.Job, r.Run.Partition))
	}
}

// restOf are the keys of what is kept of a run beside it, but for what people decided.
func (t *tx) restOf(r *runRecord) (keys []string, err error) {
	run := r.Run
	skips := path("skip", segment(run.Namespace), segment(run.Job), segment(run.Partition))
	if run.Partition == "" {
		skips = path(skips, digest(run.Holder().ID())[:32])
	}
	add := func(e Entry) (bool, error) {
		keys = append(keys, e.Key)
		return true, nil
	}
	for _, below := range []string{skips, path("attempt", segment(run.RunID)), path("approval", segment(run.RunID)), path("output", segment(run.RunID))} {
		if err := t.l.walkRange(t.ctx, below+"/", below+"0", 50, add); err != nil {
			return nil, err
		}
	}
	keys = append(keys, keySkips(run.Namespace, run.Job, run.Partition, run.Holder().ID()))
	err = t.l.walk(t.ctx, path("event", segment(run.Namespace), "run", segment(run.RunID)), func(e Entry) (bool, error) {
		rec, err := decode[eventRecord](e.Key, e.Value)
		if err == nil && rec.By == "" {
			keys = append(keys, e.Key)
		}
		return err == nil, err
	})
	return keys, err
}

// forget removes tombstones, so that their keys may run again.
func (t *tx) forget(q onerun.PruneRequest, p *onerun.Pruned) error {
	n, listing := int64(0), path("tomb", segment(q.Namespace))
	one := func(r *runRecord) (more bool, err error) {
		run := r.Run
		if !r.pruned() || q.Job != "" && run.Job != q.Job || q.Partition != "" && run.Partition != q.Partition || takesTwo(run, q) ||
			q.Partition == "" && !q.Oldest && !run.FinishedAt.Before(q.Before) {
			return true, nil
		}
		if n == int64(q.Limit) {
			p.More = true
			return false, nil
		}
		gone := false
		err = t.l.decide(t.ctx, "forget", nil, func(f *tx) error {
			gone = false
			now, err := load[runRecord](f, keyRun(run.RunID))
			if err != nil || !now.pruned() {
				return err
			}
			f.forgetRun(now)
			_, err = f.commit("forget")
			gone = err == nil
			return err
		})
		if gone {
			n++
			p.Forgotten++
		}
		return true, err
	}
	if q.Partition != "" {
		found, err := t.find(onerun.Query{Namespace: q.Namespace, Job: q.Job, Partition: q.Partition})
		if err != nil || len(found) == 0 {
			return err
		}
		_, err = one(found[0])
		return err
	}
	var some []Entry
	look := func() (more bool, err error) {
		records, err := t.records(some)
		some = nil
		for _, r := range records {
			if more, err := one(r); err != nil || !more {
				return false, err
			}
		}
		return true, err
	}
	err := t.l.walkRange(t.ctx, listing+"/", listing+"0", page, func(e Entry) (bool, error) {
		if some = append(some, e); len(some) < MaxOps {
			return true, nil
		}
		return look()
	})
	if err == nil && !p.More {
		_, err = look()
	}
	return err
}

// pruneRefusals removes those that a request with a time is about: of keys that have no run, whose end would take them along, and
// of unkeyed jobs.
func (t *tx) pruneRefusals(q onerun.PruneRequest, p *onerun.Pruned) error {
	below := path("skip", segment(q.Namespace))
	if q.Job != "" {
		below = path(below, segment(q.Job))
	}
	return t.l.walk(t.ctx, below, func(e Entry) (bool, error) {
		k, err := decode[onerun.Skip](e.Key, e.Value)
		if err != nil || !k.LastAt.Before(q.Before) {
			return err == nil, err
		}
		if p.Refusals == int64(q.Limit) {
			p.More = true
			return false, nil
		}
		gone, err := t.removeRefusal(e.Key, q.Before)
		if gone {
			p.Refusals++
		}
		return err == nil, err
	})
}

// removeRefusal takes one away, unless its key has a run, or it was refused again.
func (t *tx) removeRefusal(key string, before time.Time) (gone bool, err error) {
	err = t.l.decide(t.ctx, "prune", nil, func(f *tx) error {
		gone = false
		k, err := load[onerun.Skip](f, key)
		if err != nil || k == nil || !k.LastAt.Before(before) {
			return err
		}
		partition := ""
		if k.Key != "" {
			if _, partition, err = onerun.SplitKey(k.Key); err != nil {
				return err
			}
			found, err := f.find(onerun.Query{Namespace: k.Namespace, Job: k.Job, Partition: partition})
			if err != nil || len(found) > 0 && !found[0].pruned() {
				return err
			}
		}
		count := keySkips(k.Namespace, k.Job, partition, k.Holder)
		n, err := load[countRecord](f, count)
		if err != nil {
			return err
		}
		if f.delete(key); n != nil {
			if n.Count -= k.Count; n.Count > 0 {
				f.put(count, n)
			} else {
				f.delete(count)
			}
		}
		_, err = f.commit("prune a refusal")
		gone = err == nil
		return err
	})
	return gone, err
}
