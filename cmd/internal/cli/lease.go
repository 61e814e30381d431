package cli

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/process"
)

// leaseEnd is when the job of a lease has to be gone: the Runner stops it in time, and this
// is the moment at which it is killed, whatever else is under way.
type leaseEnd struct {
	sent   atomic.Int64 // when the last heartbeat that succeeded was sent, by CLOCK_BOOTTIME
	lostAt atomic.Int64 // when the loss was seen; 0: it wasn't
}

// renewed is told of each renewal (onerun.WithRenewal), and tells the guard.
func (x *execution) renewed(_ onerun.Lease, sent time.Duration) {
	x.lease.sent.Store(int64(sent))
	if g := x.guarding.Load(); g != nil {
		g.Renewed(sent)
	}
}

// guardLease is what a guard has to know of the lease.
func (x *execution) guardLease(l onerun.Lease) process.GuardLease {
	return process.GuardLease{TTL: l.TTL, Grace: x.grace, Sent: time.Duration(x.lease.sent.Load())}
}

// lookEvery is how often killBy is asked at least.
func lookEvery(l onerun.Lease) time.Duration {
	if l.TTL == 0 {
		return 0
	}
	return onerun.LookEvery(l.TTL)
}

// killBy is the moment at which nothing of the job may run any more; nil: there is none. What
// is known to be lost has the lease's grace from then on, if there is as much time.
func (x *execution) killBy(ctx context.Context, l onerun.Lease) func() time.Duration {
	if l.TTL == 0 {
		return nil
	}
	x.lease.lostAt.Store(0)
	return func() time.Duration {
		by := time.Duration(x.lease.sent.Load()) + onerun.KillAfter(l.TTL)
		if !errors.Is(context.Cause(ctx), onerun.ErrLost) {
			return by
		}
		x.lease.lostAt.CompareAndSwap(0, int64(sinceBoot()))
		return min(by, time.Duration(x.lease.lostAt.Load())+onerun.LeaseGrace(l.TTL, x.grace))
	}
}

// sinceBoot is CLOCK_BOOTTIME, which counts the time in suspend.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // there since Linux 2.6.39
	return time.Duration(ts.Nano())
}
