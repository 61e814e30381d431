package sqlite

import (
	"context"
	_ "embed" // queries
	"errors"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

//go:embed sql/begin_item.sql
var sqlBeginItem string

//go:embed sql/item_columns.sql
var sqlItemColumns string

// itemRow is an item with what its judge needs to know of its attempt.
type itemRow struct {
	onerun.Item
	runOwner string // the owner id of the attempt that it is part of
	running  bool   // that attempt is
}

// errLook ends a transaction in which an item's owner would have to be looked for: that
// takes longer than others should wait.
var errLook = errors.New("the owner of an item has to be looked for")

// BeginItem implements onerun.ItemKeeper. The owner of a started item is looked for outside
// of the transaction that decides, which then expects to find the same owner.
func (s *Store) BeginItem(ctx context.Context, c onerun.ItemClaim) (onerun.Item, error) {
	if err := c.Check(); err != nil {
		return onerun.Item{}, err
	}
	if c.Worker.Boot == "" { // the caller's kernel is ours
		c.Worker = filelock.ThisWorker("")
		c.Worker.PID = 0
	}
	var it onerun.Item
	var seen *itemRow
	for {
		err := s.with(ctx, true, func(d *db) error {
			return d.write(ctx, "begin an item", func(t *tx) (err error) {
				it, seen, err = t.beginItem(c, seen)
				return err
			})
		})
		if !errors.Is(err, errLook) {
			return it, err
		}
		seen.look()
	}
}

// beginItem decides. seen is the item as it was judged before; nil: nobody has looked.
func (t *tx) beginItem(c onerun.ItemClaim, seen *itemRow) (onerun.Item, *itemRow, error) {
	job, err := t.ownedJob(c.Lease)
	if err != nil {
		return onerun.Item{}, nil, err
	}
	old, err := t.item(c.Lease.Namespace, job, c.Name)
	if err != nil {
		return onerun.Item{}, nil, err
	}
	if old == nil {
		it := c.Begun(nil, job, t.now)
		return it, nil, t.putItem(it, c.Lease.Owner)
	}
	if old.State == onerun.ItemStarted && old.Owner != c.Owner {
		if seen == nil || seen.Owner != old.Owner || seen.State != old.State || seen.running != old.running {
			return onerun.Item{}, old, errLook
		}
		old = seen
	}
	if why := onerun.ItemVerdict(old.Item, c); why != "" {
		return onerun.Item{}, nil, &onerun.ItemRefusal{Reason: why, Item: old.Item}
	}
	if old.State == onerun.ItemStarted && old.Owner == c.Owner {
		return old.Item, nil, nil
	}
	it := c.Begun(&old.Item, job, t.now)
	return it, nil, t.putItem(it, c.Lease.Owner)
}

// ownedJob is the job of the run that a lease owns.
func (t *tx) ownedJob(l onerun.Lease) (job string, err error) {
	err = t.row(`SELECT r.job FROM onerun_attempt a JOIN onerun_run r ON r.run_id = a.run_id
		WHERE a.run_id = ?1 AND a.attempt = ?2 AND a.owner = ?3 AND a.token = ?4 AND a.status = 'RUNNING' AND r.namespace = ?5`,
		l.RunID, l.Attempt, l.Owner, l.Token, l.Namespace).Scan(&job)
	if noRows(err) {
		err = fmt.Errorf("%w: the run was closed by somebody else", onerun.ErrLost)
	}
	return job, err
}

func (t *tx) putItem(it onerun.Item, runOwner string) error {
	w := it.Worker
	return t.exec(sqlBeginItem, it.Namespace, it.Job, it.Name, null(it.Payload), it.Tries, it.RunID, it.Attempt, it.Owner, runOwner, it.OnCrash,
		null(w.Host), null(w.Machine), null(w.Boot), null(int64(w.PIDNS)), null(int64(w.TimeNS)), null(w.PID), null(int64(w.StartTicks)), null(it.Group), it.StartedAt.UnixMicro())
}

// item reads one item; nil: there is none.
func (t *tx) item(namespace, job, name string) (*itemRow, error) {
	found, err := t.items("WHERE i.namespace = ?1 AND i.job = ?2 AND i.item = ?3", namespace, job, name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

func (t *tx) items(where string, args ...any) ([]itemRow, error) {
	var found []itemRow
	err := t.each(func(scan func(...any) error) error {
		var it itemRow
		var started, finished *int64
		var pidns, timens, ticks int64
		w := &it.Worker
		err := scan(&it.Namespace, &it.Job, &it.Name, &it.State, &it.Payload, &it.Tries, &it.RunID, &it.Attempt, &it.Owner, &it.runOwner, &it.OnCrash,
			&w.Host, &w.Machine, &w.Boot, &pidns, &timens, &w.PID, &ticks, &it.Group, &started, &finished, &it.ExitCode, &it.Signal, &it.Error,
			&it.running)
		w.PIDNS, w.TimeNS, w.StartTicks = uint64(pidns), uint64(timens), uint64(ticks)
		it.StartedAt, it.FinishedAt = fromMicros(started), fromMicros(finished)
		found = append(found, it)
		return err
	}, sqlItemColumns+where, args...)
	return found, err
}

// EndItem implements onerun.ItemKeeper.
func (s *Store) EndItem(ctx context.Context, e onerun.ItemEnd) error {
	if err := sqlledger.CheckItemEnd(e); err != nil {
		return err
	}
	return s.with(ctx, true, func(d *db) error {
		return d.write(ctx, "end an item", func(t *tx) error {
			n, err := t.changed(`UPDATE onerun_item SET state = ?5, finished_at = ?6, exit_code = ?7, signal = ?8, error = ?9
				WHERE namespace = ?1 AND job = ?2 AND item = ?3 AND owner = ?4 AND state = 'started'`,
				e.Namespace, e.Job, e.Name, e.Owner, e.State, t.now.UnixMicro(), e.ExitCode, null(e.Signal), null(onerun.CutError(e.Error)))
			if err != nil || n == 1 {
				return err
			}
			it, err := t.item(e.Namespace, e.Job, e.Name)
			if err == nil && (it == nil || it.Owner != e.Owner || it.State != e.State) {
				err = sqlledger.ItemLost()
			}
			return err
		})
	})
}

// Items implements onerun.ItemKeeper.
func (s *Store) Items(ctx context.Context, q onerun.ItemQuery) ([]onerun.Item, error) {
	where, args := itemsWhere(q)
	var found []itemRow
	err := s.read(ctx, "list items", func(t *tx) (err error) {
		found, err = t.items(where, args...)
		return err
	})
	items := make([]onerun.Item, len(found))
	for i := range found {
		found[i].look()
		items[i] = found[i].Item
	}
	return items, err
}

func itemsWhere(q onerun.ItemQuery) (where string, args []any) {
	var c sqlledger.Where
	c.AndAt("i.namespace = ?%d", q.Namespace)
	if q.Job != "" {
		c.AndAt("i.job = ?%d", q.Job)
	}
	if q.Name != "" {
		c.AndAt("i.item = ?%d", q.Name)
	}
	done := len(q.States) == 0
	var states []string
	for _, state := range q.States {
		done = done || state == onerun.ItemDone
		states = append(states, fmt.Sprintf("?%d", c.At(state)))
	}
	if states != nil {
		c.And("i.state IN (" + strings.Join(states, ", ") + ")")
	}
	if !done { // so that an index is used which holds only those
		c.And("i.state <> 'done'")
	}
	where = c.String() + " ORDER BY i.started_at DESC, i.job DESC, i.item DESC"
	if q.Limit > 0 {
		where += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	return where, c.Args
}

// DecideItem implements onerun.ItemKeeper.
func (s *Store) DecideItem(ctx context.Context, d onerun.ItemDecision) (onerun.Item, error) {
	var it onerun.Item
	err := s.write(ctx, "decide about an item", func(t *tx) error {
		old, err := t.item(d.Namespace, d.Job, d.Name)
		if err != nil {
			return err
		}
		if old == nil {
			return fmt.Errorf("item %q of job %s: %w", d.Name, d.Job, onerun.ErrNotFound)
		}
		old.look()
		if err := onerun.ItemDecisionAllowed(old.Item, d); err != nil {
			return err
		}
		it = d.Decided(old.Item, t.now)
		if err := t.exec(`UPDATE onerun_item SET state = ?4, finished_at = ?5, exit_code = NULL, signal = NULL, error = ?6
			WHERE namespace = ?1 AND job = ?2 AND item = ?3`, d.Namespace, d.Job, d.Name, it.State, t.now.UnixMicro(), null(it.Error)); err != nil {
			return err
		}
		return t.Event(sqlledger.ItemResolved(d, old.Item))
	})
	return it, err
}
