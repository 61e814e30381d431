package etcd_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/etcd"
)

func leases(t testing.TB, c *clientv3.Client) int {
	t.Helper()
	r, err := c.Leases(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return len(r.Leases)
}

// refusedAs claims, and expects to be refused.
func refusedAs(t testing.TB, s onerun.Store, c onerun.Claim, want onerun.Reason) {
	t.Helper()
	_, err := s.Claim(soon(t), c)
	var ref *onerun.Refusal
	if !errors.As(err, &ref) || ref.Reason != want {
		t.Fatalf("claim: expected refused %s, got %v", want, err)
	}
}

// eventually claims until the lease in the way has run out.
func eventually(t testing.TB, s onerun.Store, c onerun.Claim) onerun.Grant {
	t.Helper()
	ctx := soon(t)
	for {
		g, err := s.Claim(ctx, c)
		var ref *onerun.Refusal
		switch {
		case err == nil:
			return g
		case !errors.As(err, &ref):
			t.Fatalf("claim: %v", err)
		}
		timer := time.NewTimer(50 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			t.Fatalf("claim: %v", err)
		}
	}
}

// TestAcquisitionsLeakNoLease: however often a name is taken, by one process or by many, what is
// left of it is as much as after the first time, and a claim reads as little.
func TestAcquisitionsLeakNoLease(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	beside := direct(t, server)
	s := open(t, server.URL("x"))
	lock := onerun.Claim{Namespace: "ns", Lock: onerun.NamedLock("n"), Policy: onerun.Policy{TTL: 30 * time.Second}}
	keys := func() int64 {
		r, err := beside.Get(soon(t), "x/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return r.Count
	}
	var before int64
	for i := range 2000 {
		c := lock
		c.Owner = onerun.NewID()
		if err := s.Finish(t.Context(), granted(t, s, c).Lease, onerun.Outcome{}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			before = keys()
		}
	}
	if n := leases(t, beside); n != 1 {
		t.Errorf("leases after 2000 acquisitions by one process: %d, want 1", n)
	}
	if n := keys(); n != before {
		t.Errorf("keys after 2000 acquisitions: %d, and after the first: %d", n, before)
	}
	held := lock
	held.Owner = onerun.NewID()
	granted(t, s, held)
	for range 20 { // a process that is refused takes no lease
		other := open(t, server.URL("x"))
		c := lock
		c.Owner = onerun.NewID()
		refusedAs(t, other, c, onerun.RefusedLocked)
	}
	if n := leases(t, beside); n != 1 {
		t.Errorf("leases after 20 refusals: %d, want 1", n)
	}
	for range 20 { // one that is granted gives it back
		other := open(t, server.URL("x"))
		c := claimOf("job", "")
		if err := other.Finish(soon(t), granted(t, other, c).Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
			t.Fatal(err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := leases(t, beside); n != 1 {
		t.Errorf("leases after 20 processes that ended: %d, want 1", n)
	}
}

// TestAHeartbeatNeverBringsALeaseBack (B25): whether the lease ran out or somebody revoked it.
func TestAHeartbeatNeverBringsALeaseBack(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	beside, s := direct(t, server), open(t, server.URL("x"))
	g := granted(t, s, claimOf("job", "p"))
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Fatal(err)
	}
	r, err := beside.Leases(soon(t))
	if err != nil || len(r.Leases) != 1 {
		t.Fatalf("leases: %v, %v", r, err)
	}
	if _, err := beside.Revoke(soon(t), r.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
			t.Errorf("heartbeat without a lease: expected that it is lost, got %v", err)
		}
	}
	life, err := beside.Get(soon(t), "x/life/", clientv3.WithPrefix())
	if err != nil || len(life.Kvs) != 0 {
		t.Errorf("mortal keys after that: %v, %v", life, err)
	}
	// Its claim, repeated, is not answered with the grant that it doesn't have any more.
	c := claimOf("job", "p")
	c.Owner = g.Lease.Owner
	if g, err := s.Claim(soon(t), c); err == nil {
		t.Errorf("claim of an owner whose lease ran out: expected none, got %+v", g)
	}
	d, err := s.Detail(soon(t), "ns", g.Lease.RunID)
	if err != nil || d.Run.Reason != onerun.ReasonLeaseExpired || len(d.Attempts) != 1 {
		t.Errorf("its run: expected it closed as lease_expired, got %+v, %v", d, err)
	}
}

// TestReleaseOfALateOwner (B26): it frees nobody else's lock.
func TestReleaseOfALateOwner(t *testing.T) {
	t.Parallel()
	url := sharedServer(t).URL("b26")
	a, b := open(t, url), open(t, url)
	c := claimOf("job", "")
	c.TTL = onerun.MinTTL
	late := granted(t, a, c)
	next := claimOf("job", "")
	owner := eventually(t, b, next)
	if owner.At.Sub(late.At) < c.TTL {
		t.Errorf("granted %s after the first, whose lease is %s", owner.At.Sub(late.At), c.TTL)
	}
	if owner.Lease.Token <= late.Lease.Token {
		t.Errorf("token %d after %d", owner.Lease.Token, late.Lease.Token)
	}
	if err := a.Finish(soon(t), late.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("the end of a late owner: expected that it is lost, got %v", err)
	}
	if _, err := a.Heartbeat(soon(t), late.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("the heartbeat of a late owner: expected that it is lost, got %v", err)
	}
	refusedAs(t, a, claimOf("job", ""), onerun.RefusedLocked)
	if _, err := b.Heartbeat(soon(t), owner.Lease); err != nil {
		t.Errorf("the heartbeat of the owner: %v", err)
	}
}

// TestClientsClocksDecideNothing (B24): a host that is three minutes ahead takes no lock that is
// held, and one that is behind takes it when the lease has run out.
func TestClientsClocksDecideNothing(t *testing.T) {
	t.Parallel()
	url := sharedServer(t).URL("b24")
	at := func(skew time.Duration) *etcd.Store {
		return open(t, url, etcd.WithNow(func() time.Time { return time.Now().Add(skew) }))
	}
	ahead, behind := at(3*time.Minute), at(-3*time.Minute)
	for i, s := range [][2]*etcd.Store{{ahead, behind}, {behind, ahead}} {
		first := claimOf("job", "")
		first.Namespace = "ns-" + string(rune('a'+i))
		first.TTL = 2 * onerun.MinTTL
		other := first
		other.Owner, other.RunID = onerun.NewID(), onerun.NewRunID(time.Now())
		g := granted(t, s[0], first)
		refusedAs(t, s[1], other, onerun.RefusedLocked)
		sent := time.Now()
		if _, err := s[0].Heartbeat(soon(t), g.Lease); err != nil {
			t.Fatal(err)
		}
		next := eventually(t, s[1], other)
		if passed := time.Since(sent); passed < first.TTL {
			t.Errorf("granted %s after the last heartbeat, whose lease is %s", passed, first.TTL)
		}
		if next.Lease.Token <= g.Lease.Token {
			t.Errorf("token %d after %d of a host with another clock", next.Lease.Token, g.Lease.Token)
		}
	}
}

// TestNamesOfAnyLength (B22): what is too long for a key is told apart by its hash.
func TestNamesOfAnyLength(t *testing.T) {
	t.Parallel()
	s := open(t, sharedServer(t).URL("b22"))
	names := []string{
		strings.Repeat("日", 90), strings.Repeat("日", 89) + "月", strings.Repeat("a", 200), strings.Repeat("a", 199) + "b",
		strings.Repeat("x", 250) + "1", strings.Repeat("x", 250) + "2", "Case", "case", "space", "space ", "..", ".", "a/b", "a%2Fb", "~", "%",
	}
	for _, n := range names {
		granted(t, s, onerun.Claim{Namespace: "ns", Lock: onerun.LockName(n), Owner: "owner of " + n, Policy: onerun.Policy{TTL: time.Minute}})
	}
	for _, n := range names {
		refusedAs(t, s, onerun.Claim{Namespace: "ns", Lock: onerun.LockName(n), Owner: onerun.NewID()}, onerun.RefusedLocked)
	}
	locks, err := s.Locks(soon(t), "ns")
	if err != nil || len(locks) != len(names) {
		t.Errorf("locks: %d, %v, want %d", len(locks), err, len(names))
	}
}
