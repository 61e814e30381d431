package kvledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// untold calls until the store answers: each of its replies can get lost.
func untold(t *testing.T, f func() error) {
	t.Helper()
	for range 5 {
		err := f()
		if err == nil {
			return
		}
		if !errors.Is(err, onerun.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	t.Fatal("no answer after five calls")
}

// TestLostReplies: whichever reply of a life is lost, asked again it is the same grant and the
// same end, and the run was executed once.
func TestLostReplies(t *testing.T) {
	ctx := t.Context()
	for lost := 1; ; lost++ {
		s := newSpace(t)
		n := 0
		s.fault = func(int, kvledger.Txn) (bool, bool) {
			n++
			return false, n == lost
		}
		l := open(s)
		c := claim("job", "p")
		for range 2 {
			var g onerun.Grant
			c.Retries = 1
			untold(t, func() (err error) { g, err = l.Claim(ctx, c); return err })
			untold(t, func() error { _, err := l.Heartbeat(ctx, g.Lease); return err })
			untold(t, func() error {
				return l.Report(ctx, g.Lease, onerun.Progress{Output: &onerun.Output{Text: "so far", Total: 6}})
			})
			out := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, Output: &onerun.Output{Text: "all of it", Total: 9}}
			untold(t, func() error { return l.Finish(ctx, g.Lease, out) })
			c.Owner, c.RunID = onerun.NewID(), onerun.NewRunID(time.Now())
		}
		runs, err := l.Runs(ctx, onerun.Query{Namespace: "ns"})
		if err != nil || len(runs) != 1 {
			t.Fatalf("reply %d lost: runs %v, %v", lost, runs, err)
		}
		d, err := l.Detail(ctx, "ns", runs[0].RunID)
		if err != nil || len(d.Attempts) != 2 || d.Run.Status != onerun.Failed || !d.Run.NextRetryAt.IsZero() {
			t.Fatalf("reply %d lost: expected two attempts that FAILED, got %+v, %v", lost, d, err)
		}
		if o, err := l.Output(ctx, "ns", runs[0].RunID, 2); err != nil || o.Text != "all of it" {
			t.Fatalf("reply %d lost: output %+v, %v", lost, o, err)
		}
		if n < lost {
			if lost < 8 {
				t.Errorf("a life of two attempts has %d commits only", n)
			}
			return
		}
	}
}

// TestNeverDecided: somebody who is always slower is told so, and doesn't try for ever.
func TestNeverDecided(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	granted(t, l, claim("first", ""))
	tries := 0
	s.fault = func(int, kvledger.Txn) (bool, bool) { tries++; return true, false }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := l.Claim(ctx, claim("job", "p")); !errors.Is(err, onerun.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("expected that it is unavailable, got %v", err)
	}
	if tries != 100 {
		t.Errorf("it tried %d times, want 100", tries)
	}
}

// TestHistoryCostsNoClaim: after 20,000 acquisitions of one name, and a thousand runs of a job, a
// claim reads as little as at first.
func TestHistoryCostsNoClaim(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	cost := func(c onerun.Claim) int {
		fresh := open(s) // which knows nothing
		if _, err := fresh.Jobs(t.Context(), "ns"); err != nil {
			t.Fatal(err)
		}
		before := s.reads
		g := granted(t, fresh, c)
		took := s.reads - before
		if err := fresh.Finish(t.Context(), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
			t.Fatal(err)
		}
		return took
	}
	lock := onerun.Claim{Namespace: "ns", Lock: onerun.NamedLock("n"), Owner: "x", Policy: onerun.Policy{TTL: time.Minute}}
	first, firstRun := cost(lock), cost(claim("job", "first"))
	for i := range 20_000 {
		lock.Owner = fmt.Sprint(i)
		if err := l.Finish(t.Context(), granted(t, l, lock).Lease, onerun.Outcome{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.keys); n > 20 {
		t.Errorf("keys after 20,000 acquisitions: %d", n)
	}
	for i := range 1000 {
		g := granted(t, l, claim("job", fmt.Sprint(i)))
		if err := l.Finish(t.Context(), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
			t.Fatal(err)
		}
	}
	lock.Owner = "last"
	if last, lastRun := cost(lock), cost(claim("job", "last")); last != first || lastRun != firstRun || lastRun > 2 {
		t.Errorf("reads of a claim: %d and %d at first, %d and %d at last", first, firstRun, last, lastRun)
	}
}

// TestGuesses: a client that was the last at a lock doesn't read it again, and one whose guess is
// wrong decides by what is there.
func TestGuesses(t *testing.T) {
	s := newSpace(t)
	a, b := open(s), open(s)
	end := func(l *kvledger.Ledger, g onerun.Grant) {
		t.Helper()
		if err := l.Finish(t.Context(), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
			t.Fatal(err)
		}
	}
	end(a, granted(t, a, claim("job", "1")))
	before := s.reads
	end(a, granted(t, a, claim("job", "2")))
	if n := s.reads - before; n != 0 {
		t.Errorf("reads of a claim and its end, of a client that was the last there: %d, want none", n)
	}
	g := granted(t, b, claim("job", "3"))
	var ref *onerun.Refusal
	if _, err := a.Claim(t.Context(), claim("job", "4")); !errors.As(err, &ref) || ref.Reason != onerun.RefusedLocked {
		t.Errorf("claim beside another: %v", err)
	}
	end(b, g)
	end(a, granted(t, a, claim("job", "5")))
	if _, err := a.Claim(t.Context(), claim("job", "3")); !errors.As(err, &ref) || ref.Reason != onerun.RefusedSucceeded {
		t.Errorf("claim of what another has done: %v", err)
	}
	if err := b.Pause(t.Context(), onerun.PauseRequest{Namespace: "ns", Job: "job", Who: onerun.Who{By: "ana", Reason: "why"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Claim(t.Context(), claim("job", "6")); !errors.As(err, &ref) || ref.Reason != onerun.RefusedPaused {
		t.Errorf("claim of a paused job: %v", err)
	}
}

// TestManyAttempts: a run that is executed very often stays small, and nothing of it is lost.
func TestManyAttempts(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	const times = 40
	var leases []onerun.Lease
	for i := range times {
		c := claim("job", "p")
		c.Retries = times - 1
		g := granted(t, l, c)
		leases = append(leases, g.Lease)
		out := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, Error: strings.Repeat("€", onerun.MaxError), Output: &onerun.Output{Text: fmt.Sprint("attempt ", i+1)}}
		if err := l.Finish(t.Context(), g.Lease, out); err != nil {
			t.Fatal(err)
		}
	}
	id := leases[0].RunID
	d, err := l.Detail(t.Context(), "ns", id)
	if err != nil || len(d.Attempts) != times || !d.Run.NextRetryAt.IsZero() {
		t.Fatalf("attempts: %d, %v, next retry %s", len(d.Attempts), err, d.Run.NextRetryAt)
	}
	if n := len(s.keys["run/"+id].Value); n > 100<<10 {
		t.Errorf("the run's record has %d bytes", n)
	}
	for i, lease := range leases {
		if o, err := l.Output(t.Context(), "ns", id, i+1); err != nil || o.Text != fmt.Sprint("attempt ", i+1) {
			t.Errorf("output of attempt %d: %+v, %v", i+1, o, err)
		}
		del, err := l.Deliver(t.Context(), lease, onerun.Outcome{Status: onerun.Succeeded})
		if err != nil || del.Kind != onerun.DeliveredKept {
			t.Errorf("a late end of attempt %d: %+v, %v", i+1, del, err)
		}
	}
	if d, err = l.Detail(t.Context(), "ns", id); err != nil {
		t.Fatal(err)
	}
	for _, a := range d.Attempts {
		if a.Late == nil || a.Late.Status != onerun.Succeeded {
			t.Errorf("attempt %d lacks its late end", a.Number)
		}
	}
	if n, loose, err := l.Chains(t.Context()); err != nil || loose != "" || n != times {
		t.Errorf("journal: %d events, %q, %v", n, loose, err)
	}
}

// TestLargeOutput: what is longer than a value may be comes back as it was, and goes when it is
// replaced and when its run is pruned.
func TestLargeOutput(t *testing.T) {
	s := newSpace(t)
	l := open(s)
	g := granted(t, l, claim("job", "p"))
	text := strings.Repeat("0123456789abcde\n", onerun.MaxOutput/16)
	for _, out := range []string{text[:1<<20], text} {
		if err := l.Report(t.Context(), g.Lease, onerun.Progress{Output: &onerun.Output{Text: out}}); err != nil {
			t.Fatal(err)
		}
		o, err := l.Output(t.Context(), "ns", g.Lease.RunID, 1)
		if err != nil || o.Text != out {
			t.Fatalf("output of %d bytes: %d, %v", len(out), len(o.Text), err)
		}
	}
	if err := l.Finish(t.Context(), g.Lease, onerun.Outcome{Status: onerun.Succeeded, Output: &onerun.Output{Text: "short"}}); err != nil {
		t.Fatal(err)
	}
	chunks := func() (n int) {
		for k := range s.keys {
			if strings.HasPrefix(k, "output/") {
				n++
			}
		}
		return n
	}
	if n := chunks(); n != 1 {
		t.Errorf("keys of outputs: %d, want 1", n)
	}
	if p, err := l.Prune(t.Context(), onerun.PruneRequest{Namespace: "ns", Oldest: true}); err != nil || p.Runs != 1 || chunks() != 0 {
		t.Errorf("pruned: %+v, %v, keys of outputs: %d", p, err, chunks())
	}
}

// TestFormat is what stands in the store, so that no change of a name in this program changes it
// unnoticed.
func TestFormat(t *testing.T) {
	s := newSpace(t)
	s.clock = time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC)
	l := open(s)
	c := claim("settle", "일일")
	c.Owner, c.RunID = "owner", "run-1"
	granted(t, l, c)
	want := map[string]string{
		"meta":                                   `{"format":1}`,
		"lock/ns/job%2Fsettle":                   `{"Namespace":"ns","Lock":"job/settle","Token":1789434000000,"Owner":"owner","RunID":"run-1","Attempt":1,"Policy":{"TTL":60000000000,"OnCrash":"auto","StaleAfter":0,"Retries":0,"BackoffMin":0,"BackoffMax":0,"RetryLost":false,"TwoPeople":false},"At":"2026-09-15T01:00:00.000001Z","Expires":"2026-09-15T01:01:00.000001Z"}`,
		"life/ns/job%2Fsettle":                   `{"Owner":"owner","Expires":"2026-09-15T01:01:00.000001Z"}`,
		"held/ns/job%2Fsettle":                   `job/settle`,
		"key/ns/settle/%EC%9D%BC%EC%9D%BC":       `{"RunID":"run-1"}`,
		"time/ns/98210565999999998/run-1":        `run-1`,
		"hist/ns/settle/98210565999999998/run-1": `run-1`,
	}
	for k, v := range want {
		if got := string(s.keys[k].Value); got != v {
			t.Errorf("%s: expected\n%s, got\n%s", k, v, got)
		}
	}
	run := string(s.keys["run/run-1"].Value)
	for _, part := range []string{
		`"RunID":"run-1"`, `"Partition":"일일"`, `"Status":"RUNNING"`, `"Attempt":1`, `"StartedAt":"2026-09-15T01:00:00.000001Z"`, `"Owner":"owner"`,
		`"Token":1789434000000`, `"LeaseExpiresAt":"2026-09-15T01:01:00.000001Z"`, `"Attempts":[{"Number":1,`, `"Policy":{"TTL":60000000000`, `"EventID":0`,
	} {
		if !strings.Contains(run, part) {
			t.Errorf("run: expected %s in\n%s", part, run)
		}
	}
	if len(s.keys) != len(want)+1 {
		t.Errorf("keys: %d, want %d", len(s.keys), len(want)+1)
	}
}
