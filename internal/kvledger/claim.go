package kvledger

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// Claim implements onerun.Claimer.
func (l *Ledger) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	return l.ClaimKnowing(ctx, c, onerun.HostKnowledge{})
}

// ClaimKnowing implements onerun.HostClaimer.
func (l *Ledger) ClaimKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (g onerun.Grant, err error) {
	err = l.decide(ctx, "claim", l.guess(c), func(t *tx) error {
		c, err := l.check(c)
		if err != nil {
			return err
		}
		g, err = t.claim(c, k)
		return err
	})
	if err != nil {
		return onerun.Grant{}, err
	}
	return g, nil
}

// check refuses a malformed claim and fills in what a policy left open.
func (l *Ledger) check(c onerun.Claim) (onerun.Claim, error) {
	switch {
	case c.Namespace == "" || c.Lock == "" || c.Owner == "":
		return c, fmt.Errorf("%w: a claim needs a namespace, a lock and an owner", onerun.ErrUsage)
	case c.Job == "" && c.Partition != "":
		return c, fmt.Errorf("%w: a claim of partition %s needs a job", onerun.ErrUsage, c.Partition)
	case c.Job != "" && c.RunID == "":
		return c, fmt.Errorf("%w: a claim of a job needs a run id", onerun.ErrUsage)
	case c.Order != onerun.OrderAny:
		return c, l.noOrder()
	case c.TTL < 0 || c.TTL > onerun.MaxTTL:
		return c, fmt.Errorf("%w: the lease of %s is out of range", onerun.ErrUsage, c.TTL)
	}
	if c.TTL == 0 {
		c.TTL = onerun.DefaultTTL
	}
	if c.OnCrash == "" {
		c.OnCrash = onerun.CrashAuto
	}
	c.Labels = maps.Clone(c.Labels)
	return c, nil
}

// noOrder: whoever wants a lock here asks again and again, and nobody knows who waits.
func (l *Ledger) noOrder() error {
	return fmt.Errorf("%w: a store on %s keeps no order among those who wait for a lock", onerun.ErrUsage, l.what)
}

// scene is what a claim is decided on.
type scene struct {
	c   onerun.Claim
	k   onerun.HostKnowledge
	now time.Time

	lock    held
	run     *runRecord       // of the key; nil: none, or unkeyed
	runLock held             // of that run, if it is RUNNING and has another
	holder  *runRecord       // the run that holds the lock; nil: none, or a lock alone
	paused  *onerun.JobState // nil: not paused
}

// look reads what a claim is decided on: in one round trip if the key has no run and the lock no
// owner, else in two, or in three if the run is RUNNING under another lock.
func (t *tx) look(c onerun.Claim, k onerun.HostKnowledge) (s scene, err error) {
	s.c, s.k = c, k
	keys := []string{keyLock(c.Namespace, c.Lock), keyLife(c.Namespace, c.Lock)}
	if c.Job != "" {
		keys = append(keys, keyJob(c.Namespace, c.Job))
		if c.RunID != "" {
			keys = append(keys, keyRun(c.RunID))
		}
	}
	if c.Key() != "" {
		keys = append(keys, keyOf(c.Namespace, c.Job, c.Partition))
	}
	if err := t.read(keys...); err != nil {
		return s, err
	}
	if s.lock, err = t.lock(c.Namespace, c.Lock); err != nil {
		return s, err
	}
	var key *keyRecord
	if c.Key() != "" {
		if key, err = load[keyRecord](t, keyOf(c.Namespace, c.Job, c.Partition)); err != nil {
			return s, err
		}
	}
	var more []string
	if key != nil {
		more = append(more, keyRun(key.RunID))
	}
	if s.lock.owner() != "" && s.lock.RunID != "" {
		more = append(more, keyRun(s.lock.RunID))
	}
	if err := t.read(more...); err != nil {
		return s, err
	}
	if err := t.clock(); err != nil { // later than what was read of the lock
		return s, err
	}
	s.now = t.now
	return s, s.load(t, key)
}

// load takes the records that were read.
func (s *scene) load(t *tx, key *keyRecord) (err error) {
	c := s.c
	if c.Job != "" {
		if s.paused, err = load[onerun.JobState](t, keyJob(c.Namespace, c.Job)); err != nil {
			return err
		}
	}
	if s.lock.owner() != "" && s.lock.RunID != "" {
		if s.holder, err = load[runRecord](t, keyRun(s.lock.RunID)); err != nil {
			return err
		}
	}
	if key == nil {
		return nil
	}
	if s.run, err = load[runRecord](t, keyRun(key.RunID)); err != nil || s.run == nil {
		return err
	}
	if s.lockOfRun() == &s.runLock {
		s.runLock, err = t.lock(c.Namespace, s.run.Run.Lock)
	}
	return err
}

func (t *tx) claim(c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	s, err := t.look(c, k)
	if err != nil {
		return onerun.Grant{}, err
	}
	if s.lock.owner() == c.Owner && s.lock.alive && !s.lock.vanished {
		if k.Held != nil { // it comes back for its grant when nobody is in the way
			return onerun.Grant{}, t.refuse(c, onerun.Verdict{Reason: reasonHeld(k.HeldStale), Holder: *k.Held}, nil)
		}
		return t.adopt(s)
	}
	if c.Job != "" {
		switch old, err := load[runRecord](t, keyRun(c.RunID)); {
		case err != nil:
			return onerun.Grant{}, err
		case old == nil || c.Partition != "" && old.Run.Namespace == c.Namespace && old.Run.Key() == c.Key():
		case old.Run.Owner == c.Owner:
			return onerun.Grant{}, fmt.Errorf("%w: the claim was granted, and its lease ran out before that was heard of", onerun.ErrLost)
		default:
			return onerun.Grant{}, fmt.Errorf("%w: the run id %s is taken by %s", onerun.ErrUsage, c.RunID, old.Run.Name())
		}
	}
	taken, err := t.settle(&s)
	if err != nil {
		return onerun.Grant{}, err
	}
	v := onerun.Decide(s.facts())
	if v.Reason != "" {
		return onerun.Grant{}, t.refuse(c, v, taken)
	}
	g, err := t.grant(&s, v)
	g.TakenOver = taken
	return g, err
}

// adopt gives a grant again whose reply was lost.
func (t *tx) adopt(s scene) (onerun.Grant, error) {
	g := onerun.Grant{Lease: s.lock.lease(), At: s.now, Adopted: true, Run: aloneRun(s.lock)}
	switch _, there, err := t.runOf(g.Lease); {
	case err != nil:
		return onerun.Grant{}, err
	case !there:
		return onerun.Grant{}, errRunGone
	}
	if s.holder != nil {
		runs, err := t.shown(s.holder)
		if err != nil {
			return onerun.Grant{}, err
		}
		g.Run = runs[0]
	}
	return g, nil
}

func aloneRun(h held) onerun.Run {
	return onerun.Run{Namespace: h.Namespace, Lock: h.Lock, Execution: onerun.Execution{Owner: h.Owner, Token: h.Token, StartedAt: h.At}}
}

// settle closes what is dead: the lock's holder, and the key's owner under another
// lock. It is the same work whether the claim is granted afterwards or not.
func (t *tx) settle(s *scene) ([]onerun.Run, error) {
	var taken []onerun.Run
	end := func(r *runRecord, out onerun.Outcome, evidence string) error {
		if err := t.close(r, out, onerun.ByMachine); err != nil {
			return err
		}
		r.Run.Evidence = evidence
		if err := t.runEvent(r, onerun.EventTakenOver, onerun.Who{Reason: string(r.Run.Reason)}, evidence); err != nil {
			return err
		}
		t.putRun(r)
		taken = append(taken, r.Run)
		return nil
	}
	bury := func(h *held, r *runRecord) error {
		f := fateOf(*h, s.k)
		if f.evidence == "" || f.alive || h.vanished || !f.void && h.Policy.OnCrash == onerun.CrashManual {
			return nil
		}
		if r != nil {
			if err := end(r, f.end(), f.evidence); err != nil {
				return err
			}
		}
		t.free(h)
		return nil
	}
	if s.run != nil && s.holder != nil && s.run.Run.RunID == s.holder.Run.RunID {
		s.holder = s.run // one record, one change
	}
	lock := s.lockOfRun()
	if lock != nil && lock.owner() == "" {
		t.putBack(lock, s.run)
		if lock == &s.lock {
			s.holder = s.run
		}
	}
	if err := bury(&s.lock, s.holder); err != nil {
		return nil, err
	}
	switch {
	case lock == nil || s.run.Run.Status != onerun.Running:
	case lock.owner() == s.run.Run.Owner && lock != &s.lock:
		if err := bury(lock, s.run); err != nil {
			return nil, err
		}
	case lock.owner() != s.run.Run.Owner && s.run.Policy.OnCrash != onerun.CrashManual && (s.k.Held == nil || s.k.HeldOwner != s.run.Run.Owner):
		out := fate{}.end()
		out.Error = vanished // and others have it by now
		if err := end(s.run, out, vanished); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// lockOfRun is the lock of the key's run, if that is RUNNING; nil: it isn't.
func (s *scene) lockOfRun() *held {
	switch {
	case s.run == nil || s.run.Run.Status != onerun.Running:
		return nil
	case s.run.Run.Lock == s.c.Lock:
		return &s.lock
	}
	return &s.runLock
}

// putBack makes the lock of a RUNNING run anew that has vanished from the store. Its owner, who hears
// that it is lost, may be at work for as long as its lease; it isn't the owner by this one, which has
// another token.
func (t *tx) putBack(h *held, r *runRecord) {
	run := r.Run
	l := &lockRecord{
		Namespace: run.Namespace, Lock: run.Lock, Token: run.Token + 1, Owner: run.Owner, RunID: run.RunID, Attempt: run.Attempt,
		Policy: &r.Policy, At: run.StartedAt, Expires: t.now.Add(r.Policy.TTL),
	}
	if h.lockRecord != nil {
		l.Token = max(l.Token, h.Token+1)
	}
	t.put(keyLock(run.Namespace, run.Lock), l)
	t.putText(keyHeld(run.Namespace, run.Lock), string(run.Lock))
	t.putMortal(keyLife(run.Namespace, run.Lock), lifeRecord{Owner: run.Owner, Expires: l.Expires}, r.Policy.TTL)
	*h = held{lockRecord: l, alive: true}
}

// facts are what the claim table is applied to.
func (s *scene) facts() onerun.Facts {
	f := onerun.Facts{Now: s.now}
	if s.run != nil {
		run := s.run.Run
		f.Run = &run
		if h := s.lockOfRun(); h != nil {
			if run.Evidence = fateOf(*h, s.k).evidence; h.owner() != run.Owner {
				run.Evidence = vanished
			}
			f.RunStale = run.Evidence != ""
		}
		f.Approval = s.run.lastApproval()
	}
	if s.c.Job != "" {
		f.Paused = s.paused
	}
	if s.lock.owner() != "" && (s.run == nil || s.lock.RunID != s.run.Run.RunID) {
		h := s.lock.holder(s.holder)
		if evidence := fateOf(s.lock, s.k).evidence; evidence != "" {
			h.Detail, f.LockStale = evidence, true
		}
		f.LockHolder = &h
	}
	s.k.Stand(&f, s.lock.owner())
	return f
}

// holder describes who holds a lock.
func (h held) holder(run *runRecord) onerun.Holder {
	if run != nil {
		return run.Run.Holder()
	}
	return onerun.Holder{Name: h.Lock.Name(), Since: h.At, Detail: "owner " + h.Owner}
}

// grant writes a won claim down.
func (t *tx) grant(s *scene, v onerun.Verdict) (onerun.Grant, error) {
	c, last := s.c, int64(0)
	if s.lock.lockRecord != nil {
		last = s.lock.Token
	}
	expires := s.now.Add(c.TTL)
	l := &lockRecord{
		Namespace: c.Namespace, Lock: c.Lock, Token: onerun.NextToken(last, s.now),
		Owner: c.Owner, Policy: &c.Policy, At: s.now, Expires: expires,
	}
	g := onerun.Grant{At: s.now}
	warm := []string{keyLock(c.Namespace, c.Lock), keyLife(c.Namespace, c.Lock)}
	r := s.run
	if r != nil { // a lock that has vanished begins anew
		l.Token = max(l.Token, r.Run.Token+1)
	}
	if c.Job != "" {
		if r == nil {
			r = newRun(c, s.now)
			if c.Key() != "" {
				t.put(keyOf(c.Namespace, c.Job, c.Partition), keyRecord{RunID: r.Run.RunID})
			}
		}
		if v.Spend != nil {
			a := r.lastApproval()
			a.UsedAt, a.UsedBy = s.now, v.Attempt
		}
		c.TwoPeople = c.TwoPeople || r.Run.TwoPeople // what was once asked of its reruns stays
		t.begin(r, c, t.l.who(c.WorkerLabel), v.Attempt, l.Token, expires, s.now)
		l.RunID, l.Attempt = r.Run.RunID, v.Attempt
		t.putRun(r)
		warm = append(warm, keyRun(r.Run.RunID))
	} else {
		g.Run = aloneRun(held{lockRecord: l})
	}
	t.put(keyLock(c.Namespace, c.Lock), l)
	t.putText(keyHeld(c.Namespace, c.Lock), string(c.Lock))
	t.putMortal(keyLife(c.Namespace, c.Lock), lifeRecord{Owner: c.Owner, Expires: expires}, c.TTL)
	g.Lease = l.lease()
	entries, err := t.commit("claim")
	if err != nil {
		return onerun.Grant{}, err
	}
	t.l.remember(c.Owner, entries, warm...)
	if r != nil {
		g.Run = r.Run
		g.Run.Liveness, g.Run.Evidence = onerun.Unknown, "its lease runs until "+expires.Format(time.RFC3339)
		g.Run.Labels = maps.Clone(r.Run.Labels)
	}
	return g, nil
}

// newRun is a run before its first attempt.
func newRun(c onerun.Claim, now time.Time) *runRecord {
	return &runRecord{Run: onerun.Run{
		RunID: c.RunID, Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, BusinessDate: c.BusinessDate,
		Lock: c.Lock, Status: onerun.Failed, ScheduledAt: c.ScheduledAt,
		Execution: onerun.Execution{StartedAt: now},
	}}
}

// begin starts a new attempt of a run.
func (t *tx) begin(r *runRecord, c onerun.Claim, who onerun.Worker, number int, token int64, expires, now time.Time) {
	run := &r.Run
	run.Status, run.Attempt, run.NextRetryAt, run.Lock, r.Policy = onerun.Running, number, time.Time{}, c.Lock, c.Policy
	run.VersionLabel, run.Labels, run.Evidence = c.VersionLabel, c.Labels, ""
	run.Execution = onerun.Execution{
		Owner: c.Owner, Token: token, Worker: who, StartedAt: now,
		LeaseExpiresAt: expires, StaleAfter: c.StaleAfter, OnCrash: c.OnCrash, TwoPeople: c.TwoPeople,
	}
	r.Attempts = append(r.Attempts, attemptRecord{Attempt: onerun.Attempt{Number: number, Status: onerun.Running, Execution: run.Execution}})
	for len(r.Attempts) > keptAttempts {
		a := r.Attempts[0]
		t.put(keyAttempt(run.RunID, a.Number), a)
		if a.Status == onerun.Failed && !a.Void {
			r.Failures++
		}
		r.Attempts, r.Earlier = r.Attempts[1:], r.Earlier+1
	}
	t.putSpent(r)
}

// putSpent gives the earliest approvals that are spent keys of their own, so that the record stays small
// however often people decide about a run. The last one stays in any case: the next one's id follows from it.
func (t *tx) putSpent(r *runRecord) {
	for moved := 0; len(r.Approvals) > keptApprovals && moved < movedAtOnce; moved++ {
		i := slices.IndexFunc(r.Approvals[:len(r.Approvals)-1], func(a onerun.Approval) bool { return !a.UsedAt.IsZero() })
		if i < 0 {
			return
		}
		a := r.Approvals[i]
		t.put(keyApproval(r.Run.RunID, a.ID), a)
		r.Approvals = slices.Delete(r.Approvals, i, i+1)
		r.Spent, r.Decided = r.Spent+1, max(r.Decided, a.Attempt)
	}
}
