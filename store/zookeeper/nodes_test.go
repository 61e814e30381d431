package zookeeper

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// TestRefusalsLeaveNothing: a job that is refused again and again, each time with another run's id, makes no more nodes
// than at first.
func TestRefusalsLeaveNothing(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	url := freshURL(addr)
	s, z := open(t, url), direct(t, addr)
	granted(t, s, claimOf("settle", "p", time.Minute))
	var count func(name string) int
	count = func(name string) int {
		names, _, err := z.Children(name)
		must(t, err, "list")
		n := len(names)
		for _, c := range names {
			n += count(name + "/" + c)
		}
		return n
	}
	refusal := func(s *Store, hours int) {
		t.Helper()
		c := claimOf("settle", "q", time.Minute)
		c.RunID = onerun.NewRunID(time.Now().Add(time.Duration(hours) * time.Hour))
		refused(t, s, c, onerun.RefusedLocked)
	}
	refusal(s, 0)
	before := count(s.space.chroot)
	for h := range 10 {
		refusal(s, h+1)
		refusal(open(t, url), h+1)
	}
	if after := count(s.space.chroot); after != before {
		t.Errorf("nodes after one refusal: %d, after 20 more: %d", before, after)
	}
	// Absence is checked all the same: of a node, and of one above it.
	sp := s.space
	for _, k := range []string{"run/0193f0a1-b2c3-7000-8000-000000000001", "key/default/other/p"} {
		none := reads(t, sp, k)
		commits(t, sp, kvledger.Txn{Checks: checks(none), Writes: []kvledger.Write{put("meta", "{}")}})
		commits(t, openSpace(t, url), kvledger.Txn{Writes: []kvledger.Write{put(k, "here")}})
		fails(t, sp, kvledger.Txn{Checks: checks(none), Writes: []kvledger.Write{put("meta", "{}")}})
	}
}

// TestSweepOfManyLongNames: what was deleted at once can have more names than fit into a request.
func TestSweepOfManyLongNames(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	s, z := openSpace(t, freshURL(addr)), direct(t, addr)
	long := strings.Repeat("x", 160)
	for i := range 24 {
		var puts, deletes kvledger.Txn
		for j := range kvledger.MaxOps {
			k := strings.Join([]string{"skip", long, long, long, long, fmt.Sprint(i, "-", j)}, "/")
			puts.Writes, deletes.Writes = append(puts.Writes, put(k, "x")), append(deletes.Writes, kvledger.Write{Key: k, Delete: true})
		}
		commits(t, s, puts)
		commits(t, s, deletes)
	}
	var notes []string
	for i := range goneShards {
		names, _, err := z.Children(s.at("gone", fmt.Sprintf("%x", i)))
		must(t, err, "list")
		for _, n := range names {
			notes = append(notes, s.at("gone", fmt.Sprintf("%x", i), n))
		}
	}
	now, err := s.ask(soon(t))
	must(t, err, "ask for the time")
	if n, err := s.sweepNotes(soon(t), now.Add(2*sweepPause), epochOf(t, &Store{space: s}), notes); err != nil || n == 0 {
		t.Errorf("swept of %d notes: %d nodes, %v", len(notes), n, err)
	}
}

// TestStoreDeleted: nothing is left, so nothing is known. The owner is told so, and who comes next begins anew.
func TestStoreDeleted(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	url := freshURL(addr)
	s, other, z := open(t, url), open(t, url), direct(t, addr)
	g := granted(t, s, claimOf("settle", "p", time.Minute))
	refused(t, other, claimOf("settle", "p", time.Minute), onerun.RefusedRunning)
	var remove func(name string)
	remove = func(name string) {
		for {
			names, _, err := z.Children(name)
			if errors.Is(err, zk.ErrNoNode) { // a sweep was faster
				return
			}
			must(t, err, "list")
			for _, c := range names {
				remove(name + "/" + c)
			}
			err = z.Delete(name, -1)
			if errors.Is(err, zk.ErrNotEmpty) { // or has noted something meanwhile
				continue
			}
			if !errors.Is(err, zk.ErrNoNode) {
				must(t, err, "delete")
			}
			return
		}
	}
	remove(s.space.chroot)
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("heartbeat: %v", err)
	}
	next := granted(t, other, claimOf("settle", "p", time.Minute))
	if next.Lease.Token <= g.Lease.Token {
		t.Errorf("token %d after %d", next.Lease.Token, g.Lease.Token)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("end: %v", err)
	}
	succeed(t, other, next)
	// A lock that is made again has the versions of the one that was deleted: whoever knows that one must not take it for its own.
	lock := claimOf("", "", time.Minute)
	lock.Lock, lock.RunID = onerun.NamedLock("n"), ""
	late := granted(t, s, lock)
	was := epochOf(t, s)
	for range 3 { // made again it is another, or else the time after
		remove(s.space.chroot)
		_, err := open(t, url).Locks(soon(t), "ns")
		must(t, err, "make a store")
		if epochOf(t, s) != was {
			break
		}
	}
	lock.Owner = onerun.NewID()
	granted(t, other, lock)
	if _, err := s.Heartbeat(soon(t), late.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("heartbeat of a lock that was made again for another: %v", err)
	}
	remove(s.space.chroot)
	s.space.clock.forget()
	if _, err := s.space.Now(soon(t)); err != nil {
		t.Errorf("the time: %v", err)
	}
}

// epochOf is the version of a store's node epoch.
func epochOf(t testing.TB, s *Store) int32 {
	t.Helper()
	stat, err := look(soon(t), s.space.conn, func(z *zk.Conn) (*zk.Stat, error) {
		_, stat, err := z.Get(s.space.at("epoch"))
		return stat, err
	})
	must(t, err, "look at the epoch")
	return stat.Version
}

// TestEndWithTooMuchOutput: where a server takes no request as large as that, the end is recorded without what was printed.
func TestEndWithTooMuchOutput(t *testing.T) {
	t.Parallel()
	server := server(t, "-Djute.maxbuffer=65536")
	s := open(t, freshURL(server.Addr()))
	g := granted(t, s, claimOf("settle", "p", time.Minute))
	out := onerun.Outcome{Status: onerun.Succeeded, Output: &onerun.Output{Text: strings.Repeat("0123456789abcde\n", 10_000)}}
	must(t, s.Finish(soon(t), g.Lease, out), "finish")
	refused(t, s, claimOf("settle", "p", time.Minute), onerun.RefusedSucceeded)
}

// TestContents: a lease that can't be read is an error, not one that is over.
func TestContents(t *testing.T) {
	t.Parallel()
	for _, c := range []content{
		{kind: kindValue, id: "0123", value: []byte("v\n")}, {kind: kindMortal, id: "0123", ttl: onerun.MaxTTL, again: true}, {kind: kindDeleted, id: "0123", value: []byte{}},
	} {
		if got, err := contentOf(c.bytes()); err != nil || !bytes.Equal(got.bytes(), c.bytes()) || got.ttl != c.ttl {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	for _, text := range []string{"x 0123\n", "v\n", "v 0123", "v xyz\n", "m 0123\n", "m 0123 +\n", "m 0123 0\n", "m 0123 -5\n", "m 0123 9999999999999\n", "m 0123 soon\n"} {
		if c, err := contentOf([]byte(text)); err == nil {
			t.Errorf("%q: expected that it can't be read, got %+v", text, c)
		}
	}
}
