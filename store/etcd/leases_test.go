package etcd

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/onerun-dev/onerun/internal/kvledger"
)

// TestIdleLeasesThatRanOut: a claim doesn't ask the server for each of them.
func TestIdleLeasesThatRanOut(t *testing.T) {
	t.Parallel()
	ls := newLeases()
	leave := func(id clientv3.LeaseID, ago time.Duration) {
		ls.unused(&lease{id: id, ttl: 60, granted: 60, renewed: elapsed() - ago})
	}
	leave(1, 10*time.Second)
	for id := range clientv3.LeaseID(20) {
		leave(2+id, time.Hour)
	}
	if l := ls.idle(60); l == nil || l.id != 1 {
		t.Errorf("an idle lease: %+v", l)
	}
	if l := ls.idle(60); l != nil {
		t.Errorf("one that has run out: %+v", l)
	}
}

// TestALeaseInUseIsNotIdle: a lock is acquired again before the call that freed it has noted that.
func TestALeaseInUseIsNotIdle(t *testing.T) {
	t.Parallel()
	ls := newLeases()
	put := kvledger.Txn{Writes: []kvledger.Write{{Key: "life", TTL: time.Minute}}}
	first, second := &lease{id: 1, ttl: 60, granted: 60, renewed: elapsed()}, &lease{id: 2, ttl: 60, granted: 60, renewed: elapsed()}
	ls.used(put, first, 10)
	ls.used(put, second, 12)
	ls.used(kvledger.Txn{Writes: []kvledger.Write{{Key: "life", Delete: true}}}, nil, 11)
	if l := ls.idle(60); l == second {
		t.Errorf("the lease of a lock that is held is taken for idle: %+v", l)
	}
	if l := ls.of(put.Writes[0], []kvledger.Check{{Key: "life", Version: 12}}); l != second {
		t.Errorf("the lock's lease: %+v", l)
	}
}
