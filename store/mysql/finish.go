package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// owned says in SQL that a lock is a lease's.
const owned = `namespace = ? AND "lock" = ? AND owner = ? AND token = ? AND run_id <=> ? AND attempt <=> ?`

func ownedArgs(l onerun.Lease) []any {
	return []any{l.Namespace, l.Lock, l.Owner, l.Token, null(l.RunID), null(l.Attempt)}
}

// Heartbeat implements onerun.Claimer, in one round trip. The row is taken in hand by a statement
// of its own: the time that the next one sees is from after the wait. A late beat is safe,
// because every grant changes the owner.
func (s *Store) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	b := &batch{}
	b.add(begin)
	b.add("UPDATE onerun_lock SET token = token WHERE "+owned, ownedArgs(l)...)
	b.add("UPDATE onerun_lock SET expires_at = "+now+" + ttl WHERE "+owned+` AND (run_id IS NULL OR EXISTS (
		SELECT 1 FROM onerun_run r STRAIGHT_JOIN onerun_attempt a ON a.run_id = r.run_id AND a.attempt = r.attempt
		WHERE r.run_id = onerun_lock.run_id AND r.attempt = onerun_lock.attempt AND r.status = 'RUNNING' AND a.status = 'RUNNING'))`, ownedArgs(l)...)
	b.add("SELECT ROW_COUNT(), expires_at - ttl, COALESCE(stop, '') FROM onerun_lock WHERE "+owned, ownedArgs(l)...)
	b.add(commit)
	var n, at int64
	var stop string
	err := s.once(ctx, func(t *tx) error { return t.row(b.text.String(), b.args...).Scan(&n, &at, &stop) })
	if noRows(err) || err == nil && n != 1 {
		return onerun.Beat{}, fmt.Errorf("%w: %s of this owner is not in the store any more", onerun.ErrLost, l.Lock)
	}
	if code(err) == errNoTable { // somebody has dropped it, and the lease with it
		return onerun.Beat{}, fmt.Errorf("%w: the tables of %s are not in the store any more", onerun.ErrLost, l.Lock)
	}
	if err != nil {
		return onerun.Beat{}, s.explain("heartbeat", err)
	}
	return onerun.Beat{Now: fromMicros(&at), Stop: stop}, nil
}

// once runs f, which is a transaction by itself and may be asked for again when its reply was lost.
func (s *Store) once(ctx context.Context, f func(t *tx) error) error {
	return s.patiently(ctx, func() error {
		return s.connected(ctx, func(conn *sql.Conn) error {
			t := &tx{ctx: ctx, conn: conn}
			err := f(t)
			if err == nil || noRows(err) {
				return err
			}
			t.rollback()
			return &unbegun{err}
		})
	})
}

// Finish implements onerun.Claimer, in one round trip unless the attempt has FAILED.
func (s *Store) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if l.RunID != "" && !sqlledger.Ended(o.Status) {
		return fmt.Errorf("%w: an attempt can't end as %q", onerun.ErrUsage, o.Status)
	}
	s.hook("record the end")
	err := s.explain("record the end", s.finish(ctx, l, o))
	if o.Output != nil && refusedText(err) { // the status is never lost for the sake of its text
		o.Output = nil
		err = s.explain("record the end", s.finish(ctx, l, o))
	}
	s.hook("recorded")
	return err
}

// refusedText reports whether an end could perhaps be recorded if it were shorter: whatever
// it was that the server refused, but not that it can't be reached, or that the end comes
// too late.
func refusedText(err error) bool {
	return errors.Is(err, onerun.ErrIO) || errors.Is(err, onerun.ErrInternal) || errors.Is(err, onerun.ErrUsage) || errors.Is(err, errTooLarge)
}

func (s *Store) finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	recorded := false
	err := s.once(ctx, func(t *tx) (err error) {
		recorded, err = t.finish(l, o)
		return err
	})
	if o.Output != nil && err != nil && len(o.Output.Text) > 1<<18 && disconnected(err) && !readOnly(err) { // as of a server whose max_allowed_packet is small
		err = errors.Join(errTooLarge, err)
	}
	if err != nil && code(err) != errNull || recorded {
		return err
	}
	return s.read(ctx, "record the end", func(t *tx) error { return t.recorded(l, o) })
}

var errTooLarge = errors.New("perhaps the output is larger than what the server takes")

// finish records the end of a lease's attempt and frees its lock; false: the lock isn't the
// lease's any more.
func (t *tx) finish(l onerun.Lease, o onerun.Outcome) (recorded bool, err error) {
	b := &batch{}
	b.add(begin)
	var retry *int64
	if o.Status == onerun.Failed && l.RunID != "" {
		b.add("UPDATE onerun_lock SET token = token WHERE "+owned, ownedArgs(l)...)
		at, err := t.nextRetry(b, l, onerun.Running, o)
		if noRows(err) {
			return false, t.exec(rollback)
		}
		if err != nil {
			return false, err
		}
		retry, b = micros(at), &batch{}
	}
	// The lock is freed first, which takes its row in hand. Where it isn't this lease's, the run's
	// row doesn't change, nor the attempt's.
	b.add(sqlFree+" AND token = ? AND run_id <=> ? AND attempt <=> ?", l.Namespace, l.Lock, l.Owner, l.Token, null(l.RunID), null(l.Attempt))
	if l.RunID != "" {
		t.addEnd(b, l, onerun.Running, o, onerun.ByOwner, retry, "ROW_COUNT() = 1")
		if o.Output != nil {
			addOutput(b, l, *o.Output)
		}
		// Nothing is freed whose end isn't recorded: a token that is NULL is refused, and all is undone.
		b.add(`UPDATE onerun_lock SET token = IF(ROW_COUNT() > 0, token, NULL) WHERE namespace = ? AND "lock" = ? AND owner IS NULL AND token = ?`, l.Namespace, l.Lock, l.Token)
	}
	b.add("SELECT ROW_COUNT()")
	b.add(commit)
	var n int64
	err = t.row(b.text.String(), b.args...).Scan(&n)
	return n == 1, err
}

// addOutput keeps what an attempt printed, if the statement before it has changed a row.
func addOutput(b *batch, l onerun.Lease, o onerun.Output) {
	o = o.Cleaned()
	if o.Text == "" {
		return
	}
	b.add(`INSERT INTO onerun_output (run_id, attempt, at, bytes_total, truncated, text)
		SELECT ?, ?, `+now+`, ?, ?, ? FROM onerun_schema WHERE ROW_COUNT() > 0
		ON DUPLICATE KEY UPDATE at = VALUES(at), bytes_total = VALUES(bytes_total), truncated = VALUES(truncated), text = VALUES(text)`,
		l.RunID, l.Attempt, o.Total, o.Truncated, []byte(o.Text))
}

// recorded tells a finish that was done before (its reply was lost) from one that comes too late.
func (t *tx) recorded(l onerun.Lease, o onerun.Outcome) error {
	var owner *string
	var token int64
	err := t.row(`SELECT owner, token FROM onerun_lock WHERE namespace = ? AND "lock" = ?`, l.Namespace, l.Lock).Scan(&owner, &token)
	if err != nil && !noRows(err) {
		return err
	}
	if l.RunID == "" && err == nil && owner == nil && token == l.Token {
		return nil
	}
	var status onerun.Status
	var reason onerun.Reason
	if l.RunID != "" {
		err = t.row("SELECT status, COALESCE(reason, '') FROM onerun_attempt WHERE run_id = ? AND attempt = ? AND owner = ? AND token = ?",
			l.RunID, l.Attempt, l.Owner, l.Token).Scan(&status, &reason)
		if err != nil && !noRows(err) {
			return err
		}
	}
	switch {
	case status == o.Status && reason == o.Reason && status != "":
		return nil
	case owner != nil && token != l.Token:
		return fmt.Errorf("%w: the lock has a new owner with token %d", onerun.ErrLost, token)
	case status != "" && status != onerun.Running:
		return fmt.Errorf("%w: the attempt is %s already", onerun.ErrLost, status)
	}
	return fmt.Errorf("%w: the lock or the run is not this owner's any more, or has vanished", onerun.ErrLost)
}
