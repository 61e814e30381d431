package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Claim implements onerun.Claimer.
func (s *Store) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	return s.ClaimKnowing(ctx, c, onerun.HostKnowledge{})
}

// ClaimKnowing implements onerun.HostClaimer, in two round trips where nothing is in the way.
func (s *Store) ClaimKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	if err := check(c); err != nil {
		return onerun.Grant{}, err
	}
	text := ""
	if len(c.Labels) > 0 {
		var err error
		if text, err = encode(c.Labels); err != nil {
			return onerun.Grant{}, fmt.Errorf("%w: the labels can't be kept: %w", onerun.ErrUsage, err)
		}
	}
	c.TTL, c.OnCrash, c.Retries = cmp.Or(c.TTL, onerun.DefaultTTL), cmp.Or(c.OnCrash, onerun.CrashAuto), sqlledger.Within(c.Retries)
	q := &question{Claim: c, k: k, s: s, ttl: sqlledger.CeilMicros(c.TTL), labels: text, worker: s.worker(c.WorkerLabel)}
	err := s.ask(ctx, q)
	for i := 0; errors.Is(err, errHeldUp) && ctx.Err() == nil && i < patience; i++ {
		err = s.ask(ctx, q)
	}
	if errors.Is(err, errHeldUp) || q.waited != nil && errors.Is(err, context.DeadlineExceeded) { // that is why it took so long
		err = q.waited
	}
	if err != nil {
		return onerun.Grant{}, s.explain("claim", err)
	}
	s.hook("claimed")
	q.closed = append(q.closed, q.answer.closed...)
	if ref := q.answer.refused; ref != nil {
		ref.Closed = q.closed
		return onerun.Grant{}, ref
	}
	q.answer.grant.TakenOver = q.closed
	return q.answer.grant, nil
}

// errHeldUp: a row was in somebody's hand for longer than a wait lasts, and nobody is known who
// stands in the way of the claim.
var errHeldUp = errors.New("a row was in somebody's hand for long")

// patience is how often a claim that was held up is asked again, where its caller has no limit.
const patience = 12

// ask asks the server, for as long as the claim only meets others.
func (s *Store) ask(ctx context.Context, q *question) error {
	held := false
	err := s.prepared(ctx, func() error {
		s.hook("send the claim")
		q.answer, held = answer{}, false
		if err := s.ready(ctx); err != nil {
			return err
		}
		return s.connected(ctx, func(conn *sql.Conn) error {
			t := &tx{ctx: ctx, conn: conn}
			err := q.decide(t)
			if err == nil {
				return nil
			}
			t.rollback()
			if code(err) == errLockTimeout { // somebody has a row for long
				q.waited, held = err, true
				return nil
			}
			return &unbegun{q.met(err)} // by the same owner id it may be asked again
		})
	})
	if err == nil && held {
		err = s.busy(ctx, q)
	}
	return err
}

// check refuses a malformed claim.
func check(c onerun.Claim) error {
	var order error
	if c.Order != onerun.OrderAny {
		order = noOrder(c.Order)
	}
	return sqlledger.CheckClaim(c, order)
}

// noOrder refuses an order: this store keeps none among those that wait.
func noOrder(o onerun.Order) error {
	if o == onerun.OrderFIFO {
		return fmt.Errorf("%w: this store keeps no order among those that wait; the embedded one and PostgreSQL do", onerun.ErrUsage)
	}
	return sqlledger.UnknownOrder(o)
}

// question is a claim as it is decided.
type question struct {
	onerun.Claim
	k      onerun.HostKnowledge
	s      *Store
	ttl    int64 // in microseconds
	labels string
	worker onerun.Worker

	thorough bool            // what is usually not there is asked for before anything is written
	hint     onerun.LockName // another lock under which the key runs, as far as one can tell before
	answer   answer
	waited   error        // of the last wait for a row that was in vain
	closed   []onerun.Run // by tries that then had to begin anew
}

// answer is what became of a claim.
type answer struct {
	grant   onerun.Grant
	refused *onerun.Refusal
	closed  []onerun.Run
}

// found is the first look at what a claim is about, with the rows of the locks in hand.
type found struct {
	now            int64
	token          int64
	owner          string
	fenced         bool
	leaseRun       string          // the run that holds the lock
	acquired, left *int64          // since when, and for how long at a time
	status         string          // of the key's run; "": there is none
	lock           onerun.LockName // under which it is
}

const (
	sqlFound = "SELECT " + now + `, l.token, COALESCE(l.owner, ''), l.fenced, l.ttl, l.acquired_at, COALESCE(l.run_id, ''), `
	sqlNoKey = `'', '' FROM onerun_lock l WHERE l.namespace = ? AND l."lock" = ?`
	sqlOfKey = `COALESCE(r.status, ''), COALESCE(r."lock", '') FROM onerun_lock l LEFT JOIN onerun_run r ON r.namespace = ? AND r."key" = ?
		WHERE l.namespace = ? AND l."lock" = ?`
)

const (
	// The row of a lock must be there to be waited for. It is made, or taken in hand, by one
	// statement that takes an exclusive lock either way: two that found no row, and then both
	// made one, would wait crosswise.
	sqlWantLock = `INSERT INTO onerun_lock (namespace, "lock", token) VALUES (?, ?, 0) ON DUPLICATE KEY UPDATE token = token`
	sqlTakeLock = `UPDATE onerun_lock SET token = token WHERE namespace = ? AND "lock" = ?`
)

// look takes the rows of the locks in one order, and reads what there is by a statement of its
// own after that: in one with the wait, a claim that waited would decide on what was before it.
func (q *question) look(t *tx) (f found, err error) {
	b := &batch{}
	b.add(begin)
	names := []onerun.LockName{q.Lock}
	if q.hint != "" {
		names = append(names, q.hint)
	}
	slices.Sort(names)
	for _, name := range names {
		b.add(sqlWantLock, q.Namespace, name)
	}
	if q.Partition == "" {
		b.add(sqlFound+sqlNoKey, q.Namespace, q.Lock)
	} else {
		b.add(sqlFound+sqlOfKey, q.Namespace, q.Key(), q.Namespace, q.Lock)
	}
	err = t.row(b.text.String(), b.args...).Scan(&f.now, &f.token, &f.owner, &f.fenced, &f.left, &f.acquired, &f.leaseRun, &f.status, &f.lock)
	return f, err
}

// decide decides on a claim in one transaction. In READ COMMITTED every statement sees what was
// committed before it began.
func (q *question) decide(t *tx) error {
	f, err := q.look(t)
	if err != nil {
		return err
	}
	t.now = fromMicros(&f.now)
	if f.status == string(onerun.Running) && f.lock != q.Lock && f.lock != q.hint {
		q.hint = f.lock // never wait for more inside this transaction
		return errAgain
	}
	// A lock alone whose row is new may be one whose row was deleted under a run; a run finds that
	// out as it is written down.
	plain := f.owner == "" && f.status == "" && q.k.Held == nil && !(q.Job == "" && f.token == 0)
	if plain && !q.thorough {
		return q.grantNew(t, f)
	}
	return q.weigh(t, f)
}

// met tells a claim that met another one halfway, or has to look again more thoroughly, from one
// that can't be.
func (q *question) met(err error) error {
	switch {
	case duplicate(err, "PRIMARY"):
		return fmt.Errorf("%w: the run id %s is taken", onerun.ErrUsage, q.RunID)
	case code(err) == errNull, duplicate(err, "onerun_run_key"), duplicate(err, "onerun_run_running") && !q.thorough:
		q.thorough = true
		return errAgain
	}
	return err
}
