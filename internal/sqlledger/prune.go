package sqlledger

import (
	"context"
	"encoding/json"
	"time"

	"github.com/onerun-dev/onerun"
)

// Chosen is a run that a request to prune is about, as it was when it was looked for.
type Chosen struct {
	ID      string
	Started int64
}

// Cursor is where a request to prune has come to, and what its first step found out.
type Cursor struct {
	Cuts    map[string]Cut // by job: the newest of its successes that are too many
	Started int64          // everything up to here has been looked at
	ID      string
}

// Cut is the newest of a job's successes that are too many. Its fields keep their names: a store can
// hand it to its server as JSON.
type Cut struct {
	Started int64
	ID      string
}

// Includes reports whether a run is one of those that are too many of its job.
func (c Cut) Includes(r Chosen) bool {
	return c.ID != "" && (r.Started < c.Started || r.Started == c.Started && r.ID <= c.ID)
}

// encode writes a cursor as the caller keeps it.
func (c Cursor) encode() string {
	b, _ := json.Marshal(c) // numbers and strings
	return string(b)
}

// DecodeCursor reads a cursor; "": one that begins at the time first.
func DecodeCursor(s string, first int64) (Cursor, error) {
	c := Cursor{Started: first}
	if s == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(s), &c); err != nil {
		return c, usage("that is no cursor of this store's: %w", err)
	}
	return c, nil
}

// Cutter is a transaction that finds out what is too many.
type Cutter interface {
	// JobNames lists the jobs that have runs.
	JobNames(namespace string) ([]string, error)
	// CutOf finds the newest of a job's successes that are too many; false: none are.
	CutOf(namespace, job string, keep int) (Cut, bool, error)
}

// Cut finds, for each job, the newest of its successes that are too many. To find it is
// to walk over all that stay, so it is done in a request's first step only.
func (c *Cursor) Cut(t Cutter, q onerun.PruneRequest) error {
	if q.Keep <= 0 || c.Cuts != nil {
		return nil
	}
	c.Cuts = map[string]Cut{}
	jobs := []string{q.Job}
	if q.Job == "" {
		var err error
		if jobs, err = t.JobNames(q.Namespace); err != nil {
			return err
		}
	}
	for _, job := range jobs {
		cut, ok, err := t.CutOf(q.Namespace, job, q.Keep)
		if err != nil {
			return err
		}
		if ok {
			c.Cuts[job] = cut
		}
	}
	return nil
}

// Last is the time after which nothing is looked for: the last of all bounds, before being that
// of the request's own; least where there is none.
func (c *Cursor) Last(before *int64, least int64) int64 {
	last := least
	if before != nil { // what ended before it began before it, which an index knows
		last = max(last, *before)
	}
	for _, cut := range c.Cuts {
		last = max(last, cut.Started)
	}
	return last
}

// Looker is a transaction that looks for what is to be pruned.
type Looker interface {
	Cutter
	// Prunable finds the runs that a request is about, at most one more than it may remove, those
	// that began first first. What is open for a run keeps it.
	Prunable(q onerun.PruneRequest, at *Cursor) ([]Chosen, error)
	// Refused finds the refusals that a request with a time is about: of keys that have no run, whose end would take them along,
	// and of unkeyed jobs. At most one more than it may remove; each is known by its job, key, reason and holder.
	Refused(q onerun.PruneRequest) ([]onerun.Skip, error)
}

// Choice is what one step of a request to prune has found.
type Choice struct {
	Runs   []Chosen
	Skips  []onerun.Skip
	More   bool   // there are more
	Cursor string // for the next step
}

// Look finds what the next step of a checked request is to remove. Times before first are not kept.
func Look[T Looker](ctx context.Context, read Transact[T], q onerun.PruneRequest, first int64) (c Choice, err error) {
	start, err := DecodeCursor(q.Cursor, first)
	if err != nil {
		return c, err
	}
	at := start
	var found []Chosen
	var skips []onerun.Skip
	err = read(ctx, "look for what to prune", func(t T) error {
		at = start
		err := at.Cut(t, q)
		if err == nil {
			found, err = t.Prunable(q, &at)
		}
		if skips = nil; err == nil && len(found) <= q.Limit && q.Partition == "" && !q.Before.IsZero() {
			skips, err = t.Refused(q)
		}
		return err
	})
	if err != nil {
		return c, err
	}
	c.Runs, c.More = found[:min(len(found), q.Limit)], max(len(found), len(skips)) > q.Limit
	c.Skips = skips[:min(len(skips), q.Limit)]
	if n := len(c.Runs); n > 0 {
		at.Started, at.ID = c.Runs[n-1].Started, c.Runs[n-1].ID
	}
	c.Cursor = at.encode()
	return c, nil
}

// Pruner is a transaction that removes what was found.
type Pruner interface {
	Journal
	// Remove takes runs away, those that are still what they were when they were chosen.
	Remove(found []Chosen, forget bool, p *onerun.Pruned) error
	// RemoveRefused takes refusals away that a request is about, where they are still older than its time, and returns how many.
	RemoveRefused(q onerun.PruneRequest, found []onerun.Skip) (int64, error)
	// Forgettable lists the keys of tombstones that a request is about, at most one more than it
	// may remove. A request with nothing but a number to keep says nothing of keys whose runs are
	// gone, and isn't asked about.
	Forgettable(q onerun.PruneRequest) ([]string, error)
	// Forget removes tombstones. The tokens that only they know stay with the locks.
	Forget(namespace string, keys []string) error
}

// Remove takes away what was found, and tombstones once no run is left, where the keys are to be
// forgotten.
func (c Choice) Remove(t Pruner, q onerun.PruneRequest) (onerun.Pruned, error) {
	p := onerun.Pruned{More: c.More, Cursor: c.Cursor}
	if len(c.Runs) > 0 {
		if err := t.Remove(c.Runs, q.ForgetKeys, &p); err != nil {
			return p, err
		}
	}
	if len(c.Skips) > 0 {
		var err error
		if p.Refusals, err = t.RemoveRefused(q, c.Skips); err != nil {
			return p, err
		}
	}
	if q.ForgetKeys && !c.More {
		n, err := forget(t, q)
		p.Forgotten += int64(min(n, q.Limit))
		p.More = n > q.Limit
		if err != nil {
			return p, err
		}
	}
	if p.Runs+p.Forgotten == 0 || q.By == "" || q.Cursor != "" { // the first step stands for all
		return p, nil
	}
	return p, t.Event(decision(onerun.EventPruned, q.Who, q.Words()), onerun.Run{Namespace: q.Namespace, Job: q.Job, Partition: q.Partition})
}

// Prune takes one step of a request. What is to go is looked for in a transaction that
// only reads; the one that removes has the rows of those runs in hand, which nobody else
// needs, and passes over those that somebody works with.
func Prune[T interface {
	Looker
	Pruner
}](ctx context.Context, read, write Transact[T], q onerun.PruneRequest) (p onerun.Pruned, err error) {
	if q, err = q.Checked(); err != nil {
		return p, err
	}
	c, err := Look(ctx, read, q, FirstTime().UnixMicro())
	if err != nil {
		return p, err
	}
	began := time.Now()
	err = write(ctx, "prune", func(t T) (err error) {
		began = time.Now()
		p, err = c.Remove(t, q)
		return err
	})
	p.Held = time.Since(began)
	return p, err
}

// forget removes tombstones that a request is about, and returns how many there were, at
// most one more than it may remove.
func forget(t Pruner, q onerun.PruneRequest) (int, error) {
	if q.Partition == "" && !q.Oldest && q.Before.IsZero() { // nothing but a number to keep
		return 0, nil
	}
	keys, err := t.Forgettable(q)
	if gone := keys[:min(len(keys), q.Limit)]; err == nil && len(gone) > 0 {
		err = t.Forget(q.Namespace, gone)
	}
	return len(keys), err
}

// ScanChosen reads a run that is chosen.
func ScanChosen(scan func(...any) error) (c Chosen, err error) {
	err = scan(&c.ID, &c.Started)
	return c, err
}

// ScanRefused reads a refusal that is chosen.
func ScanRefused(scan func(...any) error) (k onerun.Skip, err error) {
	err = scan(&k.Job, &k.Key, &k.Reason, &k.Holder)
	return k, err
}
