package etcd

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/onerun-dev/onerun/internal/kvledger"
)

// lease is an etcd lease of this client. At most one key has it.
type lease struct {
	id      clientv3.LeaseID
	ttl     int64         // in seconds, as it was asked for
	granted int64         // in seconds, as the server reckons it: not less
	renewed time.Duration // when that was asked for, as elapsed tells it
	key     string        // the mortal key that has it; "": none
	version int64         // which that key has
}

// fresh reports whether a lease that is given to a key now lasts for as long as it must.
func (l *lease) fresh() bool {
	return elapsed()-l.renewed < time.Duration(l.granted-l.ttl)*time.Second
}

// over reports whether a lease that nobody has renewed has run out.
func (l *lease) over() bool { return elapsed()-l.renewed > time.Duration(l.granted)*time.Second }

// longer is the time for which a client asks that acquires again and again: a tenth more, so that
// a lease need not be renewed for each of its acquisitions. A client that acquires once asks for no more
// than it wants.
func longer(ttl int64) int64 { return ttl + ttl/10 }

// maxIdle is how many leases without a key are kept for the next acquisition, instead of a grant
// and a revocation, which are both as dear as the claim itself. Those that nobody takes run out.
const maxIdle = 128

// maxKeys is from how many keys on those are looked for whose leases were lost.
const maxKeys = 1000

// leases are the leases of this client: those of its mortal keys, and those that are left of keys
// that it has deleted.
type leases struct {
	mu   *sync.Mutex
	keys map[string]*lease
	free []*lease
	many bool // this client has acquired before
}

func newLeases() leases { return leases{mu: new(sync.Mutex), keys: map[string]*lease{}} }

// of gives the lease of a key that is put again, if this client has put it last, and for the same
// time.
func (ls *leases) of(w kvledger.Write, checks []kvledger.Check) *lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.keys[w.Key]
	if l == nil || l.ttl != seconds(w.TTL) {
		return nil
	}
	for _, c := range checks {
		if c.Key == w.Key && c.Version == l.version {
			return l
		}
	}
	return nil
}

// next is for how long a lease is to be asked that is for ttl.
func (ls *leases) next(ttl int64) int64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if !ls.many {
		ls.many = true
		return ttl
	}
	return longer(ttl)
}

// idle takes a lease that no key has; nil: there is none for that time. Those that have run out are dropped: to
// ask for each costs a round trip of the claim.
func (ls *leases) idle(ttl int64) *lease {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.free = slices.DeleteFunc(ls.free, (*lease).over)
	for i := len(ls.free) - 1; i >= 0; i-- {
		if l := ls.free[i]; l.ttl == ttl {
			ls.free = append(ls.free[:i], ls.free[i+1:]...)
			return l
		}
	}
	return nil
}

// unused keeps a lease that was taken for a key and not given to it.
func (ls *leases) unused(l *lease) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l != nil && l.key == "" {
		ls.release(l)
	}
}

func (ls *leases) release(l *lease) {
	l.key, l.version = "", 0
	if len(ls.free) < maxIdle {
		ls.free = append(ls.free, l)
	}
}

// forget drops a lease of which nobody knows any more what it has.
func (ls *leases) forget(l *lease) {
	if l == nil {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.keys[l.key] == l {
		delete(ls.keys, l.key)
	}
}

// used notes what a transaction has done to mortal keys. One that came after it may have been noted before: a lease that a
// key has isn't idle.
func (ls *leases) used(t kvledger.Txn, l *lease, version int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, w := range t.Writes {
		switch old := ls.keys[w.Key]; {
		case old != nil && old.version > version:
		case w.Delete && old != nil:
			delete(ls.keys, w.Key)
			ls.release(old)
		case w.TTL > 0:
			if len(ls.keys) >= maxKeys {
				maps.DeleteFunc(ls.keys, func(_ string, l *lease) bool { return l.over() })
			}
			l.key, l.version = w.Key, version
			ls.keys[w.Key] = l
		}
	}
}

// keepAlive gives a lease its whole time again; false: it has run out. The client's own keepAliveOnce asks again without a
// pause while the server is away.
func (s *space) keepAlive(ctx context.Context, c *clientv3.Client, l *lease) (runs bool, err error) {
	began := elapsed()
	granted, err := s.renewals.renew(ctx, s.ctx, c, l.id)
	if err != nil {
		return false, err
	}
	s.leases.mu.Lock()
	defer s.leases.mu.Unlock()
	l.renewed, l.granted = began, granted
	return granted >= l.ttl, nil
}

// renewals are streams for the renewal of leases, those that nobody uses. With accounts each one that is opened has the
// server compare the password, which is made to be slow.
type renewals struct {
	mu   sync.Mutex
	free []*renewal
}

type renewal struct {
	client *clientv3.Client
	life   context.Context
	end    context.CancelFunc
	stream pb.Lease_LeaseKeepAliveClient // nil: not opened yet
}

// renew asks for a lease, and gives for how long it runs from then on, in seconds; 0 or less: it has run out. life is the
// context of what stays open.
func (rs *renewals) renew(ctx, life context.Context, c *clientv3.Client, id clientv3.LeaseID) (int64, error) {
	for {
		r := rs.take(c)
		used := r != nil
		if !used {
			r = &renewal{client: c}
			r.life, r.end = context.WithCancel(life)
		}
		stop := context.AfterFunc(ctx, r.end)
		granted, err := r.ask(id)
		if stop() && err == nil {
			rs.put(r)
			return granted, nil
		}
		r.end()
		switch {
		case err == nil:
			return granted, nil
		case ctx.Err() != nil: // the others may be of the same member, which doesn't answer
			rs.close()
			return 0, context.Cause(ctx)
		case !used: // else it can have ended while nobody used it
			return 0, err
		}
	}
}

func (r *renewal) ask(id clientv3.LeaseID) (granted int64, err error) {
	if r.stream == nil {
		if r.stream, err = pb.NewLeaseClient(r.client.ActiveConnection()).LeaseKeepAlive(r.life); err != nil {
			return 0, err
		}
	}
	// What ended a stream stands in what is received.
	if err := r.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	a, err := r.stream.Recv()
	if err != nil {
		return 0, err
	}
	return a.TTL, nil
}

// take gives a stream of a client; nil: there is none. Those of a client before it are ended.
func (rs *renewals) take(c *clientv3.Client) *renewal {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for n := len(rs.free); n > 0; n = len(rs.free) {
		r := rs.free[n-1]
		rs.free = rs.free[:n-1]
		if r.client == c {
			return r
		}
		r.end()
	}
	return nil
}

func (rs *renewals) put(r *renewal) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.free) < maxIdle {
		rs.free = append(rs.free, r)
	} else {
		r.end()
	}
}

// close ends all that nobody uses.
func (rs *renewals) close() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.free {
		r.end()
	}
	rs.free = nil
}

// revokeTimeout bounds what closing a store takes: a lease that isn't revoked runs out.
const revokeTimeout = 2 * time.Second

// revokeIdle ends the leases that no key has.
func (s *space) revokeIdle(c *clientv3.Client) {
	ctx, cancel := context.WithTimeout(s.ctx, revokeTimeout)
	defer cancel()
	s.leases.mu.Lock()
	free := s.leases.free
	s.leases.free = nil
	s.leases.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range free {
		all.Go(func() { _, _ = c.Revoke(ctx, l.id) })
	}
	all.Wait()
}
