package memory

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/onerun-dev/onerun"
)

// Claim implements onerun.Claimer.
func (s *Store) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	return s.ClaimKnowing(ctx, c, onerun.HostKnowledge{})
}

// ClaimKnowing implements onerun.HostClaimer.
func (s *Store) ClaimKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	now, err := s.enter(ctx)
	if err != nil {
		return onerun.Grant{}, err
	}
	defer s.mu.Unlock()
	if c, err = check(c); err != nil {
		return onerun.Grant{}, err
	}
	l := s.lockOf(c.Namespace, c.Lock)
	if l.lease.Owner != "" && s.rules.Adopt(l.lease.Owner, c.Owner) {
		if k.Held != nil { // it comes back for its grant when nobody is in the way
			return onerun.Grant{}, s.refuse(c, onerun.Verdict{Reason: reasonHeld(k.HeldStale), Holder: *k.Held}, now)
		}
		g := l.grant
		g.Adopted, g.At = true, now
		if l.run != nil {
			g.Run = s.look(l.run, now)
		}
		return g, nil
	}
	if old := s.runs[c.RunID]; old != nil && c.Job != "" && (c.Partition == "" || old.Namespace != c.Namespace || old.Key() != c.Key()) {
		return onerun.Grant{}, fmt.Errorf("%w: the run id %s is taken by %s", onerun.ErrUsage, c.RunID, old.Name())
	}
	taken := s.settle(c, l, k, now)
	v, facts := s.judge(c, l, k, now)
	s.rules.Gap(&s.mu)
	if v.Reason != "" {
		if s.rules.RefusalCreates(c) && facts.Run == nil {
			s.create(c, now)
		}
		refusal := s.refuse(c, v, now)
		refusal.Closed = taken
		return onerun.Grant{}, refusal
	}
	g := s.grant(c, l, v, now)
	g.TakenOver = taken
	return g, nil
}

// errNoOrder: whoever wants a lock here asks again and again, and nobody knows who waits.
var errNoOrder = fmt.Errorf("%w: a store in memory keeps no order among those who wait for a lock", onerun.ErrUsage)

// check refuses a malformed claim and fills in what a policy left open.
func check(c onerun.Claim) (onerun.Claim, error) {
	switch {
	case c.Namespace == "" || c.Lock == "" || c.Owner == "":
		return c, fmt.Errorf("%w: a claim needs a namespace, a lock and an owner", onerun.ErrUsage)
	case c.Job == "" && c.Partition != "":
		return c, fmt.Errorf("%w: a claim of partition %s needs a job", onerun.ErrUsage, c.Partition)
	case c.Job != "" && c.RunID == "":
		return c, fmt.Errorf("%w: a claim of a job needs a run id", onerun.ErrUsage)
	case c.Order != onerun.OrderAny:
		return c, errNoOrder
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

// settle closes what is dead: the lock's holder, and the key's owner under another
// lock. It is the same work whether the claim is granted afterwards or not.
func (s *Store) settle(c onerun.Claim, l *lock, k onerun.HostKnowledge, now time.Time) []onerun.Run {
	locks := []*lock{l}
	if r := s.keys[s.id(c.Namespace, c.Key())]; c.Key() != "" && r != nil && r.Status == onerun.Running {
		if l2 := s.lockOf(r.Namespace, r.Lock); l2 != l {
			locks = append(locks, l2)
		}
	}
	var taken []onerun.Run
	for _, l := range locks {
		f := s.fateOf(l, k, now)
		if f.evidence == "" || f.alive || !f.void && s.rules.Judge(l.policy, c.Policy).OnCrash == onerun.CrashManual {
			continue
		}
		if r := l.run; r != nil {
			s.close(r, f.end(), onerun.ByMachine, now)
			r.Evidence = f.evidence
			s.event(now, onerun.EventTakenOver, r.Run, onerun.Who{Reason: string(r.Reason)}, r.Evidence)
			taken = append(taken, r.Run)
		}
		s.free(l)
	}
	return taken
}

// over reports whether a lock is held by an owner whose lease ran out, or that is
// proven dead.
func (s *Store) over(l *lock, now time.Time) bool {
	return l.lease.Owner != "" && (!s.rules.ExpiryClock(now).Before(l.expires) || s.rules.Dead(l.lease))
}

// judge applies the claim table to what is there.
func (s *Store) judge(c onerun.Claim, l *lock, k onerun.HostKnowledge, now time.Time) (onerun.Verdict, onerun.Facts) {
	f := onerun.Facts{Now: now}
	var r *record
	if c.Key() != "" {
		r = s.keys[s.id(c.Namespace, c.Key())]
	}
	if r != nil {
		run := r.Run
		f.Run = &run
		if r.Status == onerun.Running {
			run.Evidence = s.fateOf(s.lockOf(r.Namespace, r.Lock), k, now).evidence
			f.RunStale = run.Evidence != ""
		}
		f.Approval = s.lastApproval(r.RunID)
	} else if t := s.tombs[s.id(c.Namespace, c.Key())]; c.Key() != "" && t != nil {
		f.Run = t
	}
	if j := s.jobs[s.id(c.Namespace, c.Job)]; c.Job != "" && j != nil {
		f.Paused = j
	}
	if l.lease.Owner != "" && (r == nil || l.run != r) {
		h := l.holder()
		if evidence := s.fateOf(l, k, now).evidence; evidence != "" {
			h.Detail, f.LockStale = evidence, true
		}
		f.LockHolder = &h
	}
	k.Stand(&f, l.lease.Owner)
	s.rules.Facts(c, &f)
	return s.rules.Decide(f), f
}

// holder describes who holds a lock.
func (l *lock) holder() onerun.Holder {
	if l.run != nil {
		return l.run.Holder()
	}
	return onerun.Holder{Name: l.lease.Lock.Name(), Since: l.grant.At, Detail: "owner " + l.lease.Owner}
}

func (s *Store) refuse(c onerun.Claim, v onerun.Verdict, now time.Time) *onerun.Refusal {
	ref := &onerun.Refusal{
		Reason: v.Reason, Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock,
		Holder: v.Holder, RetryAt: v.RetryAt, At: now,
	}
	asksAgain := c.Asking && (v.Reason == onerun.RefusedRunning || v.Reason == onerun.RefusedLocked)
	if c.Job == "" || asksAgain {
		return ref
	}
	skip := onerun.Skip{
		Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Reason: v.Reason,
		Holder: v.Holder.ID(), Detail: v.Holder.String(), Count: 1, FirstAt: now, LastAt: now,
	}
	for _, old := range s.skips {
		if s.rules.SkipKey(*old) == s.rules.SkipKey(skip) {
			old.Count++
			old.LastAt, old.Detail = now, skip.Detail
			ref.Count = old.Count
			return ref
		}
	}
	s.skips = append(s.skips, &skip)
	ref.Count = 1
	return ref
}

// grant writes a won claim down.
func (s *Store) grant(c onerun.Claim, l *lock, v onerun.Verdict, now time.Time) onerun.Grant {
	l.token = s.rules.NextToken(l.token, now)
	l.policy, l.expires = c.Policy, s.rules.Expires(now, now, c.TTL)
	l.lease = onerun.Lease{Namespace: c.Namespace, Lock: c.Lock, Owner: c.Owner, Token: l.token, TTL: c.TTL}
	l.run = nil
	g := onerun.Grant{At: now}
	if c.Job != "" {
		r := s.keys[s.id(c.Namespace, c.Key())]
		if c.Key() == "" || r == nil {
			r = s.create(c, now)
		}
		if v.Spend != nil {
			s.rules.Spend(v.Spend, v.Attempt, now)
		}
		c.TwoPeople = c.TwoPeople || r.TwoPeople // what was once asked of its reruns stays
		r.begin(c, v.Attempt, l.token, l.expires, now)
		l.run, l.lease.RunID, l.lease.Attempt = r, r.RunID, v.Attempt
		g.Run = s.look(r, now)
	} else {
		g.Run = onerun.Run{Namespace: c.Namespace, Lock: c.Lock, Execution: onerun.Execution{Owner: c.Owner, Token: l.token, StartedAt: now}}
	}
	g.Lease = l.lease
	l.grant = g
	return g
}

func (s *Store) create(c onerun.Claim, now time.Time) *record {
	r := &record{seq: len(s.runs), Run: onerun.Run{
		RunID: c.RunID, Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, BusinessDate: c.BusinessDate,
		Lock: c.Lock, Status: onerun.Failed, ScheduledAt: c.ScheduledAt,
		Execution: onerun.Execution{StartedAt: now},
	}}
	s.runs[c.RunID] = r
	if c.Key() != "" {
		s.keys[s.id(c.Namespace, c.Key())] = r
	}
	return r
}

// begin starts a new attempt of a run.
func (r *record) begin(c onerun.Claim, number int, token int64, expires, now time.Time) {
	r.Status, r.Attempt, r.NextRetryAt, r.Lock, r.policy = onerun.Running, number, time.Time{}, c.Lock, c.Policy
	r.VersionLabel, r.Labels, r.Evidence = c.VersionLabel, c.Labels, ""
	r.Execution = onerun.Execution{
		Owner: c.Owner, Token: token, Worker: onerun.Worker{Label: c.WorkerLabel}, StartedAt: now,
		LeaseExpiresAt: expires, StaleAfter: c.StaleAfter, OnCrash: c.OnCrash, TwoPeople: c.TwoPeople,
	}
	r.attempts = append(r.attempts, onerun.Attempt{Number: number, Status: onerun.Running, Execution: r.Execution})
}
