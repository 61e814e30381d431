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

// page is how many runs are read in one step, for which the server does nothing else.
const page = 50

// look reads runs, each with its lease at one moment. Those that aren't there are left out.
func (s *Store) look(ctx context.Context, namespace string, ids ...string) (time.Time, []*record, error) {
	k := s.keys(namespace)
	var now time.Time
	var out []*record
	for some := range slices.Chunk(ids, page) {
		names, args := make([]string, len(some)), make([]any, 1, 1+len(some))
		args[0] = version
		for i, id := range some {
			names[i], args = k.run(id), append(args, id)
		}
		v, err := s.call(ctx, s.scripts.look, k, names, args...)
		if err != nil {
			return now, nil, err
		}
		r := replyOf(v)
		if r.text(0) == "schema" {
			return now, nil, s.newer(r.text(1))
		}
		now = fromMicros(r.text(0))
		for i := 1; i < len(r.at); i++ {
			seen, err := recordOf(namespace, now, r.list(i))
			if err != nil {
				return now, nil, badAnswer("read the runs", err)
			}
			out = append(out, seen)
		}
		if r.err != nil {
			return now, nil, badAnswer("read the runs", r.err)
		}
	}
	return now, out, nil
}

// Runs implements onerun.Ledger. The newest runs of each state are read from a list of their
// own, and merged: so a page costs what it shows, whatever else the ledger holds.
func (s *Store) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	runs, err := s.selected(ctx, q)
	return runs, s.explain("read the runs", err)
}

func (s *Store) selected(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	var runs []onerun.Run
	var err error
	k := s.keys(q.Namespace)
	switch {
	case q.RunID != "":
		runs, err = s.chosen(ctx, q, []string{q.RunID})
	case q.Partition != "":
		var entry string
		if entry, err = s.entry(ctx, k, "k:"+onerun.MakeKey(q.Job, q.Partition)); err == nil && entry != "" && !isTomb(entry) {
			runs, err = s.chosen(ctx, q, []string{entry})
		}
	case q.RetryDue:
		runs, err = s.walk(ctx, q, k.retries(), true)
	default:
		for _, status := range wanted(q) {
			list := k.byStatus(status)
			if q.Job != "" && status != onerun.Running {
				list = k.byJob(status, q.Job)
			}
			var some []onerun.Run
			if some, err = s.walk(ctx, q, list, false); err != nil {
				break
			}
			runs = append(runs, some...)
		}
	}
	if err == nil && (q.Pruned || q.RunID != "" || q.Partition != "") {
		var tombs []onerun.Run
		tombs, err = s.tombs(ctx, q)
		runs = append(runs, tombs...)
	}
	if err != nil {
		return nil, err
	}
	runs = latest(runs)
	slices.SortFunc(runs, func(a, b onerun.Run) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), strings.Compare(b.RunID, a.RunID))
	})
	if q.Limit > 0 && len(runs) > q.Limit {
		runs = runs[:q.Limit]
	}
	return runs, nil
}

// wanted are the states whose lists a query needs, in the order in which they are read: what is
// RUNNING first and last, so that a run which ends, or begins anew, meanwhile is in one of them.
func wanted(q onerun.Query) []onerun.Status {
	if len(q.Statuses) == 0 {
		return []onerun.Status{onerun.Running, onerun.Succeeded, onerun.Failed, onerun.Skipped, onerun.Running}
	}
	all := slices.Clone(q.Statuses)
	if len(all) > 1 && slices.Contains(all, onerun.Running) {
		all = append(append([]onerun.Status{onerun.Running}, all...), onerun.Running)
	}
	return all
}

// latest keeps of each run what was read last.
func latest(runs []onerun.Run) []onerun.Run {
	seen := map[string]bool{}
	var out []onerun.Run
	for _, r := range slices.Backward(runs) {
		if !seen[r.RunID] {
			seen[r.RunID] = true
			out = append(out, r)
		}
	}
	return out
}

// walk goes through a list from its newest, until it has found as many as are wanted.
// unordered: the list isn't by when runs began, so that all of it has to be looked at.
func (s *Store) walk(ctx context.Context, q onerun.Query, list string, unordered bool) ([]onerun.Run, error) {
	by := &driver.ZRangeBy{Min: "-inf", Max: "+inf", Count: page}
	if !unordered {
		if !q.Since.IsZero() {
			by.Min = micros(q.Since)
		}
		if !q.Until.IsZero() {
			by.Max = "(" + micros(q.Until)
		}
		if q.Limit > page {
			by.Count = int64(q.Limit)
		}
	}
	var runs []onerun.Run
	for {
		ids, err := persist(ctx, func() ([]string, error) {
			return inTime(ctx, func() ([]string, error) { return s.db.ZRevRangeByScore(ctx, list, by).Result() })
		})
		if err != nil || len(ids) == 0 {
			return runs, err
		}
		some, err := s.chosen(ctx, q, ids)
		if err != nil {
			return nil, err
		}
		runs = append(runs, some...)
		if !unordered && q.Limit > 0 && len(runs) >= q.Limit || int64(len(ids)) < by.Count {
			return runs, nil
		}
		by.Offset += by.Count
	}
}

// chosen reads runs and keeps those that a query selects.
func (s *Store) chosen(ctx context.Context, q onerun.Query, ids []string) ([]onerun.Run, error) {
	_, found, err := s.look(ctx, q.Namespace, ids...)
	if err != nil {
		return nil, err
	}
	var runs []onerun.Run
	for _, r := range found {
		if run := r.run(); selects(q, run) {
			runs = append(runs, run)
		}
	}
	return runs, nil
}

func selects(q onerun.Query, r onerun.Run) bool {
	switch {
	case q.RunID != "" && r.RunID != q.RunID,
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

// entry is a field of the directory.
func (s *Store) entry(ctx context.Context, k keys, field string) (string, error) {
	_, found, err := s.values(ctx, []string{"HGET", k.dir(), field})
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// Detail implements onerun.Ledger.
func (s *Store) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	d, err := s.detail(ctx, namespace, runID)
	return d, s.explain("read the run", err)
}

func (s *Store) detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	_, found, err := s.look(ctx, namespace, runID)
	if err != nil {
		return onerun.Detail{}, err
	}
	events, err := s.events(ctx, namespace, runID, "")
	if err != nil {
		return onerun.Detail{}, err
	}
	if len(found) == 0 {
		tomb, err := s.tombOfRun(ctx, namespace, runID)
		if err == nil && tomb == nil {
			err = fmt.Errorf("run %s: %w", runID, onerun.ErrNotFound)
		}
		if err != nil {
			return onerun.Detail{}, err
		}
		return onerun.Detail{Run: tomb.run(), Events: events}, nil
	}
	r := found[0]
	d := onerun.Detail{Run: r.run(), Attempts: r.attempts(), Approvals: r.approvals(), Events: events}
	if d.Skips, err = s.skips(ctx, namespace, r.f["job"], r.f["part"]); err == nil && r.f["part"] == "" {
		by := d.Run.Holder().ID()
		d.Skips = slices.DeleteFunc(d.Skips, func(k onerun.Skip) bool { return k.Holder != by })
	}
	return d, err
}

// Skips implements onerun.Ledger.
func (s *Store) Skips(ctx context.Context, namespace, job, partition string) ([]onerun.Skip, error) {
	skips, err := s.skips(ctx, namespace, job, partition)
	return skips, s.explain("read the refusals", err)
}

func (s *Store) skips(ctx context.Context, namespace, job, partition string) ([]onerun.Skip, error) {
	found, err := persist(ctx, func() (map[string]string, error) {
		return inTime(ctx, func() (map[string]string, error) {
			return s.db.HGetAll(ctx, s.keys(namespace).skips(job, partition)).Result()
		})
	})
	if err != nil {
		return nil, err
	}
	var out []onerun.Skip
	for field, v := range found {
		reason, by, _ := strings.Cut(field, "/")
		w := strings.SplitN(v, " ", 4)
		if len(w) != 4 {
			return nil, badAnswer("read the refusals", fmt.Errorf("%d words are no refusal", len(w)))
		}
		h, err := holder(w[3])
		if err != nil {
			return nil, badAnswer("read the refusals", err)
		}
		out = append(out, onerun.Skip{
			Namespace: namespace, Job: job, Key: onerun.MakeKey(job, partition), Reason: onerun.Reason(reason), Holder: by, Detail: h.String(),
			Count: number(w[0]), FirstAt: fromMicros(w[1]), LastAt: fromMicros(w[2]),
		})
	}
	slices.SortFunc(out, func(a, b onerun.Skip) int {
		return cmp.Or(a.FirstAt.Compare(b.FirstAt), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Holder, b.Holder))
	})
	return out, nil
}

// Decisions implements onerun.Ledger.
func (s *Store) Decisions(ctx context.Context, namespace, job string) ([]onerun.Event, error) {
	events, err := s.events(ctx, namespace, "", job)
	return events, s.explain("read the decisions", err)
}

// pauseRow is a job's pause.
type pauseRow struct {
	At     string `json:"at"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Jobs implements onerun.Ledger.
func (s *Store) Jobs(ctx context.Context, namespace string) ([]onerun.JobState, error) {
	k := s.keys(namespace)
	jobs, err := s.members(ctx, k.paused())
	if err != nil || len(jobs) == 0 {
		return nil, s.explain("read the jobs", err)
	}
	slices.Sort(jobs)
	commands := make([][]string, len(jobs))
	for i, job := range jobs {
		commands[i] = []string{"HGET", k.dir(), "j:" + job}
	}
	_, found, err := s.values(ctx, commands...)
	if err != nil {
		return nil, s.explain("read the jobs", err)
	}
	var out []onerun.JobState
	for i, text := range found {
		var p pauseRow
		if text == "" {
			continue // resumed meanwhile
		}
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return nil, badAnswer("read the jobs", err)
		}
		out = append(out, onerun.JobState{Namespace: namespace, Job: jobs[i], PausedAt: fromMicros(p.At), PausedBy: p.By, Reason: p.Reason})
	}
	return out, nil
}

// members are those of a set.
func (s *Store) members(ctx context.Context, set string) ([]string, error) {
	return persist(ctx, func() ([]string, error) {
		return inTime(ctx, func() ([]string, error) { return s.db.SMembers(ctx, set).Result() })
	})
}

// Locks implements onerun.Ledger.
func (s *Store) Locks(ctx context.Context, namespace string) ([]onerun.LockState, error) {
	locks, err := s.locks(ctx, namespace)
	return locks, s.explain("read the locks", err)
}

func (s *Store) locks(ctx context.Context, namespace string) ([]onerun.LockState, error) {
	runs, err := s.selected(ctx, onerun.Query{Namespace: namespace, Statuses: []onerun.Status{onerun.Running}})
	if err != nil {
		return nil, err
	}
	var out []onerun.LockState
	for _, r := range runs {
		if r.LeaseExpiresAt.IsZero() { // its lock has vanished
			continue
		}
		out = append(out, onerun.LockState{
			Namespace: namespace, Lock: r.Lock, Token: r.Token, Run: &r, Holder: r.Holder(), Liveness: r.Liveness, Evidence: r.Evidence,
		})
	}
	k := s.keys(namespace)
	names, err := s.members(ctx, k.alone())
	if err != nil || len(names) == 0 {
		return sorted(out), err
	}
	commands := [][]string{}
	fields := []string{"owner", "token", "exp", "acquired", "worker", "run"}
	for _, name := range names {
		for _, f := range fields {
			commands = append(commands, []string{"HGET", k.lock(onerun.LockName(name)), f})
		}
	}
	now, found, err := s.values(ctx, commands...)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		f := found[i*len(fields):]
		if f[0] == "" || f[5] != "" {
			continue
		}
		l := onerun.LockName(name)
		state := onerun.LockState{Namespace: namespace, Lock: l, Token: number(f[1]), Liveness: onerun.Unknown, Holder: onerun.Holder{
			Name: l.Name(), Worker: worker(f[4]), Since: fromMicros(f[3]), Detail: "owner " + f[0],
		}}
		expires := fromMicros(f[2])
		state.Evidence = "its lease runs until " + expires.Format(time.RFC3339)
		if !now.Before(expires) {
			state.Evidence = "its lease ran out at " + expires.Format(time.RFC3339)
		}
		out = append(out, state)
	}
	return sorted(out), nil
}

func sorted(locks []onerun.LockState) []onerun.LockState {
	slices.SortFunc(locks, func(a, b onerun.LockState) int { return strings.Compare(string(a.Lock), string(b.Lock)) })
	return locks
}
