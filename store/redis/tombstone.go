package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// tombRow is what stays of the run of a key that was pruned. The script of a claim reads it
// too.
type tombRow struct {
	RunID      string         `json:"run_id"`
	Job        string         `json:"job"`
	Partition  string         `json:"part"`
	Date       string         `json:"date,omitempty"`
	Lock       string         `json:"lock"`
	Status     onerun.Status  `json:"status"`
	Attempt    string         `json:"attempt"`
	Token      string         `json:"token"`
	TwoPeople  bool           `json:"two,omitempty"`
	OnCrash    onerun.OnCrash `json:"crash,omitempty"`
	ScheduleUS string         `json:"sched,omitempty"`
	StartedUS  string         `json:"started"`
	FinishedUS string         `json:"finished"`
	PrunedUS   string         `json:"pruned"`
	Version    string         `json:"v"`

	namespace string
}

func tombOf(r *record, pruned string) tombRow {
	run := r.run()
	return tombRow{
		RunID: r.id, Job: run.Job, Partition: run.Partition, Date: run.BusinessDate, Lock: string(run.Lock), Status: run.Status,
		Attempt: digits(run.Attempt), Token: digits(run.Token), TwoPeople: run.TwoPeople, OnCrash: run.OnCrash,
		ScheduleUS: r.f["sched"], StartedUS: r.f["started"], FinishedUS: r.f["finished"], PrunedUS: pruned, Version: r.f["v"], namespace: r.namespace,
	}
}

// entry is a tombstone as the directory has it.
func (t tombRow) entry() string { return "!" + encode(t) }

func readTomb(namespace, entry string) (*tombRow, error) {
	t := &tombRow{namespace: namespace}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(entry, "!")), t); err != nil {
		return nil, badAnswer("read a tombstone", err)
	}
	return t, nil
}

func (t *tombRow) run() onerun.Run {
	r := onerun.Run{
		RunID: t.RunID, Namespace: t.namespace, Job: t.Job, Partition: t.Partition, BusinessDate: t.Date, Lock: onerun.LockName(t.Lock),
		Status: t.Status, Attempt: int(number(t.Attempt)), ScheduledAt: fromMicros(t.ScheduleUS), Pruned: fromMicros(t.PrunedUS),
		Execution: onerun.Execution{
			Token: number(t.Token), TwoPeople: t.TwoPeople, OnCrash: t.OnCrash, StartedAt: fromMicros(t.StartedUS), FinishedAt: fromMicros(t.FinishedUS),
		},
	}
	r.Evidence = "its history was pruned on " + r.Pruned.Format("2006-01-02")
	return r
}

// tombOfRun finds the tombstone of a run; nil: there is none.
func (s *Store) tombOfRun(ctx context.Context, namespace, runID string) (*tombRow, error) {
	k := s.keys(namespace)
	key, err := s.entry(ctx, k, "t:"+runID)
	if err != nil || key == "" {
		return nil, err
	}
	entry, err := s.entry(ctx, k, "k:"+key)
	if err != nil || !isTomb(entry) {
		return nil, err
	}
	t, err := readTomb(namespace, entry)
	if err == nil && t.RunID != runID {
		return nil, nil
	}
	return t, err
}

// tomb is tombOfRun for a change, which depends on it then.
func (c *change) tomb(runID, key string) (*tombRow, error) {
	if runID != "" {
		found, err := c.get([]string{"HGET", c.k.dir(), "t:" + runID})
		if err != nil || found[0] == "" {
			return nil, err
		}
		key = found[0]
	}
	found, err := c.get([]string{"HGET", c.k.dir(), "k:" + key})
	if err != nil || !isTomb(found[0]) {
		return nil, err
	}
	t, err := readTomb(c.ns, found[0])
	if err == nil && runID != "" && t.RunID != runID {
		return nil, nil
	}
	return t, err
}

// tombs are the tombstones that a query selects.
func (s *Store) tombs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	k := s.keys(q.Namespace)
	var keys []string
	switch {
	case q.RetryDue:
		return nil, nil
	case q.RunID != "":
		key, err := s.entry(ctx, k, "t:"+q.RunID)
		if err != nil {
			return nil, err
		}
		keys = []string{key}
	case q.Partition != "":
		keys = []string{onerun.MakeKey(q.Job, q.Partition)}
	default:
		return s.walkTombs(ctx, q)
	}
	return s.chosenTombs(ctx, q, keys)
}

// walkTombs goes through the tombstones from the newest, until it has found as many as are wanted:
// a part at a time, since the server does nothing else meanwhile.
func (s *Store) walkTombs(ctx context.Context, q onerun.Query) (out []onerun.Run, err error) {
	by := &driver.ZRangeBy{Min: cmp.Or(micros(q.Since), "-inf"), Max: "+inf", Count: 500}
	if !q.Until.IsZero() {
		by.Max = "(" + micros(q.Until)
	}
	for {
		keys, err := persist(ctx, func() ([]string, error) {
			return inTime(ctx, func() ([]string, error) { return s.db.ZRevRangeByScore(ctx, s.keys(q.Namespace).tombs(), by).Result() })
		})
		if err != nil {
			return nil, err
		}
		some, err := s.chosenTombs(ctx, q, keys)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
		if int64(len(keys)) < by.Count || q.Limit > 0 && len(out) >= q.Limit {
			return out, nil
		}
		by.Offset += by.Count
	}
}

// chosenTombs reads the tombstones of keys, and keeps those that a query selects.
func (s *Store) chosenTombs(ctx context.Context, q onerun.Query, keys []string) (out []onerun.Run, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	found, err := s.tombsOf(ctx, q.Namespace, keys)
	for _, t := range found {
		if r := t.run(); selects(q, r) {
			out = append(out, r)
		}
	}
	return out, err
}

// tombsOf reads the tombstones of keys, as far as they have one.
func (s *Store) tombsOf(ctx context.Context, namespace string, keys []string) ([]*tombRow, error) {
	fields := make([]string, len(keys))
	for i, key := range keys {
		fields[i] = "k:" + key
	}
	found, err := persist(ctx, func() ([]any, error) {
		return inTime(ctx, func() ([]any, error) { return s.db.HMGet(ctx, s.keys(namespace).dir(), fields...).Result() })
	})
	if err != nil {
		return nil, err
	}
	var out []*tombRow
	for _, v := range found {
		entry, _ := v.(string)
		if !isTomb(entry) {
			continue
		}
		t, err := readTomb(namespace, entry)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// unbury takes a tombstone away. The token that only it may know goes back to its lock: the
// next owner's has to be larger, whatever the clock says.
func (c *change) unbury(t *tombRow) error {
	key := onerun.MakeKey(t.Job, t.Partition)
	lock := c.k.lock(onerun.LockName(t.Lock))
	found, err := c.get([]string{"HGET", lock, "token"})
	if err != nil {
		return err
	}
	if number(found[0]) < number(t.Token) {
		c.set(lock, "token", t.Token)
	}
	c.write("HDEL", c.k.dir(), "k:"+key, "t:"+t.RunID)
	c.write("ZREM", c.k.tombs(), key)
	return nil
}

// revive makes a run of a tombstone again, for a rerun: with its key, its run id and the number
// of its attempts. What the attempts said is gone; the last one carries what is known of all,
// and its owner and worker are nobody's any more.
func (c *change) revive(t *tombRow) (*record, error) {
	if err := c.unbury(t); err != nil {
		return nil, err
	}
	f := map[string]string{
		"job": t.Job, "part": t.Partition, "date": t.Date, "sched": t.ScheduleUS, "lock": t.Lock, "status": string(t.Status), "attempt": t.Attempt,
		"token": t.Token, "owner": onerun.NewID(), "started": t.StartedUS, "finished": t.FinishedUS, "v": next(t.Version),
	}
	if t.Attempt != "0" {
		f["a"+t.Attempt] = encode(begun{Owner: f["owner"], OnCrash: cmp.Or(t.OnCrash, onerun.CrashAuto)})
		f["e"+t.Attempt] = encode(endRow{Status: t.Status})
	}
	if t.TwoPeople {
		f["two_from"] = t.Attempt
	}
	c.make(t.RunID, f)
	return &record{namespace: t.namespace, id: t.RunID, f: f, now: c.now}, nil
}

// make makes a run that has ended.
func (c *change) make(id string, f map[string]string) {
	var fields []string
	for name, v := range f {
		if v != "" {
			fields = append(fields, name, v)
		}
	}
	c.set(c.k.run(id), fields...)
	if f["part"] != "" {
		c.set(c.k.dir(), "k:"+onerun.MakeKey(f["job"], f["part"]), id)
	}
	c.move(id, f["job"], f["started"], "", onerun.Status(f["status"]))
	c.write("SADD", c.k.jobs(), f["job"])
}
