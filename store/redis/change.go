package redis

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// change is one decision that is taken here, by the library's rules: what was read for it, and
// what is to be written if all of that is still so.
type change struct {
	s      *Store
	ctx    context.Context
	k      keys
	ns     string
	now    time.Time  // the server's, as of the last look
	checks [][]string // each: what is expected, and a command that gives it
	writes [][]string
}

// errAgain: others changed the same, again and again.
var errAgain = &onerun.StoreError{
	Kind: onerun.ErrUnavailable, What: "decide", Err: errors.New("others change the same at once, again and again"), Do: "try again",
}

// change takes a decision, anew for as long as what it was decided by changes meanwhile. One
// whose reply was lost isn't sent again: whoever asks looks first.
func (s *Store) change(ctx context.Context, what, namespace string, decide func(c *change) error) error {
	const tries = 50
	for i := range tries {
		c := &change{s: s, ctx: ctx, k: s.keys(namespace), ns: namespace}
		err := decide(c)
		done := false
		if err == nil {
			done, err = c.apply()
		}
		if done || err != nil && !errors.Is(err, errAgain) {
			return s.explain(what, err)
		}
		if pause(ctx, rand.N(min(time.Millisecond<<min(i, 6), 50*time.Millisecond))) != nil {
			break
		}
	}
	return errAgain
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// apply writes it. false: something has changed.
func (c *change) apply() (bool, error) {
	if len(c.writes) == 0 {
		return true, nil
	}
	names := map[string]bool{}
	args := []any{version, digits(len(c.checks))}
	add := func(words []string, key int) {
		names[words[key]] = true
		args = append(args, digits(len(words)))
		for _, w := range words {
			args = append(args, w)
		}
	}
	for _, words := range c.checks {
		add(words, 2)
	}
	for _, words := range c.writes {
		add(words, 1)
	}
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	v, err := c.s.once(c.ctx, c.s.scripts.apply, c.k, all, args...)
	if later, ok := v.(string); ok {
		return false, c.s.newer(later)
	}
	return v == int64(1), err
}

// write adds a command to what is to be written.
func (c *change) write(words ...string) { c.writes = append(c.writes, words) }

// set writes fields of a hash.
func (c *change) set(key string, fields ...string) {
	c.write(append([]string{"HSET", key}, fields...)...)
}

// expect makes the change depend on what a command gives.
func (c *change) expect(value string, words ...string) {
	c.checks = append(c.checks, append([]string{value}, words...))
}

// get asks for single values at one moment, "" for what isn't there, and makes the change
// depend on them.
func (c *change) get(commands ...[]string) ([]string, error) {
	now, found, err := c.s.values(c.ctx, commands...)
	if err != nil {
		return nil, err
	}
	c.now = now
	for i, words := range commands {
		c.expect(found[i], words...)
	}
	return found, nil
}

// values asks for single values, and for the time, at one moment.
func (s *Store) values(ctx context.Context, commands ...[]string) (time.Time, []string, error) {
	var now time.Time
	cmds, err := persist(ctx, func() ([]driver.Cmder, error) {
		return inTime(ctx, func() ([]driver.Cmder, error) {
			cmds, err := s.db.TxPipelined(ctx, func(p driver.Pipeliner) error {
				for _, words := range commands {
					args := make([]any, len(words))
					for i, w := range words {
						args[i] = w
					}
					p.Do(ctx, args...)
				}
				p.Time(ctx)
				return nil
			})
			return cmds, aborted(cmds, err)
		})
	})
	if err != nil && !errors.Is(err, driver.Nil) {
		return now, nil, err
	}
	found := make([]string, len(commands))
	for i, cmd := range cmds {
		switch cmd := cmd.(type) {
		case *driver.TimeCmd:
			now = cmd.Val().UTC()
		case *driver.Cmd:
			switch v := cmd.Val().(type) {
			case string:
				found[i] = v
			case int64:
				found[i] = digits(v)
			}
			if err := cmd.Err(); err != nil && !errors.Is(err, driver.Nil) {
				return now, nil, err
			}
		}
	}
	return now, found, nil
}

// aborted is why a transaction was refused. Its own answer says only that one of its commands was, as when the server reads
// its data, or lacks the right.
func aborted(cmds []driver.Cmder, err error) error {
	for _, cmd := range cmds {
		if why := cmd.Err(); strings.HasPrefix(said(err), "EXECABORT") && why != nil && !strings.HasPrefix(said(why), "EXECABORT") {
			return why
		}
	}
	return err
}

// run reads a run, and makes the change depend on its state; nil: there is none.
func (c *change) run(id string) (*record, error) {
	if id == "" {
		return nil, nil
	}
	now, found, err := c.s.look(c.ctx, c.ns, id)
	if err != nil {
		return nil, err
	}
	c.now = now
	if len(found) == 0 {
		c.expect("", "HGET", c.k.run(id), "status")
		return nil, nil
	}
	c.expect(found[0].f["v"], "HGET", c.k.run(id), "v")
	return found[0], nil
}

// after is a run as it is once the change is written. That it may be pruned at once takes nothing
// back of what was decided.
func (s *Store) after(ctx context.Context, namespace, id string) (onerun.Run, error) {
	_, found, err := s.look(ctx, namespace, id)
	if err == nil && len(found) > 0 {
		return found[0].run(), nil
	}
	run := onerun.Run{Namespace: namespace, RunID: id}
	if err == nil {
		var tomb *tombRow
		if tomb, err = s.tombOfRun(ctx, namespace, id); tomb != nil {
			run = tomb.run()
		}
	}
	return run, s.explain("read the run", err)
}

// free frees the lock of a run's owner, if it has it.
func (c *change) free(r *record) error {
	key, entry := c.k.lock(r.lock()), "l:"+r.f["lock"]
	found, err := c.get([]string{"HGET", key, "owner"}, []string{"HGET", key, "run"}, []string{"HGET", c.k.dir(), entry})
	if err != nil {
		return err
	}
	if owner := r.f["owner"]; owner != "" && found[0] == owner && found[1] == r.id {
		c.set(key, "owner", "")
	}
	if found[2] == r.id {
		c.write("HDEL", c.k.dir(), entry)
	}
	return nil
}

// move takes a run out of the list of one state and puts it into that of another; "": none.
// started is when it began, in either.
func (c *change) move(id, job, started string, from, to onerun.Status) {
	switch from {
	case "":
	case onerun.Running:
		c.write("ZREM", c.k.byStatus(from), id)
	default:
		c.write("ZREM", c.k.byStatus(from), id)
		c.write("ZREM", c.k.byJob(from, job), id)
	}
	if to != "" {
		c.write("ZADD", c.k.byStatus(to), started, id)
		c.write("ZADD", c.k.byJob(to, job), started, id)
	}
}

// close ends the last attempt of a run as its owner would have. r is the run as it is.
func (c *change) close(r *record, o onerun.Outcome) error {
	n := r.attempt()
	finished := micros(o.FinishedAt)
	if finished == "" {
		finished = micros(c.now)
	}
	fields := []string{"status", string(o.Status), fmtField("e", n), encode(endOf(o, onerun.ByOwner)), "finished", finished, "v", next(r.f["v"])}
	failures := 0 // recounted: what a machine took for a failure may be corrected
	for _, a := range r.attempts() {
		if a.Number != n && a.Status == onerun.Failed && !a.Void {
			failures++
		}
	}
	if o.Status == onerun.Failed && !o.Void {
		failures++
	}
	fields = append(fields, "fails", digits(failures))
	retry := ""
	if o.Status == onerun.Failed && r.f["part"] != "" {
		if o.Void {
			retry = micros(c.now)
		} else if at, ok := r.policy().NextRetry(c.now, failures, o.Reason, rand.Float64()); ok {
			retry = micros(at)
		}
	}
	c.unretry(r)
	if retry != "" {
		fields = append(fields, "retry", retry)
		c.write("ZADD", c.k.retries(), retry, r.id)
	}
	c.set(c.k.run(r.id), fields...)
	c.move(r.id, r.f["job"], r.f["started"], r.status(), o.Status)
	if about, text := outputOf(o.Output); about != "" {
		c.set(c.k.out(r.id, n), "about", about, "text", text, "at", micros(c.now))
	}
	if r.status() != onerun.Running { // it holds nothing, and whoever holds the lock changes often
		return nil
	}
	return c.free(r)
}

// unretry takes a run's retry away.
func (c *change) unretry(r *record) {
	if r.f["retry"] != "" {
		c.write("HDEL", c.k.run(r.id), "retry")
		c.write("ZREM", c.k.retries(), r.id)
	}
}

func fmtField(name string, n int) string { return name + digits(n) }

// next is the number after one.
func next(n string) string { return digits(number(n) + 1) }

// isTomb reports whether a key's entry in the directory is a tombstone.
func isTomb(entry string) bool { return strings.HasPrefix(entry, "!") }
