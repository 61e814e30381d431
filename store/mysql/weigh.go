package mysql

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// weigh decides on a claim that something is in the way of, with the rows of the locks in hand:
// what is known is settled first.
func (q *question) weigh(t *tx, f found) error {
	running := ""
	if f.owner == "" {
		err := t.row("SELECT run_id FROM onerun_run WHERE namespace = ? AND running_lock = ?", q.Namespace, q.Lock).Scan(&running)
		if err != nil && !noRows(err) {
			return err
		}
	}
	if running != "" {
		// Somebody deleted the lock's row under a RUNNING run. It is put back, so that its owner
		// keeps others out for as long as it may be at work.
		if err := t.exec(sqlPutBack, micros(t.now), q.Namespace, q.Lock, running); err != nil {
			return err
		}
		if err := t.row(`SELECT token, COALESCE(owner, '') FROM onerun_lock WHERE namespace = ? AND "lock" = ?`, q.Namespace, q.Lock).Scan(&f.token, &f.owner); err != nil {
			return err
		}
		f.leaseRun, f.fenced = running, true
	}
	if f.owner == q.Owner {
		return q.again(t, f)
	}
	st, err := sqlledger.ReadState(t, q.Claim)
	if err != nil {
		return err
	}
	if r := st.Run; r != nil && r.Status == onerun.Running && r.Lock != q.Lock {
		if r.Lock != q.hint { // it began meanwhile, under a lock that isn't in hand
			q.hint = r.Lock
			return errAgain
		}
		if st.Other == nil { // its row was deleted, too
			err := t.exec(sqlPutBack, micros(t.now), q.Namespace, r.Lock, r.RunID)
			if err == nil {
				st, err = sqlledger.ReadState(t, q.Claim)
			}
			if err != nil {
				return err
			}
		}
	}
	for _, l := range []*sqlledger.LockRow{st.Lock, st.Other} {
		run, err := t.settle(q.Namespace, l, q.k)
		if err != nil {
			return err
		}
		if run != nil {
			q.answer.closed = append(q.answer.closed, *run)
		}
	}
	if dead(st, q.k, t.now) { // what is closed now, or freed
		if st, err = sqlledger.ReadState(t, q.Claim); err != nil {
			return err
		}
	}
	facts := st.Facts(t.now)
	st.Know(&facts, q.k, deadOwner)
	v := onerun.Decide(facts)
	if v.Reason != "" {
		return q.refuse(t, v, f.token == 0)
	}
	return q.grantOn(t, v, st.Run, f)
}

// sqlPutBack makes the row of a lock again what the RUNNING attempt under it says, but for the token: its
// owner has lost its lease, and is told so. Whether a
// transaction has made sure of it nobody knows any more, so one may have.
const sqlPutBack = `UPDATE onerun_lock l JOIN onerun_run r JOIN onerun_attempt a
	SET l.token = GREATEST(l.token, a.token) + 1, l.owner = a.owner, l.run_id = a.run_id, l.attempt = a.attempt, l.ttl = a.ttl, l.expires_at = ? + a.ttl,
		l.on_crash = a.on_crash, l.acquired_at = a.started_at, l.worker_id = a.worker_id, l.host = a.host, l.pid = a.pid, l.stop = NULL, l.fenced = TRUE
	WHERE l.namespace = ? AND l."lock" = ? AND r.run_id = ? AND a.run_id = r.run_id AND a.attempt = r.attempt`

// again answers a claim that has won already: its reply was lost.
func (q *question) again(t *tx, f found) error {
	if h := q.k.Held; h != nil { // it comes back for its grant when nobody is in the way
		v := onerun.Verdict{Reason: onerun.RefusedLocked, Holder: *h}
		if q.k.HeldStale {
			v.Reason = onerun.RefusedStale
		}
		return q.refuse(t, v, false)
	}
	g := onerun.Grant{At: t.now, Adopted: true, Lease: onerun.Lease{
		Namespace: q.Namespace, Lock: q.Lock, Owner: q.Owner, Token: f.token, TTL: sqlledger.Micro(or(f.left)),
	}}
	switch found, err := t.runs("WHERE r.run_id = ? AND a.owner = ?", f.leaseRun, q.Owner); {
	case err != nil:
		return err
	case f.leaseRun == "" && q.Job != "":
		return fmt.Errorf("%w: its owner id holds the lock alone already, and an owner id is for one acquisition", onerun.ErrUsage)
	case len(found) == 1 && (found[0].Job != q.Job || found[0].Partition != q.Partition):
		return fmt.Errorf("%w: its owner id holds the lock for another run, and an owner id is for one acquisition", onerun.ErrUsage)
	case len(found) == 1:
		g.Run = found[0].Seen()
		g.Lease.RunID, g.Lease.Attempt = g.Run.RunID, g.Run.Attempt
	default:
		g.Run = aloneRun(g.Lease, q.worker, fromMicros(f.acquired))
	}
	q.answer.grant = g
	return t.exec(commit)
}

// refuse records a refusal in the one row of its kind, unless its caller asks again. One leaves
// no row of a lock behind that nobody ever had.
func (q *question) refuse(t *tx, v onerun.Verdict, made bool) error {
	ref := sqlledger.Refusal(q.Claim, v, t.now)
	b := &batch{}
	if made {
		b.add(`DELETE FROM onerun_lock WHERE namespace = ? AND "lock" = ? AND owner IS NULL AND token = 0`, q.Namespace, q.Lock)
	}
	err := t.record(ref, q.Claim, v, b)
	q.answer.refused = ref
	return err
}

// record counts a refusal, if it is to be, and commits.
func (t *tx) record(ref *onerun.Refusal, c onerun.Claim, v onerun.Verdict, b *batch) error {
	counted := c.Job != "" && !(c.Asking && (v.Reason == onerun.RefusedRunning || v.Reason == onerun.RefusedLocked))
	if !counted {
		b.add(commit)
		return t.run(b)
	}
	id := sqlledger.Clean(v.Holder.ID())
	hash := holderHash(id)
	b.add(`INSERT INTO onerun_skip (namespace, job, "key", reason, holder_hash, holder, detail, count, first_at, last_at) VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)
		ON DUPLICATE KEY UPDATE count = count + 1, last_at = GREATEST(last_at, VALUES(last_at)), detail = VALUES(detail)`,
		c.Namespace, c.Job, c.Key(), v.Reason, hash, id, v.Holder.String(), micros(t.now), micros(t.now))
	b.add(`SELECT count FROM onerun_skip WHERE namespace = ? AND job = ? AND "key" = ? AND reason = ? AND holder_hash = ?`, c.Namespace, c.Job, c.Key(), v.Reason, hash)
	b.add(commit)
	return t.row(b.text.String(), b.args...).Scan(&ref.Count)
}

// holderHash is what a holder's id is found by: SHA2(id, 256) of the server.
func holderHash(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:]
}

// busy answers a claim that waited in vain for a row: somebody has it in hand for long, such as
// a transaction that has made sure of its lease and is about to commit. Whoever holds the lock
// stands in the way then, whether its lease is over or not. Where nobody does, it isn't decided:
// errHeldUp.
func (s *Store) busy(ctx context.Context, q *question) error {
	var refused *onerun.Refusal
	err := s.read(ctx, "claim", func(t *tx) error {
		refused = nil
		st, err := sqlledger.ReadState(t, q.Claim)
		if err != nil {
			return err
		}
		if st.Lock != nil && st.Lock.Owner == q.Owner { // its own grant, whose reply was lost: it asks again
			return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "claim", Path: s.String(), Err: errors.New(s.masked(words(q.waited))), Do: "try again"}
		}
		f := st.Facts(t.now)
		f.RunStale, f.LockStale = false, false
		st.Hold(&f, q.k)
		v := onerun.Decide(f)
		if v.Reason == "" { // has the owner ended, and a transaction of its hasn't?
			var fenced bool
			err := t.row(`SELECT fenced FROM onerun_lock WHERE namespace = ? AND "lock" = ?`, q.Namespace, q.Lock).Scan(&fenced)
			if err != nil && !noRows(err) {
				return err
			}
			if !fenced {
				return nil
			}
			v = onerun.Verdict{Reason: onerun.RefusedLocked, Holder: onerun.Holder{Name: q.Lock.Name(), Detail: "a transaction that was sure of this lock isn't over"}}
		}
		refused = sqlledger.Refusal(q.Claim, v, t.now)
		return nil
	})
	switch {
	case err != nil:
		return err
	case refused == nil:
		return errHeldUp
	case q.Job == "" || q.Asking && (refused.Reason == onerun.RefusedRunning || refused.Reason == onerun.RefusedLocked):
		return refused
	}
	err = s.write(ctx, "claim", func(t *tx) error {
		return t.record(refused, q.Claim, onerun.Verdict{Reason: refused.Reason, Holder: refused.Holder}, &batch{})
	})
	if err != nil {
		return err
	}
	return refused
}
