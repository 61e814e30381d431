package redis

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/onerun-dev/onerun"
)

// Resolve implements onerun.Operator.
func (s *Store) Resolve(ctx context.Context, q onerun.Resolution) (onerun.Run, error) {
	var run onerun.Run
	var id string
	err := s.change(ctx, "resolve", q.Namespace, func(c *change) (err error) {
		id, err = c.resolve(q)
		return err
	})
	if err != nil {
		return run, err
	}
	return s.after(ctx, q.Namespace, id)
}

func (c *change) resolve(q onerun.Resolution) (string, error) {
	id := q.RunID
	if id == "" {
		if q.Job == "" || q.Partition == "" {
			return "", &onerun.StateError{Why: "only a key can be cancelled in advance; an unkeyed job has none"}
		}
		found, err := c.get([]string{"HGET", c.k.dir(), "k:" + onerun.MakeKey(q.Job, q.Partition)})
		if err != nil {
			return "", err
		}
		if !isTomb(found[0]) {
			id = found[0]
		}
	}
	r, err := c.run(id)
	if err != nil {
		return "", err
	}
	if r == nil {
		return c.cancelInAdvance(q)
	}
	was := r.run()
	if onerun.Expected(was) != q.Expect {
		return "", changed(was)
	}
	running := was.Status == onerun.Running
	over := running && (r.over() || was.Owner != "" && was.Owner == q.OwnerDead)
	if err := onerun.ResolveAllowed(&was, q.As, over); err != nil {
		return "", err
	}
	// A decision is final: no retry follows from it. An attempt that had ended stays what it was.
	fields := []string{"status", string(q.As), "v", next(r.f["v"])}
	if running {
		if r.expires != "" { // it may live after all
			c.expect(r.expires, "HGET", c.k.lock(r.lock()), "exp")
		}
		e := endRow{Status: q.As, ClosedBy: onerun.ByOperator}
		if q.As == onerun.Failed {
			e.Reason = onerun.ReasonLeaseExpired
			fields = append(fields, "fails", next(r.f["fails"]))
		}
		fields = append(fields, "finished", micros(c.now), fmtField("e", r.attempt()), encode(e))
		if err := c.free(r); err != nil {
			return "", err
		}
	}
	c.unretry(r)
	c.set(c.k.run(id), fields...)
	c.move(id, was.Job, r.f["started"], was.Status, q.As)
	return id, c.event(onerun.EventResolved, was, q.Who, fmt.Sprintf("%s to %s", was.Status, q.As))
}

func (c *change) cancelInAdvance(q onerun.Resolution) (string, error) {
	tomb, err := c.tomb(q.RunID, onerun.MakeKey(q.Job, q.Partition))
	if err != nil {
		return "", err
	}
	if tomb != nil {
		run := tomb.run()
		return "", onerun.ResolveAllowed(&run, q.As, false)
	}
	if q.RunID != "" {
		return "", fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
	}
	if err := onerun.ResolveAllowed(nil, q.As, false); err != nil {
		return "", err
	}
	if q.Expect.Status != "" {
		return "", &onerun.StateError{Why: "the run is gone"}
	}
	run := onerun.Run{RunID: onerun.NewRunID(c.now), Namespace: c.ns, Job: q.Job, Partition: q.Partition}
	at := micros(c.now)
	c.make(run.RunID, map[string]string{
		"job": q.Job, "part": q.Partition, "date": q.BusinessDate, "lock": string(onerun.JobLock(q.Job)), "status": string(onerun.Skipped), "attempt": "0",
		"started": at, "finished": at, "v": "1",
	})
	return run.RunID, c.event(onerun.EventResolved, run, q.Who, "cancelled in advance")
}

func changed(r onerun.Run) error {
	return &onerun.StateError{Why: fmt.Sprintf("%s changed meanwhile: it is %s now, attempt %d; look again", r.Name(), r.Status, r.Attempt)}
}

// Stop implements onerun.Operator.
func (s *Store) Stop(ctx context.Context, q onerun.StopRequest) error {
	return s.change(ctx, "stop", q.Namespace, func(c *change) error {
		r, err := c.run(q.RunID)
		if err != nil {
			return err
		}
		if r == nil {
			return fmt.Errorf("run %s: %w", q.RunID, onerun.ErrNotFound)
		}
		run := r.run()
		if onerun.Expected(run) != q.Expect {
			return changed(run)
		}
		if err := onerun.StopAllowed(run, run.Status == onerun.Running && r.over()); err != nil {
			return err
		}
		lock := c.k.lock(r.lock())
		c.expect(run.Owner, "HGET", lock, "owner")
		c.set(lock, "stop", clean(q.By+": "+q.Reason))
		return c.event(onerun.EventStopRequested, run, q.Who, "")
	})
}

// Pause implements onerun.Operator.
func (s *Store) Pause(ctx context.Context, q onerun.PauseRequest) error {
	return s.change(ctx, "pause", q.Namespace, func(c *change) error {
		found, err := c.get([]string{"HGET", c.k.dir(), "j:" + q.Job})
		if err != nil {
			return err
		}
		if found[0] != "" {
			var p pauseRow
			_ = json.Unmarshal([]byte(found[0]), &p)
			return &onerun.StateError{Why: fmt.Sprintf("%s is paused already, by %s: %s", q.Job, p.By, p.Reason)}
		}
		c.set(c.k.dir(), "j:"+q.Job, encode(pauseRow{micros(c.now), clean(q.By), clean(q.Reason)}))
		c.write("SADD", c.k.jobs(), q.Job)
		c.write("SADD", c.k.paused(), q.Job)
		return c.event(onerun.EventPaused, onerun.Run{Job: q.Job}, q.Who, "")
	})
}

// Resume implements onerun.Operator.
func (s *Store) Resume(ctx context.Context, q onerun.PauseRequest) error {
	return s.change(ctx, "resume", q.Namespace, func(c *change) error {
		found, err := c.get([]string{"HGET", c.k.dir(), "j:" + q.Job})
		if err != nil {
			return err
		}
		if found[0] == "" {
			return &onerun.StateError{Why: q.Job + " is not paused"}
		}
		c.set(c.k.dir(), "j:"+q.Job, "")
		c.write("SREM", c.k.paused(), q.Job)
		return c.event(onerun.EventResumed, onerun.Run{Job: q.Job}, q.Who, "")
	})
}

// RecordUnlock implements onerun.UnlockRecorder.
func (s *Store) RecordUnlock(ctx context.Context, u onerun.UnlockRequest) error {
	return s.change(ctx, "record the unlocking", u.Namespace, func(c *change) error {
		return c.event(onerun.EventUnlocked, onerun.Run{Job: u.Lock.Name()}, u.Who, string(u.Lock))
	})
}
