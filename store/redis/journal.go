package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// An event is kept as a list of texts: its number, when, which, namespace, job, key, run, who,
// terminal, reason, detail, and its hash. That is SHA-256 over the hash of the one before it in
// its chain and the other eleven, each as LENGTH:TEXT, so that no two lists are one text. What
// people decide is one chain for a namespace; a run's own events are a chain each, so that no
// claim queues for one chain's end. lua/claim.lua continues the latter.
const eventWords = 12

func link(before string, words []string) string {
	h := sha256.New()
	for _, w := range append([]string{before}, words[:eventWords-1]...) {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(w), w) // a hash takes everything
	}
	return hex.EncodeToString(h.Sum(nil))
}

func readEvent(text string) ([]string, error) {
	var words []string
	err := json.Unmarshal([]byte(text), &words)
	if err == nil && len(words) != eventWords {
		err = fmt.Errorf("%d words are no event", len(words))
	}
	return words, err
}

// event appends to the journal.
func (c *change) event(name string, r onerun.Run, who onerun.Who, detail string) error {
	list := c.k.events(r.RunID)
	if who.By != "" {
		list = c.k.ops()
	}
	found, err := c.get([]string{"HGET", c.k.dir(), "seq"}, []string{"LINDEX", list, "-1"}, []string{"LLEN", list})
	if err != nil {
		return err
	}
	before := ""
	if found[1] != "" {
		last, err := readEvent(found[1])
		if err != nil {
			return badAnswer("append to the journal", err)
		}
		before = last[eventWords-1]
	}
	words := []string{
		next(found[0]), micros(c.now), name, c.ns, r.Job, r.Key(), r.RunID, clean(who.By), clean(who.Terminal), clean(who.Reason), clean(detail), "",
	}
	words[eventWords-1] = link(before, words)
	c.set(c.k.dir(), "seq", words[0])
	c.write("RPUSH", list, encode(words))
	switch {
	case who.By == "":
	case r.RunID != "":
		c.write("RPUSH", c.k.opsOfRun(r.RunID), found[2])
	default:
		c.write("RPUSH", c.k.opsOfJob(r.Job), found[2])
	}
	return nil
}

// events reads a run's own events, and what people decided about it or, without a run, about a
// job as a whole; oldest first.
func (s *Store) events(ctx context.Context, namespace, runID, job string) ([]onerun.Event, error) {
	k := s.keys(namespace)
	places := k.opsOfJob(job)
	if runID != "" {
		places = k.opsOfRun(runID)
	}
	found, err := s.lists(ctx, places, k.events(runID)) // without a run there is no such list
	if err != nil {
		return nil, err
	}
	decided, err := s.elements(ctx, k.ops(), found[0])
	if err != nil {
		return nil, err
	}
	var out []onerun.Event
	for _, text := range append(found[1], decided...) {
		w, err := readEvent(text)
		if err != nil {
			return nil, badAnswer("read the journal", err)
		}
		out = append(out, onerun.Event{
			ID: number(w[0]), At: fromMicros(w[1]), Name: w[2], Namespace: w[3], Job: w[4], Key: w[5], RunID: w[6],
			By: w[7], Terminal: w[8], Reason: w[9], Detail: w[10],
		})
	}
	slices.SortStableFunc(out, func(a, b onerun.Event) int { return int(a.ID - b.ID) })
	return out, nil
}

// lists reads lists whole.
func (s *Store) lists(ctx context.Context, names ...string) ([][]string, error) {
	cmds, err := s.pipelined(ctx, func(p driver.Pipeliner) {
		for _, name := range names {
			p.LRange(ctx, name, 0, -1)
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([][]string, len(names))
	for i, cmd := range cmds {
		if c, ok := cmd.(*driver.StringSliceCmd); ok {
			out[i] = c.Val()
		}
	}
	return out, nil
}

// elements are those of a list at some places.
func (s *Store) elements(ctx context.Context, list string, places []string) ([]string, error) {
	if len(places) == 0 {
		return nil, nil
	}
	cmds, err := s.pipelined(ctx, func(p driver.Pipeliner) {
		for _, at := range places {
			p.LIndex(ctx, list, number(at))
		}
	})
	out := make([]string, 0, len(cmds))
	for _, cmd := range cmds {
		if c, ok := cmd.(*driver.StringCmd); ok && c.Err() == nil {
			out = append(out, c.Val())
		}
	}
	return out, err
}

// pipelined asks several things in one round trip, not at one moment. What isn't there is no
// error.
func (s *Store) pipelined(ctx context.Context, ask func(p driver.Pipeliner)) ([]driver.Cmder, error) {
	cmds, err := persist(ctx, func() ([]driver.Cmder, error) {
		return inTime(ctx, func() ([]driver.Cmder, error) {
			cmds, err := s.db.Pipelined(ctx, func(p driver.Pipeliner) error {
				ask(p)
				return nil
			})
			if errors.Is(err, driver.Nil) {
				err = nil
			}
			return cmds, err
		})
	})
	return cmds, err
}
