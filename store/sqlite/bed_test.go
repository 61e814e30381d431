package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// day is the partition of most claims.
const day = "2026-09-15"

// claimOf is a claim of a job under its own lock; partition "" is unkeyed.
func claimOf(job, partition string) onerun.Claim {
	return again(onerun.Claim{
		Namespace: onerun.DefaultNamespace, Job: job, Partition: partition, Lock: onerun.JobLock(job),
		Policy: onerun.Policy{OnCrash: onerun.CrashAuto},
	})
}

// lockClaim is a claim of a lock alone.
func lockClaim(name string) onerun.Claim {
	return onerun.Claim{Namespace: onerun.DefaultNamespace, Lock: onerun.NamedLock(name), Owner: onerun.NewID()}
}

// again is the claim of another start of the same.
func again(c onerun.Claim) onerun.Claim {
	c.Owner = onerun.NewID()
	if c.Job != "" {
		c.RunID = onerun.NewRunID(time.Now())
	}
	return c
}

func ended(s onerun.Status) onerun.Outcome {
	o := onerun.Outcome{Status: s, FinishedAt: time.Now().Truncate(time.Microsecond)}
	code := 0
	if s == onerun.Failed {
		code, o.Reason = 3, onerun.ReasonExit
	}
	o.ExitCode = &code
	return o
}

// bed is a store in a directory of its own.
type bed struct {
	t    testing.TB
	path string // of the database
	*sqlite.Store
}

func newBed(t testing.TB, opts ...sqlite.Option) *bed {
	t.Helper()
	path := filepath.Join(home(t), sqlite.DatabaseName)
	return &bed{t: t, path: path, Store: open(t, path, opts...)}
}

// open opens one more client of a store.
func open(t testing.TB, path string, opts ...sqlite.Option) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opts...)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close %s: %v", path, err)
		}
	})
	return s
}

// reopen is another program's view of the store.
func (b *bed) reopen(opts ...sqlite.Option) *bed {
	b.t.Helper()
	return &bed{t: b.t, path: b.path, Store: open(b.t, b.path, opts...)}
}

// child starts another process that is a client of the store.
func (b *bed) child(p plan) *child {
	b.t.Helper()
	p.Path = b.path
	return newChild(b.t, p)
}

// soon bounds a call that must not take long, on however busy a machine.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// claim claims, and again while nothing can be proven for the moment.
func (b *bed) claim(c onerun.Claim) (onerun.Grant, error) {
	for ctx := soon(b.t); ; {
		g, err := b.Claim(ctx, c)
		var ref *onerun.Refusal
		if !errors.As(err, &ref) || !unproven(ref) || !moment(ctx) {
			return g, err
		}
	}
}

// unproven tells a refusal that is only for the moment. To prove that a job was never
// started, the environment of every process has to be read, and of one that is in the
// midst of execve(2) or exit(2), which can be long on a busy machine, it can't be.
func unproven(ref *onerun.Refusal) bool {
	return ref.Reason == onerun.RefusedStale && strings.Contains(ref.Holder.Detail, cantRead)
}

const cantRead = "environment can't be read"

// moment lets a little time pass between two questions about what nobody will be told
// of. It is false when ctx is over.
func moment(ctx context.Context) bool {
	timer := time.NewTimer(5 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (b *bed) granted(c onerun.Claim) onerun.Grant {
	b.t.Helper()
	g, err := b.claim(c)
	if err != nil {
		b.t.Fatalf("claim %s%s: %v", c.Lock, c.Key(), err)
	}
	return g
}

func (b *bed) refused(c onerun.Claim, reason onerun.Reason) { b.t.Helper(); _ = b.refusal(c, reason) }

// refusal is refused, for who wants to look at it.
func (b *bed) refusal(c onerun.Claim, reason onerun.Reason) *onerun.Refusal {
	b.t.Helper()
	g, err := b.claim(c)
	var ref *onerun.Refusal
	switch {
	case err == nil:
		b.t.Fatalf("claim %s%s: granted attempt %d, not refused %s", c.Lock, c.Key(), g.Lease.Attempt, reason)
	case !errors.As(err, &ref):
		b.t.Fatalf("claim %s%s: %v, not refused %s", c.Lock, c.Key(), err, reason)
	case ref.Reason != reason:
		b.t.Fatalf("claim %s%s: %v, not refused %s", c.Lock, c.Key(), ref, reason)
	}
	return ref
}

func (b *bed) finish(g onerun.Grant, s onerun.Status) {
	b.t.Helper()
	if err := b.Finish(soon(b.t), g.Lease, ended(s)); err != nil {
		b.t.Fatalf("finish: %v", err)
	}
}

// lived is the whole life of a start.
func (b *bed) lived(c onerun.Claim, s onerun.Status) onerun.Run {
	b.t.Helper()
	g := b.granted(c)
	b.finish(g, s)
	return b.run(g.Lease.RunID)
}

func (b *bed) detail(runID string) onerun.Detail {
	b.t.Helper()
	d, err := b.Detail(soon(b.t), onerun.DefaultNamespace, runID)
	if err != nil {
		b.t.Fatalf("read run %s: %v", runID, err)
	}
	return d
}

func (b *bed) run(runID string) onerun.Run { b.t.Helper(); return b.detail(runID).Run }

func (b *bed) runs(job string) []onerun.Run {
	b.t.Helper()
	rs, err := b.Runs(soon(b.t), onerun.Query{Namespace: onerun.DefaultNamespace, Job: job})
	if err != nil {
		b.t.Fatalf("list runs: %v", err)
	}
	return rs
}

func (b *bed) resolve(r onerun.Run, as onerun.Status) onerun.Run {
	b.t.Helper()
	for ctx := soon(b.t); ; {
		resolved, err := b.Resolve(ctx, resolution(r, as))
		switch {
		case err == nil:
			return resolved
		case !strings.Contains(err.Error(), cantRead) || !moment(ctx):
			b.t.Fatalf("resolve: %v", err)
		}
	}
}

func resolution(r onerun.Run, as onerun.Status) onerun.Resolution {
	return onerun.Resolution{
		Namespace: r.Namespace, RunID: r.RunID, Expect: onerun.Expected(r), As: as, Who: onerun.Who{By: "ann", Reason: "looked"},
	}
}

func (b *bed) approve(r onerun.Run) {
	b.t.Helper()
	if _, err := b.Approve(soon(b.t), approval(r)); err != nil {
		b.t.Fatalf("approve: %v", err)
	}
}

func approval(r onerun.Run) onerun.ApprovalRequest {
	return onerun.ApprovalRequest{Namespace: r.Namespace, RunID: r.RunID, Expect: onerun.Expected(r), Who: onerun.Who{By: "ann", Reason: "again"}}
}

// gone waits until a process is no more: until the kernel says so.
func gone(t testing.TB, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatalf("pidfd_open(%d): %v", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Minute.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0:
			t.Fatalf("process %d doesn't end: %v", pid, err)
		default:
			return
		}
	}
}

// killGroup ends a job's process group, and waits until one of it is gone.
func killGroup(t testing.TB, group, pid int) {
	t.Helper()
	_ = unix.Kill(-group, unix.SIGKILL)
	gone(t, pid)
}
