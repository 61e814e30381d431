package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// limit is a time by which something is to be done about each fire.
type limit struct {
	by   time.Duration // after its slot
	what string        // of one that was late, the cause
	when string
	met  func(ctx context.Context, s *sight, r *onerun.Run, until time.Time) (bool, error)
	at   func(r *onerun.Run) time.Time // when it was done; zero: it wasn't
}

// limits are those that a job has.
func (j *Job) limits() (all []limit) {
	if j.StartBy > 0 {
		all = append(all, limit{j.StartBy, "did not start", "started", startedBy, func(r *onerun.Run) time.Time { return r.StartedAt }})
	}
	if j.FinishBy > 0 {
		all = append(all, limit{j.FinishBy, "did not finish", "finished", finishedBy, func(r *onerun.Run) time.Time {
			if r.Status != onerun.Succeeded && r.Status != onerun.Skipped {
				return time.Time{}
			}
			return r.FinishedAt
		}})
	}
	return all
}

// nextLimit is when the time of a fire is over next; zero: never.
func (j *Job) nextLimit(now time.Time) (next time.Time) {
	for _, l := range j.limits() {
		if slot, ok := j.Schedule.Next(now.Add(-l.by)); ok && (next.IsZero() || slot.Add(l.by).Before(next)) {
			next = slot.Add(l.by)
		}
	}
	return next
}

// startedBy: of a fire that was started more than once the first time counts. One of which nothing but its end is kept, or that
// a person decided about instead, counts as in time.
func startedBy(ctx context.Context, s *sight, r *onerun.Run, until time.Time) (bool, error) {
	if r.Attempt == 0 || !r.Pruned.IsZero() || !r.StartedAt.After(until) {
		return true, nil
	}
	return s.earlier(ctx, r, func(a onerun.Attempt) bool { return !a.StartedAt.After(until) })
}

// finishedBy: one that had ended well, and is executed again because somebody wants that, was in time.
func finishedBy(ctx context.Context, s *sight, r *onerun.Run, until time.Time) (bool, error) {
	well := func(status onerun.Status) bool { return status == onerun.Succeeded || status == onerun.Skipped }
	if well(r.Status) && (r.Attempt == 0 || !r.Pruned.IsZero() || !r.FinishedAt.After(until)) {
		return true, nil
	}
	return s.earlier(ctx, r, func(a onerun.Attempt) bool { return well(a.Status) && !a.FinishedAt.After(until) })
}

// earlier looks through the attempts of a run before its last one.
func (s *sight) earlier(ctx context.Context, r *onerun.Run, is func(onerun.Attempt) bool) (bool, error) {
	if r.Attempt <= 1 {
		return false, nil
	}
	d, err := s.Store.Detail(ctx, s.Namespace, r.RunID)
	if errors.Is(err, onerun.ErrNotFound) {
		return false, nil
	}
	return slices.ContainsFunc(d.Attempts, is), err
}

// notInTime looks at the newest fire whose time is over, by each limit: it stays a trouble until the next one is in time.
func (s *sight) notInTime(ctx context.Context, _ open) (trouble, bool, error) {
	type lateness struct {
		trouble
		over time.Time
	}
	var all []lateness
	for _, l := range s.job.limits() {
		slot, ok := s.job.Schedule.Previous(s.now.Add(-l.by).Add(time.Nanosecond))
		if !ok || !slot.After(s.since) {
			continue
		}
		f, err := s.job.fire(slot)
		if err != nil {
			continue
		}
		until := slot.Add(l.by)
		r, err := s.run(ctx, f.Partition)
		if err != nil {
			return trouble{}, false, err
		}
		t := lateness{trouble{kind: AlertLate, cause: l.what, fire: f.Key(), run: r, title: fmt.Sprintf("%s %s by %s", f.Key(), l.what, until.Format(time.RFC3339))}, until}
		if r != nil {
			if ok, err := l.met(ctx, s, r, until); err != nil || ok {
				if err != nil {
					return trouble{}, false, err
				}
				continue
			}
			if at := l.at(r); !at.IsZero() {
				t.done = true
				t.title = fmt.Sprintf("%s %s at %s, and not by %s", f.Key(), l.when, at.Format(time.RFC3339), until.Format(time.RFC3339))
			}
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return trouble{}, false, nil
	}
	slices.SortStableFunc(all, func(a, b lateness) int { return b.over.Compare(a.over) })
	t := all[0].trouble
	for _, other := range all[1:] { // the limits don't take turns: each is told of once
		t.cause += causes + other.cause
		t.fire += causes + other.fire
		t.done = t.done && other.done
		t.lines = append(t.lines, other.title)
	}
	return t, true, nil
}

// causes is between the causes of one trouble.
const causes = "; "

// another reports whether one of the causes of a trouble is new.
func another(now, before string) bool {
	known := strings.Split(before, causes)
	return slices.ContainsFunc(strings.Split(now, causes), func(cause string) bool { return !slices.Contains(known, cause) })
}

// How many fires are counted that did not run, and about how many the store is asked in one look, where nobody wants to hear of more.
const (
	mostSkips = 1000
	mostAsked = 100
)

// skipping counts the fires since the last one that ran: as many as somebody wants to hear of, and on through those of which the
// look before knows already and some more, so that a reminder says how many there are by now.
func (s *sight) skipping(ctx context.Context, _ open) (trouble, bool, error) {
	least, most := 0, 0
	for _, a := range s.job.Alerts {
		if a.hears(AlertSkip) && a.Skips > 0 {
			if least == 0 || a.Skips < least {
				least = a.Skips
			}
			most = max(most, a.Skips)
		}
	}
	t := trouble{kind: AlertSkip, cause: "skips"}
	at, newest, asked := s.now.Add(-newestOnTime), "", 0
	for most > 0 && t.fires < max(most, mostSkips) {
		slot, ok := s.job.Schedule.Previous(at)
		if !ok || !slot.After(s.since) {
			break
		}
		f, err := s.job.fire(slot)
		if err != nil {
			break
		}
		if !s.missing(f.Partition) {
			if asked++; t.fires >= most && asked > mostAsked {
				break
			}
		}
		ran, err := s.ran(ctx, f.Partition)
		if err != nil {
			return trouble{}, false, err
		}
		if ran {
			break
		}
		if t.fires++; t.fires == 1 {
			newest = f.Partition
		}
		at = slot
	}
	if least == 0 || t.fires < least {
		return trouble{}, false, nil
	}
	t.title = fmt.Sprintf("%s: %d fires in a row did not run, from %s on", s.job.Name, t.fires, at.Format(time.RFC3339))
	if t.fires == 1 {
		t.title = fmt.Sprintf("%s: the fire of %s did not run", s.job.Name, at.Format(time.RFC3339))
	}
	skips, err := s.Store.Skips(ctx, s.Namespace, s.job.Name, newest)
	if len(skips) > 0 {
		last := slices.MaxFunc(skips, func(a, b onerun.Skip) int { return a.LastAt.Compare(b.LastAt) })
		t.lines = []string{fmt.Sprintf("the last of them: %s; %s", last.Reason, cmp.Or(last.Detail, last.Holder))}
	}
	return t, true, err
}

// missing reports whether the look before found no run of a key, and none can have come since that this one doesn't see.
func (s *sight) missing(partition string) bool {
	return s.before != nil && s.before.absent[partition] && !s.gap()
}

// ran reports whether there is a run of a key. One that the look before asked for in vain would be among the newest by now.
func (s *sight) ran(ctx context.Context, partition string) (bool, error) {
	if s.missing(partition) {
		if !slices.ContainsFunc(s.newest, func(r onerun.Run) bool { return r.Partition == partition }) {
			s.absent[partition] = true
			return false, nil
		}
		return true, nil
	}
	r, err := s.run(ctx, partition)
	if err == nil && r == nil {
		s.absent[partition] = true
	}
	return r != nil, err
}
