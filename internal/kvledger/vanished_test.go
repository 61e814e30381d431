package kvledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// forget takes keys out of a space, as a person does.
func (s *space) forget(prefixes ...string) {
	for _, k := range slices.Clone(s.order) {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(k, p) }) {
			s.remove(k)
		}
	}
}

func isRefused(t *testing.T, l *kvledger.Ledger, c onerun.Claim, reason onerun.Reason) {
	t.Helper()
	_, err := l.Claim(t.Context(), c)
	var ref *onerun.Refusal
	if !errors.As(err, &ref) || ref.Reason != reason {
		t.Errorf("claim of %s: expected refused %s, got %v", c.Key(), reason, err)
	}
}

// isLost checks that an owner is told so, by whatever it does, and that nothing is made again.
func isLost(t *testing.T, s *space, l *kvledger.Ledger, lease onerun.Lease) {
	t.Helper()
	before := slices.Clone(s.order)
	one := int64(1)
	_, beat := l.Heartbeat(t.Context(), lease)
	for what, err := range map[string]error{
		"heartbeat": beat,
		"report":    l.Report(t.Context(), lease, onerun.Progress{Processed: &one}),
		"end":       l.Finish(t.Context(), lease, onerun.Outcome{Status: onerun.Succeeded}),
	} {
		if !errors.Is(err, onerun.ErrLost) {
			t.Errorf("%s: expected that it is lost, got %v", what, err)
		}
	}
	if !slices.Equal(before, s.order) {
		t.Errorf("keys before: %q, after: %q", before, s.order)
	}
}

// TestRunVanished: its lease is lost, and nobody gets the lock before that is over.
func TestRunVanished(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	c := claim("job", "p")
	g := granted(t, l, c)
	s.forget("run/")
	isLost(t, s, l, g.Lease)
	if g, err := l.Claim(t.Context(), c); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("the claim again: %+v, %v", g, err)
	}
	isRefused(t, l, claim("job", "p"), onerun.RefusedLocked)
	s.advance(c.TTL)
	granted(t, l, claim("job", "p"))
}

// TestLockVanished: its owner may be at work for as long as its lease, so until then nobody gets the lock; and then
// the run is closed, and no token is used again.
func TestLockVanished(t *testing.T) {
	for what, deleted := range map[string][]string{"record": {"lock/"}, "record and lease": {"lock/", "life/"}} {
		t.Run(what, func(t *testing.T) {
			s := newSpace(t)
			l := open(s)
			c := claim("job", "p")
			c.Retries, c.RetryLost = 1, true
			g := granted(t, l, c)
			s.forget(deleted...)
			isLost(t, s, open(s), g.Lease)
			d, err := l.Detail(t.Context(), "ns", g.Lease.RunID)
			if err != nil || !d.Run.Stale || !strings.Contains(d.Run.Evidence, "vanished") {
				t.Errorf("the run: %+v, %v", d.Run, err)
			}
			isRefused(t, l, claim("job", "p"), onerun.RefusedRunning)
			isRefused(t, l, claim("job", "q"), onerun.RefusedLocked)
			isLost(t, s, l, g.Lease)
			s.advance(c.TTL)
			next, err := l.Claim(t.Context(), claim("job", "p"))
			if err != nil { // its lease begins once more, when that of the deleted lock is over
				s.advance(c.TTL)
				next = granted(t, l, claim("job", "p"))
			}
			if next.Lease.Attempt != 2 || next.Lease.Token <= g.Lease.Token {
				t.Errorf("granted after %+v: %+v", g.Lease, next.Lease)
			}
			isLost(t, s, l, g.Lease)
			if _, err := l.Heartbeat(t.Context(), next.Lease); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLockVanishedAndIsAnothers: the run that is left can be closed, by a person or by a claim, and the lock of the one
// that has it now stays.
func TestLockVanishedAndIsAnothers(t *testing.T) {
	for _, by := range []string{"a person", "a claim"} {
		t.Run(by, func(t *testing.T) {
			s := newSpace(t)
			l := open(s)
			g := granted(t, l, claim("job", "p"))
			s.forget("lock/", "life/")
			other := granted(t, l, claim("job", "q"))
			if by == "a claim" {
				isRefused(t, l, claim("job", "p"), onerun.RefusedFailed)
			} else if _, err := l.Resolve(t.Context(), onerun.Resolution{
				Namespace: "ns", RunID: g.Lease.RunID, Expect: onerun.Expected(g.Run), As: onerun.Failed, Who: onerun.Who{By: "ana", Reason: "looked"},
			}); err != nil {
				t.Error(err)
			}
			if _, err := l.Heartbeat(t.Context(), other.Lease); err != nil {
				t.Errorf("the owner's heartbeat: %v", err)
			}
			if d, err := l.Detail(t.Context(), "ns", g.Lease.RunID); err != nil || d.Run.Status != onerun.Failed {
				t.Errorf("the run that was left: %+v, %v", d.Run, err)
			}
		})
	}
}

// TestKeysReadApart: where a store reads each key at a moment of its own, nobody is taken for dead who has just begun, or
// just ended.
func TestKeysReadApart(t *testing.T) {
	s := newSpace(t)
	l := kvledger.New(s, kvledger.Options{Name: "a space in memory", Apart: true})
	beside := open(s)
	at := func(key string, backward bool, do func()) {
		s.backward = backward
		s.apart = func(k string) {
			if k == key {
				s.apart = nil
				do()
			}
		}
	}
	const lock, life = "lock/ns/job%2Fjob", "life/ns/job%2Fjob"
	var alone, g onerun.Grant
	at(lock, true, func() { // its lease was looked for before it began
		c := claim("", "")
		c.Lock = onerun.JobLock("job")
		alone = granted(t, beside, c)
	})
	if ref, err := l.Explain(t.Context(), claim("job", "q")); err != nil || ref == nil || ref.Reason != onerun.RefusedLocked {
		t.Errorf("explain: %+v, %v", ref, err)
	}
	if err := beside.Finish(t.Context(), alone.Lease, onerun.Outcome{}); err != nil {
		t.Fatal(err)
	}
	g = granted(t, beside, claim("job", "p"))
	at(life, false, func() { // it has ended when its lease is looked for
		if err := beside.Finish(t.Context(), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
			t.Error(err)
		}
	})
	if d, err := l.Detail(t.Context(), "ns", g.Lease.RunID); err != nil || d.Run.Stale {
		t.Errorf("a run that ended while it was read: %+v, %v", d.Run, err)
	}
}

// TestRoomToEnd: what was claimed can be ended, with whatever text.
func TestRoomToEnd(t *testing.T) {
	for size := kvledger.MaxValue; ; size -= 1000 {
		s := newSpace(t)
		l := open(s)
		c := claim("job", "p")
		c.Labels = map[string]string{"l": strings.Repeat("x", size)}
		g, err := l.Claim(t.Context(), c)
		if errors.Is(err, onerun.ErrUsage) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, Error: strings.Repeat("<", onerun.MaxError), Output: &onerun.Output{Text: "so far"}}
		if err := l.Finish(t.Context(), g.Lease, out); err != nil {
			t.Errorf("the end of a run with labels of %d bytes: %v", size, err)
		}
		if size < kvledger.MaxValue/2 {
			t.Errorf("labels may have %d bytes only", size)
		}
		return
	}
}

// TestChainsWhileSomebodyWrites: an event that is written behind what was read already is not missed.
func TestChainsWhileSomebodyWrites(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	paused := map[string]bool{}
	toggle := func(job string) {
		do := l.Pause
		if paused[job] {
			do = l.Resume
		}
		paused[job] = !paused[job]
		if err := do(t.Context(), onerun.PauseRequest{Namespace: "ns", Job: job, Who: onerun.Who{By: "ana", Reason: "why"}}); err != nil {
			t.Fatal(err)
		}
	}
	for range kvledger.MaxRange + 1 {
		toggle("b")
	}
	s.ranged = func(from string) {
		if strings.HasPrefix(from, "event/ns/job/b/") {
			s.ranged = nil
			toggle("a")
			toggle("c")
		}
	}
	if n, loose, err := l.Chains(t.Context()); err != nil || loose != "" || n != kvledger.MaxRange+3 {
		t.Errorf("%d events, %q, %v", n, loose, err)
	}
}

// TestPrunedIsRecorded: also where the first step finds nothing to remove; and once. What is forgotten isn't looked at one by one.
func TestPrunedIsRecorded(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	run := func(job, partition string) {
		if err := l.Finish(t.Context(), granted(t, l, claim(job, partition)).Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5100 { // more than one step looks at
		run("other", fmt.Sprint(i))
	}
	for i := range 250 {
		run("job", fmt.Sprint(i))
	}
	prune := func(q onerun.PruneRequest) (removed int64) {
		q.Namespace, q.Job, q.Who, q.Before, q.Limit = "ns", "job", onerun.Who{By: "ana", Reason: "why"}, s.clock.Add(time.Hour), 100
		for range 20 {
			p, err := l.Prune(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			removed += p.Runs + p.Forgotten
			if q.Cursor = p.Cursor; !p.More {
				return removed
			}
		}
		t.Fatal("there is always more")
		return 0
	}
	if n := prune(onerun.PruneRequest{}); n != 250 {
		t.Errorf("removed: %d", n)
	}
	if all, err := l.Decisions(t.Context(), "ns", "job"); err != nil || len(all) != 1 {
		t.Errorf("recorded: %+v, %v", all, err)
	}
	for i := range 1000 {
		run("third", fmt.Sprint(i))
	}
	if _, err := l.Prune(t.Context(), onerun.PruneRequest{Namespace: "ns", Job: "third", Oldest: true, Limit: 1000}); err != nil {
		t.Fatal(err)
	}
	before := s.reads
	if n := prune(onerun.PruneRequest{ForgetKeys: true}); n != 250 {
		t.Errorf("forgotten: %d", n)
	}
	if n := s.reads - before; n > 500 {
		t.Errorf("reads to forget 250 keys among 1250: %d", n)
	}
}
