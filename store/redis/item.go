package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// itemRow is an item as it is kept.
type itemRow struct {
	Job        string           `json:"job"`
	Name       string           `json:"item"`
	State      onerun.ItemState `json:"state"`
	Payload    string           `json:"payload,omitempty"`
	Bytes      []byte           `json:"payload_bytes,omitempty"` // a payload that is no text, which JSON would change
	Tries      int              `json:"tries"`
	RunID      string           `json:"run_id"`
	Attempt    int              `json:"attempt"`
	Owner      string           `json:"owner"`
	Worker     workerRow        `json:"worker"`
	Group      int              `json:"group,omitempty"`
	OnCrash    onerun.OnCrash   `json:"crash"`
	StartedUS  string           `json:"started_us"`
	FinishedUS string           `json:"finished_us,omitempty"`
	ExitCode   *int             `json:"exit_code,omitempty"`
	Signal     string           `json:"signal,omitempty"`
	Error      string           `json:"error,omitempty"`
}

func itemRowOf(it onerun.Item) itemRow {
	r := itemRow{
		Job: it.Job, Name: it.Name, State: it.State, Payload: it.Payload, Tries: it.Tries, RunID: it.RunID, Attempt: it.Attempt, Owner: it.Owner,
		Worker: workerOf(it.Worker), Group: it.Group, OnCrash: it.OnCrash, StartedUS: micros(it.StartedAt), FinishedUS: micros(it.FinishedAt),
		Signal: it.Signal, Error: it.Error,
	}
	if !utf8.ValidString(r.Payload) {
		r.Payload, r.Bytes = "", []byte(r.Payload)
	}
	if it.ExitCode != nil {
		n := within(*it.ExitCode)
		r.ExitCode = &n
	}
	return r
}

func readItem(namespace, text string) (onerun.Item, error) {
	var r itemRow
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return onerun.Item{}, badAnswer("read an item", err)
	}
	return onerun.Item{
		Namespace: namespace, Job: r.Job, Name: r.Name, State: r.State, Payload: r.Payload + string(r.Bytes), Tries: r.Tries, RunID: r.RunID, Attempt: r.Attempt,
		Owner: r.Owner, Worker: onerun.Worker(r.Worker), Group: r.Group, OnCrash: r.OnCrash, StartedAt: fromMicros(r.StartedUS),
		FinishedAt: fromMicros(r.FinishedUS), ExitCode: r.ExitCode, Signal: r.Signal, Error: r.Error,
	}, nil
}

// lookAtItem says whether the owner of a started item is dead: it is when the attempt that it is
// part of has ended. Of a process on another host nobody can tell more. r is the item's run;
// nil: it is gone.
func lookAtItem(it onerun.Item, r *record) onerun.Item {
	if it.State != onerun.ItemStarted {
		return it
	}
	switch {
	case r == nil || r.status() != onerun.Running || r.attempt() != it.Attempt:
		it.Over, it.Liveness, it.Evidence = true, onerun.Dead, fmt.Sprintf("attempt %d of run %s has ended", it.Attempt, it.RunID)
	case r.over():
		it.Liveness, it.Evidence = onerun.Unknown, "its run is stale"
	default:
		it.Liveness, it.Evidence = onerun.Alive, fmt.Sprintf("attempt %d of run %s is RUNNING", it.Attempt, it.RunID)
	}
	return it
}

// item reads an item with what can be known of its owner; nil: there is none.
func (c *change) item(job, name string) (*onerun.Item, error) {
	found, err := c.get([]string{"GET", c.k.item(job, name)})
	if err != nil || found[0] == "" {
		return nil, err
	}
	it, err := readItem(c.ns, found[0])
	if err == nil && it.State == onerun.ItemStarted {
		var r *record
		if r, err = c.run(it.RunID); err == nil {
			it = lookAtItem(it, r)
		}
	}
	return &it, err
}

// put writes an item, and where it is listed.
func (c *change) put(it onerun.Item) {
	id, at := itemID(it.Job, it.Name), micros(it.StartedAt)
	c.write("SET", c.k.item(it.Job, it.Name), encode(itemRowOf(it)))
	for _, job := range []string{"", it.Job} {
		c.write("ZADD", c.k.items(job, false), at, id)
		if it.State == onerun.ItemDone {
			c.write("ZREM", c.k.items(job, true), id)
		} else {
			c.write("ZADD", c.k.items(job, true), at, id)
		}
	}
}

// BeginItem implements onerun.ItemKeeper.
func (s *Store) BeginItem(ctx context.Context, q onerun.ItemClaim) (onerun.Item, error) {
	if err := q.Check(); err != nil {
		return onerun.Item{}, err
	}
	var it onerun.Item
	err := s.change(ctx, "begin an item", q.Lease.Namespace, func(c *change) error {
		job, err := c.owned(q.Lease)
		if err != nil {
			return err
		}
		old, err := c.item(job, q.Name)
		if err != nil {
			return err
		}
		if old == nil {
			it = c.begin(q, nil, job)
			return nil
		}
		if why := onerun.ItemVerdict(*old, q); why != "" {
			return &onerun.ItemRefusal{Reason: why, Item: *old}
		}
		if old.State == onerun.ItemStarted && old.Owner == q.Owner {
			it = *old
			return nil
		}
		it = c.begin(q, old, job)
		return nil
	})
	return it, err
}

// begin writes an item that begins, whose owner is at work.
func (c *change) begin(q onerun.ItemClaim, old *onerun.Item, job string) onerun.Item {
	it := q.Begun(old, job, c.now)
	it.StartedAt = fromMicros(micros(it.StartedAt))
	c.put(it)
	it.Liveness, it.Evidence = onerun.Alive, fmt.Sprintf("attempt %d of run %s is RUNNING", it.Attempt, it.RunID)
	return it
}

// owned is the job of the run that a lease owns, and makes the change depend on that lease.
func (c *change) owned(l onerun.Lease) (string, error) {
	r, err := c.run(l.RunID)
	if err != nil {
		return "", err
	}
	if r == nil || r.status() != onerun.Running || r.attempt() != l.Attempt || r.lock() != l.Lock || r.expires == "" ||
		r.f["owner"] != l.Owner || r.f["token"] != digits(l.Token) {
		return "", fmt.Errorf("%w: the run was closed by somebody else", onerun.ErrLost)
	}
	c.expect(l.Owner, "HGET", c.k.lock(l.Lock), "owner")
	return r.f["job"], nil
}

// EndItem implements onerun.ItemKeeper.
func (s *Store) EndItem(ctx context.Context, e onerun.ItemEnd) error {
	if e.State != onerun.ItemDone && e.State != onerun.ItemFailed {
		return fmt.Errorf("%w: an item can't end as %q", onerun.ErrUsage, e.State)
	}
	return s.change(ctx, "end an item", e.Namespace, func(c *change) error {
		found, err := c.get([]string{"GET", c.k.item(e.Job, e.Name)})
		if err != nil {
			return err
		}
		lost := fmt.Errorf("%w: the item is not this owner's any more", onerun.ErrLost)
		if found[0] == "" {
			return lost
		}
		it, err := readItem(e.Namespace, found[0])
		switch {
		case err != nil:
			return err
		case it.Owner != e.Owner || it.State != onerun.ItemStarted && it.State != e.State:
			return lost
		case it.State == e.State:
			return nil
		}
		it.State, it.FinishedAt = e.State, c.now
		it.ExitCode, it.Signal, it.Error = e.ExitCode, e.Signal, onerun.CutError(e.Error)
		c.put(it)
		return nil
	})
}

// Items implements onerun.ItemKeeper.
func (s *Store) Items(ctx context.Context, q onerun.ItemQuery) ([]onerun.Item, error) {
	items, err := s.items(ctx, q)
	return items, s.explain("list items", err)
}

func (s *Store) items(ctx context.Context, q onerun.ItemQuery) ([]onerun.Item, error) {
	k := s.keys(q.Namespace)
	if q.Job != "" && q.Name != "" {
		return s.chosenItems(ctx, q, []string{itemID(q.Job, q.Name)})
	}
	open := len(q.States) > 0 && !slices.Contains(q.States, onerun.ItemDone)
	const step = 200
	by := &driver.ZRangeBy{Min: "-inf", Max: "+inf", Count: step}
	var out []onerun.Item
	for {
		ids, err := persist(ctx, func() ([]string, error) {
			return inTime(ctx, func() ([]string, error) { return s.db.ZRevRangeByScore(ctx, k.items(q.Job, open), by).Result() })
		})
		if err != nil {
			return nil, err
		}
		some, err := s.chosenItems(ctx, q, ids)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
		switch {
		case q.Limit > 0 && len(out) >= q.Limit:
			return out[:q.Limit], nil
		case len(ids) < step:
			return out, nil
		}
		by.Offset += step
	}
}

// chosenItems reads items, and keeps those that a query selects.
func (s *Store) chosenItems(ctx context.Context, q onerun.ItemQuery, ids []string) ([]onerun.Item, error) {
	cmds, err := s.pipelined(ctx, func(p driver.Pipeliner) {
		for _, id := range ids {
			p.Get(ctx, s.keys(q.Namespace).is("item:"+id))
		}
	})
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var out []onerun.Item
	var runs []string
	for _, cmd := range cmds {
		text, _ := cmd.(*driver.StringCmd).Result()
		if text == "" {
			continue
		}
		it, err := readItem(q.Namespace, text)
		if err != nil {
			return nil, err
		}
		if q.Name != "" && it.Name != q.Name || len(q.States) > 0 && !slices.Contains(q.States, it.State) {
			continue
		}
		if it.State == onerun.ItemStarted {
			runs = append(runs, it.RunID)
		}
		out = append(out, it)
	}
	slices.Sort(runs)
	_, found, err := s.look(ctx, q.Namespace, slices.Compact(runs)...)
	if err != nil {
		return nil, err
	}
	byID := map[string]*record{}
	for _, r := range found {
		byID[r.id] = r
	}
	for i, it := range out {
		out[i] = lookAtItem(it, byID[it.RunID])
	}
	return out, nil
}

// DecideItem implements onerun.ItemKeeper.
func (s *Store) DecideItem(ctx context.Context, d onerun.ItemDecision) (onerun.Item, error) {
	var it onerun.Item
	err := s.change(ctx, "decide about an item", d.Namespace, func(c *change) error {
		old, err := c.item(d.Job, d.Name)
		if err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("item %q of job %s: %w", d.Name, d.Job, onerun.ErrNotFound)
		}
		if err := onerun.ItemDecisionAllowed(*old, d); err != nil {
			return err
		}
		it = d.Decided(*old, c.now)
		c.put(it)
		return c.event(onerun.EventItemResolved, onerun.Run{Job: d.Job}, d.Who, d.Detail(*old))
	})
	return it, err
}
