package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// Prune implements onerun.Operator. Each run is removed in a step of its own, in which the
// server does nothing else: so nobody waits for long, however many they are.
func (s *Store) Prune(ctx context.Context, q onerun.PruneRequest) (onerun.Pruned, error) {
	q, err := q.Checked()
	if err != nil {
		return onerun.Pruned{}, err
	}
	at, err := decodeCursor(q.Cursor)
	if err != nil {
		return onerun.Pruned{}, err
	}
	p, err := s.prune(ctx, q, at)
	return p, s.explain("prune", err)
}

func (s *Store) prune(ctx context.Context, q onerun.PruneRequest, at cursor) (p onerun.Pruned, err error) {
	found, err := s.prunable(ctx, q, &at)
	if err != nil {
		return p, err
	}
	p.More = len(found) > q.Limit
	for _, r := range found[:min(len(found), q.Limit)] {
		at.Started, at.ID = r.f["started"], r.id
		p.Cursor = at.encode()
		began := time.Now()
		gone, err := s.remove(ctx, r, q.ForgetKeys)
		p.Held = max(p.Held, time.Since(began))
		if err != nil {
			return p, err
		}
		if !gone { // somebody has decided about it meanwhile
			continue
		}
		p.Runs++
		switch {
		case r.f["part"] == "":
		case q.ForgetKeys:
			p.Forgotten++
		default:
			p.Keys++
		}
	}
	p.Cursor = at.encode()
	if !p.More && q.Partition == "" && !q.Before.IsZero() {
		if err := s.pruneRefusals(ctx, q, &p); err != nil {
			return p, err
		}
	}
	if q.ForgetKeys && !p.More {
		n, more, err := s.forget(ctx, q)
		p.Forgotten, p.More = p.Forgotten+n, more
		if err != nil {
			return p, err
		}
	}
	if p.Runs+p.Forgotten == 0 || q.By == "" || q.Cursor != "" { // the first step stands for all
		return p, nil
	}
	return p, s.change(ctx, "prune", q.Namespace, func(c *change) error {
		return c.event(onerun.EventPruned, onerun.Run{Job: q.Job, Partition: q.Partition}, q.Who, q.Words())
	})
}

// cursor is where a request has come to, and what its first step found out.
type cursor struct {
	Cuts    map[string]cut `json:"cuts,omitempty"` // by job: the newest of its successes that are too many
	Started string         `json:"started"`        // everything up to here has been looked at
	ID      string         `json:"id"`
}

type cut struct {
	Started string `json:"started"`
	ID      string `json:"id"`
}

func (c cursor) encode() string { return encode(c) }

func decodeCursor(text string) (cursor, error) {
	c := cursor{Started: micros(firstTime)}
	if text == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, fmt.Errorf("%w: that is no cursor of this store's: %w", onerun.ErrUsage, err)
	}
	return c, nil
}

// prunable finds the runs that a request is about, at most one more than it may remove, those
// that began first first. What is open for a run keeps it.
func (s *Store) prunable(ctx context.Context, q onerun.PruneRequest, at *cursor) ([]*record, error) {
	k := s.keys(q.Namespace)
	if q.Partition != "" {
		entry, err := s.entry(ctx, k, "k:"+onerun.MakeKey(q.Job, q.Partition))
		if err != nil || entry == "" || isTomb(entry) {
			return nil, err
		}
		_, found, err := s.look(ctx, q.Namespace, entry)
		return slices.DeleteFunc(found, func(r *record) bool { return r.status() != onerun.Succeeded || !removable(q, r) }), err
	}
	if q.Keep > 0 && at.Cuts == nil {
		if err := s.cuts(ctx, q, at); err != nil {
			return nil, err
		}
	}
	list := k.byStatus(onerun.Succeeded)
	if q.Job != "" {
		list = k.byJob(onerun.Succeeded, q.Job)
	}
	by := &driver.ZRangeBy{Min: at.Started, Max: "+inf", Count: page}
	if !q.Oldest { // nothing beyond the last of all bounds: what ended before it began before it
		last := micros(firstTime)
		if !q.Before.IsZero() {
			last = micros(q.Before)
		}
		for _, c := range at.Cuts {
			if number(c.Started) > number(last) {
				last = c.Started
			}
		}
		by.Max = last
	}
	var out []*record
	for {
		ids, err := persist(ctx, func() ([]string, error) {
			return inTime(ctx, func() ([]string, error) { return s.db.ZRangeByScore(ctx, list, by).Result() })
		})
		if err != nil {
			return nil, err
		}
		_, found, err := s.look(ctx, q.Namespace, ids...)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if r.status() != onerun.Succeeded || r.f["started"] == at.Started && r.id <= at.ID || !over(q, r, at) || !removable(q, r) {
				continue
			}
			if out = append(out, r); len(out) > q.Limit {
				return out, nil
			}
		}
		if len(ids) < page {
			return out, nil
		}
		by.Offset += page
	}
}

// over reports whether a run is over one of a request's limits.
func over(q onerun.PruneRequest, r *record, at *cursor) bool {
	if q.Oldest || !q.Before.IsZero() && fromMicros(r.f["finished"]).Before(q.Before) {
		return true
	}
	c, ok := at.Cuts[r.f["job"]]
	return ok && cmp.Or(cmp.Compare(number(r.f["started"]), number(c.Started)), strings.Compare(r.id, c.ID)) <= 0
}

// removable reports whether nothing keeps a run. What takes two people isn't for one to forget.
func removable(q onerun.PruneRequest, r *record) bool {
	if q.ForgetKeys && r.f["part"] != "" && (r.run().TwoPeople || slices.Contains(q.TwoPeople, r.f["job"])) {
		return false
	}
	return r.f["open"] == ""
}

// cuts finds, for each job, the newest of its successes that are too many.
func (s *Store) cuts(ctx context.Context, q onerun.PruneRequest, at *cursor) error {
	k := s.keys(q.Namespace)
	jobs := []string{q.Job}
	if q.Job == "" {
		var err error
		if jobs, err = s.members(ctx, k.jobs()); err != nil {
			return err
		}
	}
	cmds, err := s.pipelined(ctx, func(p driver.Pipeliner) {
		for _, job := range jobs {
			p.ZRevRangeWithScores(ctx, k.byJob(onerun.Succeeded, job), int64(q.Keep), int64(q.Keep))
		}
	})
	if err != nil {
		return err
	}
	at.Cuts = map[string]cut{}
	for i, cmd := range cmds {
		if z, ok := cmd.(*driver.ZSliceCmd); ok && len(z.Val()) == 1 {
			id, _ := z.Val()[0].Member.(string)
			at.Cuts[jobs[i]] = cut{digits(int64(z.Val()[0].Score)), id}
		}
	}
	return nil
}

// remove takes a run away with all that is kept of it, if it is still what it was when it was
// chosen; a key leaves a tombstone unless it is to be forgotten. What people decided stays,
// since their chain of events is one for all.
func (s *Store) remove(ctx context.Context, r *record, forget bool) (bool, error) {
	gone := false
	err := s.change(ctx, "prune", r.namespace, func(c *change) error {
		found, err := c.get([]string{"HGET", c.k.run(r.id), "v"}, []string{"HGET", c.k.lock(r.lock()), "owner"}, []string{"HGET", c.k.lock(r.lock()), "token"})
		if err != nil {
			return err
		}
		if gone = found[0] == r.f["v"]; !gone {
			return nil
		}
		job, part := r.f["job"], r.f["part"]
		key := onerun.MakeKey(job, part)
		c.write("DEL", c.k.run(r.id))
		c.write("DEL", c.k.events(r.id))
		for n := 1; n <= r.attempt(); n++ {
			c.write("DEL", c.k.out(r.id, n))
		}
		c.move(r.id, job, r.f["started"], onerun.Succeeded, "")
		switch {
		case part == "":
			by := "/" + r.id + "/" + r.f["attempt"]
			c.write("HDEL", c.k.skips(job, ""), "running"+by, "locked"+by, "stale"+by)
			c.write("DEL", c.k.opsOfRun(r.id))
			return nil
		case forget:
			c.write("HDEL", c.k.dir(), "k:"+key)
			c.write("DEL", c.k.opsOfRun(r.id))
		default:
			c.set(c.k.dir(), "k:"+key, tombOf(r, micros(c.now)).entry(), "t:"+r.id, key)
			c.write("ZADD", c.k.tombs(), r.f["started"], key)
			// The token stands in the tombstone, until that goes.
			if r.lock() == onerun.KeyLock(key) && found[1] == "" && number(found[2]) <= number(r.f["token"]) {
				c.write("DEL", c.k.lock(r.lock()))
			}
		}
		c.write("DEL", c.k.skips(job, part))
		c.write("ZREM", c.k.refused(), key)
		return nil
	})
	return gone, err
}

// forget removes tombstones that a request is about, so that their keys may run again.
func (s *Store) forget(ctx context.Context, q onerun.PruneRequest) (n int64, more bool, err error) {
	k := s.keys(q.Namespace)
	if q.Partition == "" && !q.Oldest && q.Before.IsZero() { // a number to keep says nothing of keys whose runs are gone
		return 0, false, nil
	}
	by := &driver.ZRangeBy{Min: "-inf", Max: "+inf", Count: 500}
	if q.Partition == "" && !q.Oldest {
		by.Max = "(" + micros(q.Before)
	}
	for {
		keys := []string{onerun.MakeKey(q.Job, q.Partition)}
		if q.Partition == "" {
			keys, err = persist(ctx, func() ([]string, error) {
				return inTime(ctx, func() ([]string, error) { return s.db.ZRangeByScore(ctx, k.tombs(), by).Result() })
			})
			if err != nil || len(keys) == 0 {
				return n, false, err
			}
		}
		found, err := s.tombsOf(ctx, q.Namespace, keys)
		if err != nil {
			return n, false, err
		}
		for _, t := range found {
			r := t.run()
			switch {
			case q.Job != "" && t.Job != q.Job, t.TwoPeople, slices.Contains(q.TwoPeople, t.Job),
				q.Partition == "" && !q.Oldest && !r.FinishedAt.Before(q.Before):
				continue
			}
			if n == int64(q.Limit) {
				return n, true, nil
			}
			gone, err := s.exhume(ctx, t)
			if err != nil {
				return n, false, err
			}
			if gone {
				n++
				by.Offset--
			}
		}
		if q.Partition != "" || int64(len(keys)) < by.Count {
			return n, false, nil
		}
		by.Offset += by.Count
	}
}

// exhume takes one tombstone away, with what was decided about its run; false: somebody was
// faster.
func (s *Store) exhume(ctx context.Context, t *tombRow) (gone bool, err error) {
	err = s.change(ctx, "prune", t.namespace, func(c *change) error {
		found, err := c.tomb("", onerun.MakeKey(t.Job, t.Partition))
		if err != nil {
			return err
		}
		if gone = found != nil && found.RunID == t.RunID; !gone {
			return nil
		}
		c.write("DEL", c.k.events(t.RunID))
		c.write("DEL", c.k.opsOfRun(t.RunID))
		return c.unbury(found)
	})
	return gone, err
}
