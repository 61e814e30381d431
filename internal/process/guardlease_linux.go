package process

import (
	"encoding/binary"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// GuardLease is the lease whose deadline a guard holds. When that is, onerun's lease arithmetic says:
// nothing of the job may run any more when TTL has passed since Sent.
type GuardLease struct {
	TTL   time.Duration // 0: there is no lease, or it has no deadline
	Grace time.Duration // the job's, of which the lease leaves it what [onerun.LeaseGrace] says
	Sent  time.Duration // when the newest heartbeat that has succeeded was sent, by CLOCK_BOOTTIME; see [onerun.WithRenewal]
}

// deadline is that of the newest heartbeat. The guard waits for a part of the margin, so that it is the
// wrapper that acts wherever it can, and leaves the rest to what there is to be killed.
func (l GuardLease) deadline() deadline {
	return deadline{
		end:    GuardLost,
		termAt: l.Sent + onerun.TermAfter(l.TTL, l.Grace), killAt: l.Sent + onerun.KillAfter(l.TTL),
		slack: onerun.LeaseMargin(l.TTL) / 4, look: onerun.LookEvery(l.TTL),
	}
}

// renewals is a wrapper's end of what tells its guard how far the lease has come: a counter in the kernel
// (eventfd(2)), to which each renewal adds the time since the one before, in ns.
//
// Lines in the pipe would pile up before a guard that is frozen, until the wrapper had to wait for it or
// to drop the newest; and the guard, when it goes on, would go by one of the oldest. A counter never makes
// the wrapper wait, loses nothing, and one read gives all that has come, however long nobody has read.
type renewals struct {
	mu   sync.Mutex
	sent time.Duration // the newest
	fd   int           // the present guard's counter; -1: there is none
}

// renew notes a heartbeat that was sent later than those before. It waits for nobody.
func (r *renewals) renew(sent time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sent <= r.sent {
		return
	}
	if r.fd >= 0 {
		by := binary.NativeEndian.AppendUint64(nil, uint64(sent-r.sent))
		if _, err := unix.Write(r.fd, by); err != nil {
			return // not known to happen; the next one brings the whole way
		}
	}
	r.sent = sent
}

// open makes the counter of a new guard, and says from which moment on it counts: the newest of what was
// renewed and of sent.
func (r *renewals) open(sent time.Duration) (from time.Duration, fd int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Not even the guard waits for it: it may find that nothing has come.
	if fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return 0, -1, err
	}
	r.fd, r.sent = fd, max(r.sent, sent)
	return r.sent, fd, nil
}

// close is for a guard that is gone, or isn't needed any more.
func (r *renewals) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
		r.fd = -1
	}
}

// renewed is the guard's end: how far the lease has come since the last call.
func renewed(fd int) time.Duration {
	var by [8]byte
	if n, err := unix.Read(fd, by[:]); err != nil || n != len(by) {
		return 0 // EAGAIN: it hasn't
	}
	return time.Duration(binary.NativeEndian.Uint64(by[:]))
}
