package postgres

import (
	"context"
	_ "embed" // queries
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

//go:embed sql/item_columns.sql
var sqlItemColumns string

//go:embed sql/begin_item.sql
var sqlBeginItem string

// BeginItem implements onerun.ItemKeeper. The row of the run's lock is held in a way that
// lets heartbeats pass and keeps claims out: for that moment nobody takes the run over.
func (s *Store) BeginItem(ctx context.Context, c onerun.ItemClaim) (onerun.Item, error) {
	return sqlledger.BeginItem(ctx, s.write, c)
}

// OwnedJob implements sqlledger.Itemer.
func (t *tx) OwnedJob(l onerun.Lease) (job string, err error) {
	err = t.row(`SELECT r.job FROM onerun_lock l JOIN onerun_run r ON r.run_id = l.run_id AND r.attempt = l.attempt AND r.status = 'RUNNING'
		WHERE l.namespace = $1 AND l.lock = $2 AND l.owner = $3 AND l.token = $4 AND l.run_id = $5 AND l.attempt = $6 FOR KEY SHARE OF l`,
		l.Namespace, l.Lock, l.Owner, l.Token, l.RunID, l.Attempt).Scan(&job)
	if noRows(err) {
		err = fmt.Errorf("%w: the run was closed by somebody else", onerun.ErrLost)
	}
	return job, err
}

// PutItem implements sqlledger.Itemer.
func (t *tx) PutItem(it onerun.Item, owner string) error {
	w := sqlledger.WorkerOf(it.Worker)
	n, err := t.changed(sqlBeginItem, it.Namespace, it.Job, it.Name, null(onerun.KeptPayload(it.Payload)), it.Tries, it.RunID, it.Attempt, it.Owner, it.OnCrash,
		w.Host, w.Machine, w.Boot, w.PIDNS, w.TimeNS, w.PID, w.StartTicks, micros(it.StartedAt), owner)
	if err == nil && n != 1 {
		err = errAgain
	}
	return err
}

// ItemInHand implements sqlledger.Itemer.
func (t *tx) ItemInHand(namespace, job, name string) (*sqlledger.ItemRow, error) {
	found, err := t.Items("WHERE i.namespace = $1 AND i.job = $2 AND i.item = $3 FOR UPDATE OF i", namespace, job, name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Items implements sqlledger.Itemer.
func (t *tx) Items(where string, args ...any) ([]sqlledger.ItemRow, error) {
	found, err := sqlledger.ScanItems(t.each, sqlItemColumns+where, args...)
	for i := range found {
		found[i].Payload = onerun.PayloadOf(found[i].Payload)
	}
	return found, err
}

// EndItem implements onerun.ItemKeeper, in one round trip after the transaction's begin: what
// stands in the way is read in the same.
func (s *Store) EndItem(ctx context.Context, e onerun.ItemEnd) error {
	if err := sqlledger.CheckItemEnd(e); err != nil {
		return err
	}
	return s.write(ctx, "end an item", func(t *tx) error {
		b := &pgx.Batch{}
		b.Queue(`UPDATE onerun_item SET state = $5, finished_at = clock_timestamp(), exit_code = $6, signal = $7, error = $8
			WHERE namespace = $1 AND job = $2 AND item = $3 AND owner = $4 AND state = 'started'`,
			sqlledger.Params([]any{e.Namespace, e.Job, e.Name, e.Owner, e.State, sqlledger.ExitCode(e.ExitCode), null(sqlledger.Clean(e.Signal)), null(onerun.CutError(e.Error))})...)
		b.Queue("SELECT EXISTS (SELECT 1 FROM onerun_item WHERE namespace = $1 AND job = $2 AND item = $3 AND owner = $4 AND state = $5)",
			sqlledger.Params([]any{e.Namespace, e.Job, e.Name, e.Owner, e.State})...)
		r := t.conn.SendBatch(t.ctx, b)
		_, err := r.Exec()
		var ours bool
		if err == nil {
			err = r.QueryRow().Scan(&ours)
		}
		if cerr := r.Close(); err == nil {
			err = cerr
		}
		if err == nil && !ours {
			err = sqlledger.ItemLost()
		}
		return err
	})
}

// Items implements onerun.ItemKeeper.
func (s *Store) Items(ctx context.Context, q onerun.ItemQuery) ([]onerun.Item, error) {
	tail, args := itemsWhere(q)
	return sqlledger.ListItems(ctx, s.read, tail, args...)
}

func itemsWhere(q onerun.ItemQuery) (tail string, args []any) {
	var c sqlledger.Where
	c.AndAt("i.namespace = $%d", q.Namespace)
	if q.Job != "" {
		c.AndAt("i.job = $%d", q.Job)
	}
	if q.Name != "" {
		c.AndAt("i.item = $%d", q.Name)
	}
	done := len(q.States) == 0
	var states []string
	for _, state := range q.States {
		done = done || state == onerun.ItemDone
		states = append(states, string(state))
	}
	if states != nil {
		c.AndAt("i.state = ANY ($%d)", states)
	}
	if !done { // so that an index is used which holds only those
		c.And("i.state <> 'done'")
	}
	order := " ORDER BY i.started_at DESC, i.job DESC, i.item DESC"
	if q.Job != "" {
		order = " ORDER BY i.started_at DESC, i.item DESC"
	}
	tail = c.String() + order
	if q.Limit > 0 {
		tail += fmt.Sprintf(" LIMIT %d", q.Limit)
	}
	return tail, c.Args
}

// DecideItem implements onerun.ItemKeeper.
func (s *Store) DecideItem(ctx context.Context, d onerun.ItemDecision) (onerun.Item, error) {
	return sqlledger.DecideItem(ctx, s.write, d)
}

// SetItem implements sqlledger.Itemer.
func (t *tx) SetItem(it onerun.Item) error {
	return t.exec(`UPDATE onerun_item SET state = $4, finished_at = onerun_at($5), exit_code = NULL, signal = NULL, error = $6
		WHERE namespace = $1 AND job = $2 AND item = $3`, it.Namespace, it.Job, it.Name, it.State, micros(t.now), null(it.Error))
}
