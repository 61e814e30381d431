package redis

import (
	"context"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// pruneRefusals removes the refusals that a request with a time is about: of keys that have no run, whose end would take them
// along, and of unkeyed jobs.
func (s *Store) pruneRefusals(ctx context.Context, q onerun.PruneRequest, p *onerun.Pruned) error {
	k := s.keys(q.Namespace)
	jobs, err := s.members(ctx, k.refusedJobs())
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if q.Job == "" || q.Job == job {
			if _, err := s.pruneRefusalsOf(ctx, q, job, "", p); err != nil || p.More {
				return err
			}
		}
	}
	by := &driver.ZRangeBy{Min: "-inf", Max: "(" + micros(q.Before), Count: page}
	for {
		keys, err := persist(ctx, func() ([]string, error) {
			return inTime(ctx, func() ([]string, error) { return s.db.ZRangeByScore(ctx, k.refused(), by).Result() })
		})
		if err != nil {
			return err
		}
		for _, key := range keys {
			job, part, err := onerun.SplitKey(key)
			unlisted := false
			if err == nil && (q.Job == "" || q.Job == job) {
				if unlisted, err = s.pruneRefusalsOf(ctx, q, job, part, p); err != nil || p.More {
					return err
				}
			}
			if !unlisted {
				by.Offset++
			}
		}
		if len(keys) < page {
			return nil
		}
	}
}

// pruneRefusalsOf removes those of a key or an unkeyed job that are old enough, and takes out of the list what has none left, or
// a run, with which they will go.
func (s *Store) pruneRefusalsOf(ctx context.Context, q onerun.PruneRequest, job, part string, p *onerun.Pruned) (unlisted bool, err error) {
	began := time.Now()
	defer func() { p.Held = max(p.Held, time.Since(began)) }()
	found, err := s.skips(ctx, q.Namespace, job, part)
	if err != nil {
		return false, err
	}
	n, ran := int64(0), false
	err = s.change(ctx, "prune", q.Namespace, func(c *change) error {
		n, ran = 0, false
		if part != "" {
			entry, err := c.get([]string{"HGET", c.k.dir(), "k:" + onerun.MakeKey(job, part)})
			if ran = err == nil && entry[0] != "" && !isTomb(entry[0]); err != nil || ran {
				return err
			}
		}
		for _, skip := range found {
			if !skip.LastAt.Before(q.Before) {
				continue
			}
			if p.Refusals+n == int64(q.Limit) {
				p.More = true
				return nil
			}
			field := []string{c.k.skips(job, part), string(skip.Reason) + "/" + skip.Holder}
			now, err := c.get(append([]string{"HGET"}, field...))
			if err != nil {
				return err
			}
			if w := strings.SplitN(now[0], " ", 4); len(w) == 4 && fromMicros(w[2]).Equal(skip.LastAt) { // not refused again
				c.write(append([]string{"HDEL"}, field...)...)
				n++
			}
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if p.Refusals += n; n < int64(len(found)) && !ran {
		return false, nil
	}
	err = s.change(ctx, "prune", q.Namespace, func(c *change) error {
		if !ran {
			left, err := c.get([]string{"EXISTS", c.k.skips(job, part)})
			if unlisted = err == nil && left[0] == "0"; err != nil || !unlisted {
				return err
			}
		}
		if unlisted = true; part != "" {
			c.write("ZREM", c.k.refused(), onerun.MakeKey(job, part))
		} else {
			c.write("SREM", c.k.refusedJobs(), job)
		}
		return nil
	})
	return unlisted, err
}
