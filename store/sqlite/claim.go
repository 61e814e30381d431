package sqlite

import (
	"cmp"
	"context"
	_ "embed" // queries
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

//go:embed sql/claim_state.sql
var sqlClaimState string

//go:embed sql/insert_run.sql
var sqlInsertRun string

//go:embed sql/begin_again.sql
var sqlBeginAgain string

//go:embed sql/insert_attempt.sql
var sqlInsertAttempt string

//go:embed sql/take_lock.sql
var sqlTakeLock string

//go:embed sql/count_skip.sql
var sqlCountSkip string

// betweenSteps is how long a busy lock without a RUNNING run is asked again: somebody is
// between taking the lock and writing the claim down, or being refused, and that takes
// as long as a busy disk needs for a commit.
const betweenSteps = time.Second

// Claim implements onerun.Claimer.
func (s *Store) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	return s.claim(ctx, c, false, nil)
}

// ClaimWaiting implements onerun.WaitingClaimer: it waits in flock(2), and decides
// with the lock in hand. What no lock can change (a key that has succeeded) is
// answered at once.
func (s *Store) ClaimWaiting(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	if c.Order == onerun.OrderFIFO {
		return s.claimInLine(ctx, c)
	}
	return s.claimFree(ctx, c, nil)
}

// claimFree is ClaimWaiting for who may have a place in line.
func (s *Store) claimFree(ctx context.Context, c onerun.Claim, place *filelock.Place) (onerun.Grant, error) {
	if c.Job != "" {
		g, err := s.claim(ctx, c, false, place)
		var refused *onerun.Refusal
		if !errors.As(err, &refused) || refused.Reason != onerun.RefusedRunning && refused.Reason != onerun.RefusedLocked {
			return g, err
		}
	}
	return s.claim(ctx, c, true, place)
}

func (s *Store) claim(ctx context.Context, c onerun.Claim, wait bool, place *filelock.Place) (onerun.Grant, error) {
	switch {
	case c.Lock == "" || c.Owner == "" || (c.Job != "" && c.RunID == ""):
		return onerun.Grant{}, fmt.Errorf("%w: a claim needs a lock, an owner and a run id", onerun.ErrUsage)
	case c.Job == "" && c.Partition != "":
		return onerun.Grant{}, fmt.Errorf("%w: a partition needs a job", onerun.ErrUsage)
	case c.Order != onerun.OrderAny && c.Order != onerun.OrderFIFO:
		return onerun.Grant{}, fmt.Errorf("%w: order %q is unknown", onerun.ErrUsage, c.Order)
	}
	if h := s.Holding(c.Owner); h != nil {
		if h.Lease.Namespace != c.Namespace || h.Lease.Lock != c.Lock || (h.Lease.RunID == "") != (c.Job == "") {
			return onerun.Grant{}, fmt.Errorf("%w: owner id %s holds %s already, and an owner id is for one acquisition", onerun.ErrUsage, c.Owner, h.Lease.Lock)
		}
		return s.again(ctx, c, h)
	}
	c.TTL = 0 // the lock ends with its holder
	var delivered []onerun.Delivery
	if c.Job != "" {
		delivered = s.deliverWaiting(ctx)
	}
	until := time.Now().Add(betweenSteps)
	for next := 2 * time.Millisecond; ; next = min(2*next, 50*time.Millisecond) {
		lock, held, err := s.dir.Acquire(ctx, s.request(c, wait, place))
		if err != nil {
			if ctx.Err() != nil {
				err = &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "wait for the lock", Err: ctx.Err()}
			}
			return onerun.Grant{}, err
		}
		if held == nil {
			g, err := s.claimHolding(ctx, c, lock)
			if err != nil {
				_ = lock.Release()
			}
			var refused *onerun.Refusal
			if errors.As(err, &refused) {
				refused.Delivered = append(delivered, refused.Delivered...)
			}
			g.Delivered = append(delivered, g.Delivered...)
			return g, err
		}
		refuse := s.refuseHeld
		if c.Job == "" {
			refuse = s.refuseAlone
		}
		ref, err := refuse(ctx, c, held, held.Behind || time.Now().After(until))
		if err != nil {
			return onerun.Grant{}, err
		}
		if ref != nil {
			ref.Delivered = append(delivered, ref.Delivered...)
			return onerun.Grant{}, ref
		}
		if err := pause(ctx, next); err != nil {
			return onerun.Grant{}, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "claim", Err: ctx.Err()}
	}
}

func (s *Store) request(c onerun.Claim, wait bool, place *filelock.Place) filelock.Request {
	return filelock.Request{
		Namespace: c.Namespace, Lock: c.Lock, Mode: c.LockMode, Owner: c.Owner, Job: c.Job,
		VersionLabel: c.VersionLabel, Wait: wait, InLine: c.Order == onerun.OrderFIFO, Place: place,
	}
}

// again answers a claim that this process has won already.
func (s *Store) again(ctx context.Context, c onerun.Claim, h *filelock.Holding) (onerun.Grant, error) {
	g := onerun.Grant{Lease: h.Lease, At: time.Now(), LockPath: h.Lock.Path, Adopted: true}
	if c.Job == "" {
		g.Run = lockRun(h.Lease, time.Now())
		return g, nil
	}
	runs, err := s.Runs(ctx, onerun.Query{Namespace: c.Namespace, RunID: h.Lease.RunID})
	if err == nil && len(runs) != 1 {
		err = errVanished
	}
	if err != nil {
		return onerun.Grant{}, err
	}
	g.Run = runs[0]
	return g, nil
}

// claimHolding decides with the lock in hand. An error of any kind leaves the lock
// to the caller to free.
func (s *Store) claimHolding(ctx context.Context, c onerun.Claim, lock *filelock.Lock) (onerun.Grant, error) {
	found := viewOf(lock)
	if c.Job == "" && s.needsNoLedger(lock) {
		return s.lockAlone(c, lock, found, 0)
	}
	var g onerun.Grant
	var refused *onerun.Refusal
	var h *filelock.Holding
	var last int64
	var closed, closing []onerun.Run // in all, and by this transaction
	var delivered, delivering []onerun.Delivery
	settled := false
	decide := func(t *tx) error {
		g, refused, h = onerun.Grant{}, nil, nil
		st, err := s.settle(t, c, found)
		if err != nil {
			return err
		}
		settled, closing, delivering = true, st.closed, st.delivered
		if c.Job == "" { // what a run left of this lock is settled, or stands in the way
			last = st.lastToken
			if v := onerun.Decide(st.facts(t.now)); v.Reason != "" {
				refused = refusal(c, v, t.now)
			}
			return nil
		}
		if own := st.holder; own != nil && own.Owner == c.Owner { // committed, but the reply was lost
			g.Adopted, g.Run = true, own.Run
		} else {
			v := onerun.Decide(st.facts(t.now))
			if v.Reason != "" {
				refused, err = t.refuse(c, v)
				return err
			}
			if len(closing)+len(delivering) > 0 {
				// Our note is to take the place of the one that tells what became of the
				// dead: that must be in the ledger for good before, whatever becomes of us.
				settled = false
				return nil
			}
			if g, err = t.grant(c, v, st, s.worker(c), s.lockDir); err != nil {
				return err
			}
		}
		g.At, g.LockPath = t.now, lock.Path
		g.Lease = onerun.Lease{
			Namespace: c.Namespace, Lock: c.Lock, Owner: c.Owner, Token: g.Run.Token,
			RunID: g.Run.RunID, Attempt: g.Run.Attempt,
		}
		s.step("note starting")
		if err := lock.Write(note(c, g)); err != nil {
			return err
		}
		h = &filelock.Holding{Lock: lock, Lease: g.Lease, Mode: c.LockMode}
		s.step("commit the claim")
		return nil
	}
	for !settled {
		s.step("begin")
		if err := s.write(ctx, "claim", decide); err != nil {
			if h != nil {
				s.takeBack(ctx, h)
			}
			return onerun.Grant{}, err
		}
		closed, delivered = append(closed, closing...), append(delivered, delivering...)
	}
	switch {
	case refused != nil:
		refused.Closed, refused.Delivered = closed, delivered
		s.step("refused")
		return onerun.Grant{}, refused
	case c.Job == "":
		return s.lockAlone(c, lock, view{}, last)
	}
	g.TakenOver, g.Delivered = closed, delivered
	s.Hold(h)
	s.step("claimed")
	if d := s.opened(); d != nil { // what the end will need is compiled while the job works
		go d.ready(context.WithoutCancel(ctx), sqlEndAttempt, sqlEndRun, sqlFreeLock)
	}
	return g, nil
}

// takeBack clears the note of a claim that the ledger could not take, or else it would
// name a living process for as long as that lives. If the claim may have been committed
// after all, the note stays: it is needed then.
func (s *Store) takeBack(ctx context.Context, h *filelock.Holding) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var there bool
	err := s.read(ctx, "look for the claim", func(t *tx) error {
		return t.row("SELECT EXISTS (SELECT 1 FROM onerun_attempt WHERE run_id = ?1 AND attempt = ?2 AND owner = ?3)",
			h.Lease.RunID, h.Lease.Attempt, h.Lease.Owner).Scan(&there)
	})
	if err == nil && !there {
		_ = h.Lock.Clear()
	}
}

// needsNoLedger reports whether all that is known of a lock stands in its file: it was
// a lock alone the last time, or there is no ledger.
func (s *Store) needsNoLedger(lock *filelock.Lock) bool {
	if n := lock.Previous; n != nil {
		return n.RunID == ""
	}
	_, err := os.Lstat(s.path)
	return errors.Is(err, fs.ErrNotExist)
}

// lockAlone takes the lock without a ledger, if nothing is left of its last holder.
// last is the last token as far as the ledger was asked.
func (s *Store) lockAlone(c onerun.Claim, lock *filelock.Lock, found view, last int64) (onerun.Grant, error) {
	now := time.Now()
	if n := found.note; n != nil {
		last = max(last, n.Token)
		if f := found.fate(); f.liveness != onerun.Dead {
			v := onerun.Verdict{Reason: onerun.RefusedLocked, Holder: holderOf(lock.Path, n, f.evidence)}
			if f.liveness == onerun.Unknown {
				v.Reason = onerun.RefusedStale
			}
			return onerun.Grant{}, refusal(c, v, now)
		}
	}
	lease := onerun.Lease{Namespace: c.Namespace, Lock: c.Lock, Owner: c.Owner, Token: onerun.NextToken(last, now)}
	g := onerun.Grant{Lease: lease, Run: lockRun(lease, now), At: now, LockPath: lock.Path}
	g.Run.Worker = s.worker(c)
	h := &filelock.Holding{Lock: lock, Lease: lease, Mode: c.LockMode}
	if err := lock.Write(note(c, g)); err != nil {
		return onerun.Grant{}, err
	}
	s.Hold(h)
	s.step("claimed")
	return g, nil
}

// lockRun stands for the run of a claim of the lock alone, which has none.
func lockRun(l onerun.Lease, now time.Time) onerun.Run {
	return onerun.Run{
		Namespace: l.Namespace, Lock: l.Lock,
		Execution: onerun.Execution{Owner: l.Owner, Token: l.Token, StartedAt: now},
	}
}

// refuseHeld refuses a claim whose lock somebody holds. It returns nil when the
// holder hasn't written its claim down yet, unless that has been waited for.
func (s *Store) refuseHeld(ctx context.Context, c onerun.Claim, held *filelock.Held, waited bool) (*onerun.Refusal, error) {
	var refused *onerun.Refusal
	refuse := func(t *tx) error {
		refused = nil
		st, err := s.settle(t, c, view{held: true, note: held.Note, liveness: held.Liveness, evidence: held.Evidence, unreadable: held.Unreadable})
		if err != nil {
			return err
		}
		f := st.facts(t.now)
		v := onerun.Decide(f)
		if v.Reason == "" { // nobody is RUNNING under the lock that somebody holds
			if n := held.Note; !waited && !held.Unreadable && (n == nil || n.RunID != "" || filelock.Judge(*n).Liveness == onerun.Dead) {
				return nil
			}
			h := holderOf(held.Path, held.Note, held.Evidence)
			f.LockHolder, f.LockStale = &h, reasonHeld(held) == onerun.RefusedStale
			v = onerun.Decide(f)
		}
		refused, err = t.refuse(c, v)
		refused.Closed, refused.Delivered = st.closed, st.delivered
		return err
	}
	err := s.lightly(ctx, "record a skip", refuse)
	if errors.Is(err, errLazy) { // the key's owner under another lock is dead, and is closed
		err = s.write(ctx, "record a skip", refuse)
	}
	return refused, err
}

// refuseAlone refuses a claim of a lock alone that somebody holds. It returns nil when
// that is somebody between two steps, unless that has been waited for.
func (s *Store) refuseAlone(ctx context.Context, c onerun.Claim, held *filelock.Held, waited bool) (*onerun.Refusal, error) {
	n := held.Note
	if !waited && !held.Unreadable && (n == nil || filelock.Judge(*n).Liveness == onerun.Dead) {
		return nil, nil
	}
	v := onerun.Verdict{Reason: reasonHeld(held), Holder: holderOf(held.Path, n, held.Evidence)}
	if n != nil && n.RunID != "" {
		// The ledger calls the run by its name. If it can't be asked, the note's words will do.
		_ = s.read(ctx, "read the holder", func(t *tx) error {
			found, err := t.runs("WHERE r.namespace = ?1 AND r.run_id = ?2", c.Namespace, n.RunID)
			if err == nil && len(found) == 1 && found[0].Attempt == n.Attempt {
				found[0].Evidence = held.Evidence
				v.Holder = found[0].Run.Holder()
			}
			return err
		})
	}
	return refusal(c, v, time.Now()), nil
}

func reasonHeld(held *filelock.Held) onerun.Reason {
	if held.Unreadable || held.Liveness == onerun.Unknown {
		return onerun.RefusedStale
	}
	return onerun.RefusedLocked
}

// holderOf describes whoever a lock file names.
func holderOf(path string, n *filelock.Note, evidence string) onerun.Holder {
	if n == nil {
		return onerun.Holder{Name: path, Detail: evidence}
	}
	name := n.Name
	if name == "" {
		name = path
	}
	return onerun.Holder{
		RunID: n.RunID, Name: name, Attempt: n.Attempt, Worker: n.Worker(), Since: n.StartedAt, Detail: evidence,
	}
}

func refusal(c onerun.Claim, v onerun.Verdict, now time.Time) *onerun.Refusal {
	return &onerun.Refusal{
		Reason: v.Reason, Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock,
		Holder: v.Holder, RetryAt: v.RetryAt, At: now,
	}
}

// refuse records a refusal in the one row of its kind.
func (t *tx) refuse(c onerun.Claim, v onerun.Verdict) (*onerun.Refusal, error) {
	ref := refusal(c, v, t.now)
	if c.Asking && (v.Reason == onerun.RefusedRunning || v.Reason == onerun.RefusedLocked) {
		return ref, nil
	}
	err := t.row(sqlCountSkip, c.Namespace, c.Job, c.Key(), v.Reason, v.Holder.ID(), v.Holder.String(), t.now.UnixMicro()).Scan(&ref.Count)
	return ref, err
}

// grant writes a won claim down.
func (t *tx) grant(c onerun.Claim, v onerun.Verdict, st *settled, w onerun.Worker, lockDir string) (onerun.Grant, error) {
	now, token := t.now, onerun.NextToken(st.lastToken, t.now)
	labels, err := encodeLabels(c.Labels)
	if err != nil {
		return onerun.Grant{}, err
	}
	run := onerun.Run{
		RunID: c.RunID, Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, BusinessDate: c.BusinessDate,
		ScheduledAt: c.ScheduledAt,
	}
	if st.run == nil {
		err = t.exec(sqlInsertRun, c.RunID, c.Namespace, c.Job, null(c.Partition), null(c.Key()), null(c.BusinessDate), c.Lock,
			onerun.Running, v.Attempt, micros(c.ScheduledAt), now.UnixMicro(), nil, token, null(w.String()), null(w.Host), null(w.PID),
			null(c.StaleAfter.Microseconds()), null(c.VersionLabel), labels)
	} else {
		c.TwoPeople = c.TwoPeople || st.run.TwoPeople // what was once asked of its reruns stays
		run = st.run.Run                              // its business date and its scheduled instant stay what they were
		var n int64
		n, err = t.changed(sqlBeginAgain, run.RunID, run.Status, run.Attempt, c.Lock, now.UnixMicro(), token, null(w.String()),
			null(w.Host), null(w.PID), null(c.StaleAfter.Microseconds()), null(c.VersionLabel), labels)
		if err == nil && n != 1 {
			err = errChanged
		}
	}
	if err != nil {
		return onerun.Grant{}, err
	}
	run.Status, run.Attempt, run.Lock, run.NextRetryAt = onerun.Running, v.Attempt, c.Lock, time.Time{}
	run.VersionLabel, run.Labels, run.Evidence, run.Liveness, run.Stale = c.VersionLabel, c.Labels, "", "", false
	run.Execution = onerun.Execution{
		Owner: c.Owner, Token: token, Worker: w, StartedAt: now, StaleAfter: c.StaleAfter, OnCrash: cmp.Or(c.OnCrash, onerun.CrashAuto), TwoPeople: c.TwoPeople,
	}
	if v.Spend != nil {
		n, err := t.changed("UPDATE onerun_approval SET used_at = ?2, used_attempt = ?3 WHERE id = ?1 AND used_at IS NULL", v.Spend.ID, now.UnixMicro(), v.Attempt)
		if err == nil && n != 1 {
			err = errChanged
		}
		if err != nil {
			return onerun.Grant{}, err
		}
	}
	err = t.exec(sqlInsertAttempt, run.RunID, v.Attempt, c.Owner, token, c.Lock, lockDir, null(w.String()), null(w.Host), null(w.Machine), null(w.Boot),
		int64(w.PIDNS), int64(w.TimeNS), w.PID, int64(w.StartTicks), c.InProcess, cmp.Or(c.OnCrash, onerun.CrashAuto), null(c.StaleAfter.Microseconds()),
		c.Retries, c.BackoffMin.Microseconds(), c.BackoffMax.Microseconds(), c.RetryLost, now.UnixMicro(), c.TwoPeople)
	if err == nil {
		err = t.exec(sqlTakeLock, c.Namespace, c.Lock, token, c.Owner, run.RunID, v.Attempt)
	}
	return onerun.Grant{Run: run}, err
}

func encodeLabels(labels map[string]string) (any, error) {
	if len(labels) == 0 {
		return nil, nil
	}
	b, err := json.Marshal(labels)
	return string(b), err
}

// worker is this process, as the claim wants it to be called.
func (s *Store) worker(c onerun.Claim) onerun.Worker { return filelock.ThisWorker(c.WorkerLabel) }

// note is what the lock file says while the claim lasts.
func note(c onerun.Claim, g onerun.Grant) filelock.Note {
	state := filelock.StateStarting
	if c.InProcess {
		state = filelock.StateInProcess
	}
	n := workerNote(g.Run.Worker, state)
	n.Namespace, n.Kind, n.Name = c.Namespace, c.Lock.Kind(), c.Lock.Name()
	if n.Kind == "key" {
		n.Name = c.Job // never a partition
	}
	n.Owner, n.Token, n.VersionLabel = c.Owner, g.Lease.Token, c.VersionLabel
	n.RunID, n.Attempt, n.StartedAt = g.Lease.RunID, g.Lease.Attempt, g.At
	return n
}
