package mysql

import (
	"context"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// sqlItemColumns are items, with what their judge needs to know of the attempt that they are part of:
// whether it is still RUNNING, and until when its lease is.
const sqlItemColumns = `SELECT i.namespace, i.job, i.item, i.state, COALESCE(i.payload, ''), i.tries, i.run_id, i.attempt, i.owner, i.on_crash,
	i.host, i.machine, i.boot, i.pid_ns, i.time_ns, i.pid, i.start_ticks, i.started_at, i.finished_at, i.exit_code, COALESCE(i."signal", ''), COALESCE(i.error, ''),
	COALESCE(a.status = 'RUNNING', FALSE), l.expires_at
FROM onerun_item i
LEFT JOIN onerun_attempt a ON i.state = 'started' AND a.run_id = i.run_id AND a.attempt = i.attempt
LEFT JOIN onerun_lock l ON a.status = 'RUNNING' AND l.namespace = i.namespace AND l."lock" = a."lock" AND l.owner = a.owner `

// BeginItem implements onerun.ItemKeeper. The row of the run's lock is in hand: for that moment
// nobody takes the run over.
func (s *Store) BeginItem(ctx context.Context, c onerun.ItemClaim) (onerun.Item, error) {
	return sqlledger.BeginItem(ctx, s.write, c)
}

// OwnedJob implements sqlledger.Itemer.
func (t *tx) OwnedJob(l onerun.Lease) (job string, err error) {
	if err := t.exec("UPDATE onerun_lock SET token = token WHERE "+owned, ownedArgs(l)...); err != nil {
		return "", err
	}
	err = t.row(`SELECT r.job FROM onerun_lock l JOIN onerun_run r ON r.run_id = l.run_id AND r.attempt = l.attempt AND r.status = 'RUNNING'
		WHERE l.namespace = ? AND l."lock" = ? AND l.owner = ? AND l.token = ? AND l.run_id = ? AND l.attempt = ?`,
		l.Namespace, l.Lock, l.Owner, l.Token, l.RunID, l.Attempt).Scan(&job)
	if noRows(err) {
		err = fmt.Errorf("%w: the run was closed by somebody else", onerun.ErrLost)
	}
	return job, err
}

// ItemInHand implements sqlledger.Itemer.
func (t *tx) ItemInHand(namespace, job, name string) (*sqlledger.ItemRow, error) {
	err := t.exec("UPDATE onerun_item SET tries = tries WHERE namespace = ? AND job = ? AND item = ?", namespace, job, name)
	if err != nil {
		return nil, err
	}
	found, err := t.Items("WHERE i.namespace = ? AND i.job = ? AND i.item = ?", namespace, job, name)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// PutItem implements sqlledger.Itemer.
func (t *tx) PutItem(it onerun.Item, owner string) error {
	w := sqlledger.WorkerOf(it.Worker)
	var payload any // the bytes that it is, be they text or not
	if it.Payload != "" {
		payload = []byte(it.Payload)
	}
	values := []any{
		it.State, payload, it.Tries, it.RunID, it.Attempt, it.Owner, it.OnCrash, w.Host, w.Machine, w.Boot, w.PIDNS, w.TimeNS, w.PID, w.StartTicks, micros(it.StartedAt),
	}
	if owner == "" {
		err := t.exec(`INSERT INTO onerun_item (state, payload, tries, run_id, attempt, owner, on_crash, host, machine, boot, pid_ns, time_ns, pid, start_ticks, started_at,
			namespace, job, item) VALUES (`+places(len(values)+3)+")", append(values, it.Namespace, it.Job, it.Name)...)
		if code(err) == errDuplicate {
			err = errAgain
		}
		return err
	}
	n, err := t.changed(`UPDATE onerun_item SET state = ?, payload = ?, tries = ?, run_id = ?, attempt = ?, owner = ?, on_crash = ?, host = ?, machine = ?, boot = ?,
			pid_ns = ?, time_ns = ?, pid = ?, start_ticks = ?, started_at = ?, finished_at = NULL, exit_code = NULL, "signal" = NULL, error = NULL
		WHERE namespace = ? AND job = ? AND item = ? AND owner = ?`, append(values, it.Namespace, it.Job, it.Name, owner)...)
	if err == nil && n != 1 {
		err = errAgain
	}
	return err
}

// Items implements sqlledger.Itemer.
func (t *tx) Items(where string, args ...any) ([]sqlledger.ItemRow, error) {
	return sqlledger.ScanItems(t.each, sqlItemColumns+where, args...)
}

// EndItem implements onerun.ItemKeeper.
func (s *Store) EndItem(ctx context.Context, e onerun.ItemEnd) error {
	if err := sqlledger.CheckItemEnd(e); err != nil {
		return err
	}
	return s.write(ctx, "end an item", func(t *tx) error {
		b := &batch{}
		b.add("UPDATE onerun_item SET state = ?, finished_at = "+now+`, exit_code = ?, "signal" = ?, error = ?
			WHERE namespace = ? AND job = ? AND item = ? AND owner = ? AND state = 'started'`,
			e.State, sqlledger.ExitCode(e.ExitCode), null(e.Signal), null(onerun.CutError(e.Error)), e.Namespace, e.Job, e.Name, e.Owner)
		b.add("SELECT COUNT(*) FROM onerun_item WHERE namespace = ? AND job = ? AND item = ? AND owner = ? AND state = ?", e.Namespace, e.Job, e.Name, e.Owner, e.State)
		var ours int
		err := t.row(b.text.String(), b.args...).Scan(&ours)
		if err == nil && ours != 1 {
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
	c.And("i.namespace = ?", q.Namespace)
	if q.Job != "" {
		c.And("i.job = ?", q.Job)
	}
	if q.Name != "" {
		c.And("i.item = ?", q.Name)
	}
	var states []any
	for _, state := range q.States {
		states = append(states, state)
	}
	if states != nil {
		c.And("i.state IN ("+places(len(states))+")", states...)
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
	return t.exec(`UPDATE onerun_item SET state = ?, finished_at = ?, exit_code = NULL, "signal" = NULL, error = ?
		WHERE namespace = ? AND job = ? AND item = ?`, it.State, micros(t.now), null(it.Error), it.Namespace, it.Job, it.Name)
}
