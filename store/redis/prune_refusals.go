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
	key := onerun.MakeKey(job, part)
	n, more := int64(0), false
	err = s.change(ctx, "prune", q.Namespace, func(c *change) error {
		n, more, unlisted = 0, false, false
		commands, seen := [][]string{{"HGET", c.k.dir(), "k:" + key}}, []onerun.Skip(nil)
		for _, skip := range found {
			if !skip.LastAt.Before(q.Before) {
				continue
			}
			if p.Refusals+int64(len(seen)) == int64(q.Limit) {
				more = true
				break
			}
			seen = append(seen, skip)
			commands = append(commands, []string{"HGET", c.k.skips(job, part), string(skip.Reason) + "/" + skip.Holder})
		}
		now, err := c.get(commands...)
		if err != nil {
			return err
		}
		if part != "" && now[0] != "" && !isTomb(now[0]) {
			unlisted = true
			c.write("ZREM", c.k.refused(), key)
			return nil
		}
		for i, skip := range seen {
			if w := strings.SplitN(now[i+1], " ", 4); len(w) == 4 && fromMicros(w[2]).Equal(skip.LastAt) { // not refused again
				c.write("HDEL", commands[i+1][1], commands[i+1][2])
				n++
			}
		}
		return nil
	})
	if err != nil || unlisted {
		return unlisted, err
	}
	p.More = more
	if p.Refusals += n; n < int64(len(found)) {
		return false, nil
	}
	err = s.change(ctx, "prune", q.Namespace, func(c *change) error {
		left, err := c.get([]string{"EXISTS", c.k.skips(job, part)})
		if unlisted = err == nil && left[0] == "0"; !unlisted {
			return err
		}
		if part != "" {
			c.write("ZREM", c.k.refused(), key)
		} else {
			c.write("SREM", c.k.refusedJobs(), job)
		}
		return nil
	})
	return unlisted, err
}
