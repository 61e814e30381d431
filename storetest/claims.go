package storetest

import (
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

// Good outcomes and bad ones.
var (
	succeeded = onerun.Outcome{Status: onerun.Succeeded}
	skipped   = onerun.Outcome{Status: onerun.Skipped}
	failed    = onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, Error: "exit status 1"}
)

const day = "2026-09-15"

// job makes a claim of a key; an empty partition gives an unkeyed one. Its lease is
// long, so that no case about something else can lose it.
func (t *trial) job(job, partition string) onerun.Claim {
	c := onerun.Claim{
		Namespace: t.ns, Job: job, Partition: partition, Lock: onerun.JobLock(job), LockMode: onerun.LockFlock,
		InProcess: true, Policy: onerun.Policy{TTL: time.Hour, OnCrash: onerun.CrashAuto},
	}
	return again(c)
}

// lockOnly makes a claim of a lock alone.
func (t *trial) lockOnly(name string) onerun.Claim {
	c := t.job("", "")
	c.Lock, c.RunID = onerun.NamedLock(name), ""
	return c
}

// again is another start of the same: an acquisition of its own.
func again(c onerun.Claim) onerun.Claim {
	c.Owner = onerun.NewID()
	if c.Job != "" {
		c.RunID = onerun.NewRunID(time.Now())
	}
	return c
}

func under(c onerun.Claim, lock onerun.LockName) onerun.Claim {
	c.Lock = lock
	return c
}

func retrying(c onerun.Claim, retries int, wait time.Duration) onerun.Claim {
	c.Retries, c.BackoffMin, c.BackoffMax = retries, wait, wait
	return c
}

func manual(c onerun.Claim) onerun.Claim {
	c.OnCrash = onerun.CrashManual
	return c
}

// granted claims, and checks that it wins, that the grant is whole, and that
// Explain foretold it.
func (t *trial) granted(c onerun.Claim) onerun.Grant {
	before := t.look(c)
	ref, err := t.s.Explain(t.ctx, c)
	t.must(err, "explain %s", nameOf(c))
	if ref != nil {
		t.failf("explain %s: expected that it would run, got %s", nameOf(c), said(ref))
	}
	t.unchanged(before, t.look(c), "Explain")
	return t.grantedBy(t.s, c)
}

// grantedBy is granted through another client, without asking beforehand.
func (t *trial) grantedBy(s onerun.Store, c onerun.Claim) onerun.Grant {
	g, err := s.Claim(t.ctx, c)
	if err != nil {
		t.failf("claim %s: expected to be granted, got %s", nameOf(c), said(err))
	}
	equal(t, g.Adopted, false, "Adopted of a new grant of %s", nameOf(c))
	t.whole(c, g)
	return g
}

// whole checks that a grant says everything that its owner needs.
func (t *trial) whole(c onerun.Claim, g onerun.Grant) {
	l := g.Lease
	equal(t, l.Namespace, c.Namespace, "Lease.Namespace")
	equal(t, l.Lock, c.Lock, "Lease.Lock")
	equal(t, l.Owner, c.Owner, "Lease.Owner")
	if g.At.IsZero() {
		t.failf("Grant.At: expected the store's time, got none")
	}
	if ms := g.At.UnixMilli(); l.Token < ms && !g.Adopted {
		t.failf("Lease.Token: expected at least the store's time %d, got %d", ms, l.Token)
	}
	want := time.Duration(0)
	if t.h.Leases {
		want = or(c.TTL, onerun.DefaultTTL)
	}
	equal(t, l.TTL, want, "Lease.TTL (0 is for stores without leases)")
	if c.Job == "" {
		equal(t, l.RunID, "", "Lease.RunID of a lock alone")
		return
	}
	r := g.Run
	equal(t, r.RunID, l.RunID, "Run.RunID against Lease.RunID")
	equal(t, r.Attempt, l.Attempt, "Run.Attempt against Lease.Attempt")
	equal(t, r.Token, l.Token, "Run.Token against Lease.Token")
	equal(t, r.Namespace, c.Namespace, "Run.Namespace")
	equal(t, r.Job, c.Job, "Run.Job")
	equal(t, r.Partition, c.Partition, "Run.Partition")
	equal(t, r.Lock, c.Lock, "Run.Lock")
	equal(t, r.Status, onerun.Running, "Run.Status")
	equal(t, r.Owner, c.Owner, "Run.Owner")
	equal(t, r.OnCrash, or(c.OnCrash, onerun.CrashAuto), "Run.OnCrash")
	if l.Attempt == 1 && len(r.RunID) == 0 || r.StartedAt.IsZero() || !r.FinishedAt.IsZero() {
		t.failf("Grant.Run: expected an id, a start and no end, got %q, %s, %s", r.RunID, r.StartedAt, r.FinishedAt)
	}
}

// refused claims, and checks that it is refused with the reason, that Explain
// foretold it, and that neither changed any run.
func (t *trial) refused(c onerun.Claim, want onerun.Reason) *onerun.Refusal {
	before := t.look(c)
	foretold := t.foretold(c, want)
	t.unchanged(before, t.look(c), "Explain")
	ref := t.refusedBy(t.s, c, want)
	after := t.look(c)
	after.Skips = before.Skips
	t.unchanged(before, after, "a refused claim")
	equal(t, foretold.Holder.ID(), ref.Holder.ID(), "Explain's holder against Claim's")
	if !foretold.RetryAt.Equal(ref.RetryAt) {
		t.failf("Explain's RetryAt: expected Claim's %s, got %s", ref.RetryAt, foretold.RetryAt)
	}
	return ref
}

// refusedAfterDeath is refused when a dead owner may be found on the way, whose run
// the claim closes: then runs do change.
func (t *trial) refusedAfterDeath(c onerun.Claim, want onerun.Reason) *onerun.Refusal {
	before := t.look(c)
	t.foretold(c, want)
	t.unchanged(before, t.look(c), "Explain")
	return t.refusedBy(t.s, c, want)
}

func (t *trial) foretold(c onerun.Claim, want onerun.Reason) *onerun.Refusal {
	ref, err := t.s.Explain(t.ctx, c)
	t.must(err, "explain %s", nameOf(c))
	if ref == nil {
		t.failf("explain %s: expected refused %s, got that it would run", nameOf(c), want)
	}
	equal(t, ref.Reason, want, "Explain's reason for %s (%s)", nameOf(c), ref.Holder)
	equal(t, ref.Count, 0, "Explain's Count (it records nothing)")
	return ref
}

// refusedBy is refused through another client, without asking beforehand.
func (t *trial) refusedBy(s onerun.Store, c onerun.Claim, want onerun.Reason) *onerun.Refusal {
	g, err := s.Claim(t.ctx, c)
	var ref *onerun.Refusal
	if !errors.As(err, &ref) || ref.Reason != want {
		t.failf("claim %s: expected refused %s, got %s", nameOf(c), want, said(err))
	}
	equal(t, g.Lease, onerun.Lease{}, "the lease beside a refusal")
	equal(t, ref.Namespace, c.Namespace, "Refusal.Namespace")
	equal(t, ref.Job, c.Job, "Refusal.Job")
	equal(t, ref.Key, c.Key(), "Refusal.Key")
	equal(t, ref.Lock, c.Lock, "Refusal.Lock")
	equal(t, ref.RetryAt.IsZero(), want != onerun.RefusedRetryNotDue, "whether RetryAt is empty in a refusal %s", want)
	if ref.At.IsZero() {
		t.failf("Refusal.At: expected the store's time, got none")
	}
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			t.failf("a refusal must not be mistaken for an error, but it matches %q", kind)
		}
	}
	return ref
}

// stoodBy checks that a refusal names the run that stands in the way.
func (t *trial) stoodBy(ref *onerun.Refusal, r onerun.Run) {
	h := ref.Holder
	equal(t, h.RunID, r.RunID, "Holder.RunID of refusal %s", ref.Reason)
	equal(t, h.Attempt, r.Attempt, "Holder.Attempt of refusal %s", ref.Reason)
	equal(t, h.Name, r.Name(), "Holder.Name of refusal %s", ref.Reason)
	equal(t, h.Status, r.Status, "Holder.Status of refusal %s", ref.Reason)
	if h.Since.IsZero() {
		t.failf("Holder.Since of refusal %s: expected a time, got none", ref.Reason)
	}
}

func (t *trial) finish(g onerun.Grant, o onerun.Outcome) {
	t.must(t.s.Finish(t.ctx, g.Lease, o), "finish run %s attempt %d as %s", g.Run.Name(), g.Lease.Attempt, o.Status)
}

// ended makes a run that has ended.
func (t *trial) ended(c onerun.Claim, o onerun.Outcome) onerun.Run {
	g := t.granted(c)
	t.finish(g, o)
	r := t.run(g.Lease.RunID)
	equal(t, r.Status, o.Status, "status of %s after Finish", r.Name())
	return r
}

// nameOf is what a claim is called in errors.
func nameOf(c onerun.Claim) string {
	return or(or(c.Key(), c.Job), string(c.Lock))
}
