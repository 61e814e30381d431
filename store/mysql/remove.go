package mysql

import (
	"slices"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Remove implements sqlledger.Pruner. With a run goes all that is kept of it; a key leaves a
// tombstone unless it is to be forgotten. Rows that somebody works with are passed over. Decisions
// of operators stay, since their chain of events is one for all.
func (t *tx) Remove(found []sqlledger.Chosen, forget bool, p *onerun.Pruned) error {
	ids := make([]string, len(found))
	for i, c := range found {
		ids[i] = c.ID
	}
	// By their ids alone: where a table is small the server would rather read all of it, and lock
	// for a moment what others look for.
	ids, err := sqlledger.Texts(t.each, "SELECT run_id FROM onerun_run FORCE INDEX (PRIMARY) WHERE run_id IN ("+places(len(ids))+") AND status = 'SUCCEEDED' ORDER BY run_id FOR UPDATE SKIP LOCKED", texts(ids)...)
	if err != nil || len(ids) == 0 {
		return err
	}
	// A statement of its own, with the rows in hand: whoever approves locks them first.
	open, err := sqlledger.Texts(t.each, "SELECT open_run FROM onerun_approval WHERE open_run IN ("+places(len(ids))+")", texts(ids)...)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(open, id) })
	if len(ids) == 0 {
		return nil
	}
	if err := t.Tick(); err != nil {
		return err
	}
	in, args := "("+places(len(ids))+")", texts(ids)
	var keys int64
	if err := t.row(`SELECT COUNT("key") FROM onerun_run WHERE run_id IN `+in, args...).Scan(&keys); err != nil {
		return err
	}
	p.Runs = int64(len(ids))
	if forget {
		p.Forgotten = keys
	} else {
		p.Keys = keys
		if err := t.bury(in, args); err != nil {
			return err
		}
	}
	b := &batch{}
	b.add(`DELETE s FROM onerun_skip s JOIN onerun_run r ON s.namespace = r.namespace AND s.job = r.job AND s."key" = r."key" WHERE r.run_id IN `+in, args...)
	b.add(`DELETE s FROM onerun_skip s JOIN onerun_run r ON s.namespace = r.namespace AND s.job = r.job AND s."key" = ''
			AND s.reason IN ('running', 'locked', 'stale') AND s.holder_hash = UNHEX(SHA2(CONCAT(r.run_id, '/1'), 256))
		WHERE r."key" IS NULL AND r.run_id IN `+in, args...)
	for _, table := range []string{"onerun_run WHERE run_id", "onerun_attempt WHERE run_id", "onerun_output WHERE run_id", "onerun_approval WHERE run_id", "onerun_event WHERE chain"} {
		b.add("DELETE FROM "+table+" IN "+in, args...)
	}
	return t.run(b)
}

// bury leaves tombstones of those runs that have a key. The token stands in the tombstone then,
// until that goes; a lock that somebody has in hand stays, and so does one that isn't the
// tombstone's, whose token it gives back when it goes.
func (t *tx) bury(in string, ids []any) error {
	err := t.exec(`INSERT INTO onerun_tombstone (namespace, "key", run_id, job, "partition", business_date, "lock", status, attempt, token, two_people, on_crash,
			scheduled_at, started_at, finished_at, pruned_at)
		SELECT r.namespace, r."key", r.run_id, r.job, r."partition", r.business_date, r."lock", r.status, r.attempt, COALESCE(r.token, 0),
			COALESCE(a.two_people, FALSE), COALESCE(a.on_crash, 'auto'), r.scheduled_at, r.started_at, r.finished_at, ?
		FROM onerun_run r LEFT JOIN onerun_attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt
		WHERE r."key" IS NOT NULL AND r.run_id IN `+in, append([]any{micros(t.now)}, ids...)...)
	if err != nil {
		return err
	}
	type row struct {
		namespace, lock string
		token           int64
	}
	var free []row
	err = t.each(func(scan func(...any) error) error {
		var r row
		err := scan(&r.namespace, &r.lock, &r.token)
		free = append(free, r)
		return err
	}, `SELECT namespace, "lock", token FROM onerun_tombstone WHERE run_id IN `+in+` AND "lock" = CONCAT('key/', "key") ORDER BY 1, 2`, ids...)
	for _, r := range free {
		if err == nil {
			err = t.removeLock(r.namespace, r.lock, r.token)
		}
	}
	return err
}

// removeLock removes the row of a free lock, and that of its fence, unless somebody has one of them
// in hand, or a later owner has been given a larger token.
func (t *tx) removeLock(namespace, lock string, token int64) error {
	found, err := sqlledger.Texts(t.each, `SELECT fenced FROM onerun_lock WHERE namespace = ? AND "lock" = ? AND owner IS NULL AND token <= ? FOR UPDATE SKIP LOCKED`, namespace, lock, token)
	if err != nil || len(found) == 0 {
		return err
	}
	fence, err := sqlledger.Texts(t.each, `SELECT "lock" FROM onerun_fence WHERE namespace = ? AND "lock" = ? FOR UPDATE SKIP LOCKED`, namespace, lock)
	if err != nil || found[0] != "0" && len(fence) == 0 {
		return err
	}
	b := &batch{}
	if len(fence) > 0 {
		b.add(`DELETE FROM onerun_fence WHERE namespace = ? AND "lock" = ?`, namespace, lock)
	}
	b.add(`DELETE FROM onerun_lock WHERE namespace = ? AND "lock" = ?`, namespace, lock)
	return t.run(b)
}
