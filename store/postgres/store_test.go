package postgres_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

// TestProvenDead: who is proven dead is closed at once, as owner_died, if its own policy lets
// that be; and nobody else is.
func TestProvenDead(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c := claimOf("settle", "2026-09-15")
	c.Retries = 1
	first := granted(t, s, c)
	_, err := s.ClaimKnowing(soon(t), again(c), dead(onerun.NewID()))
	isRefusal(t, err, onerun.RefusedRunning) // another's death is no proof of this one's
	next, err := s.ClaimKnowing(soon(t), again(c), dead(onerun.NewID(), c.Owner))
	if err != nil {
		t.Fatal(err)
	}
	if next.Lease.Attempt != 2 || next.Lease.Token <= first.Lease.Token || len(next.TakenOver) != 1 || next.TakenOver[0].Reason != onerun.ReasonOwnerDied {
		t.Errorf("expected attempt 2 after owner_died, got attempt %d, token %d after %d, taken over %+v", next.Lease.Attempt, next.Lease.Token, first.Lease.Token, next.TakenOver)
	}
	if _, err := s.Heartbeat(soon(t), first.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a heartbeat of the dead: %v", err)
	}
	if a := detail(t, s, c.RunID).Attempts[0]; a.Reason != onerun.ReasonOwnerDied || a.ClosedBy != onerun.ByMachine {
		t.Errorf("attempt 1: %s, closed by %q", a.Reason, a.ClosedBy)
	}

	byHand := claimOf("pay", "2026-09-15")
	byHand.OnCrash = onerun.CrashManual
	granted(t, s, byHand)
	_, err = s.ClaimKnowing(soon(t), again(byHand), dead(byHand.Owner))
	isRefusal(t, err, onerun.RefusedStale)
	_, err = s.ClaimKnowing(soon(t), claimOf("pay", "2026-09-16"), dead(byHand.Owner))
	isRefusal(t, err, onerun.RefusedStale)

	alone := claimOf("", "")
	alone.Lock, alone.RunID = onerun.NamedLock("db"), ""
	granted(t, s, alone)
	other := alone
	other.Owner = onerun.NewID()
	if _, err := s.ClaimKnowing(soon(t), other, dead(alone.Owner)); err != nil {
		t.Errorf("a lock alone: %v", err)
	}
	// A key that runs under another lock than the one that is asked for.
	elsewhere := claimOf("report", "2026-09-15")
	elsewhere.Lock, elsewhere.Retries = onerun.NamedLock("reports"), 1
	granted(t, s, elsewhere)
	under := again(elsewhere)
	under.Lock = onerun.JobLock("report")
	if g, err := s.ClaimKnowing(soon(t), under, dead(elsewhere.Owner)); err != nil || g.Lease.Attempt != 2 {
		t.Errorf("under another lock: attempt %d, %v", g.Lease.Attempt, err)
	}
}

// TestTokens: a token is larger than the last one, whatever the server's clock says.
func TestTokens(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	alone := claimOf("", "")
	alone.Lock, alone.RunID = onerun.NamedLock("db"), ""
	for _, c := range []onerun.Claim{claimOf("settle", ""), alone} {
		g := granted(t, s, c)
		succeed(t, s, g)
		// As if the clock had been a year ahead.
		ahead := g.Lease.Token + 365*24*3600*1000
		mustExec(t, direct(t, url), "UPDATE "+schemaOf(url)+".onerun_lock SET token = $1 WHERE lock = $2", ahead, string(c.Lock))
		if next := granted(t, s, again(c)); next.Lease.Token != ahead+1 {
			t.Errorf("%s: token %d after %d", c.Lock, next.Lease.Token, ahead)
		}
	}
}

// TestVanished: rows that somebody deleted under a run that goes on.
func TestVanished(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	c := claimOf("settle", "2026-09-15")
	c.TTL = onerun.MinTTL
	c.Retries, c.RetryLost = 1, true
	g := granted(t, s, c)
	mustExec(t, conn, "DELETE FROM onerun_lock")
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a heartbeat without the lock's row: %v", err)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("an end without the lock's row: %v", err)
	}
	// Its owner may be at work for as long as its lease: until then nobody gets the lock.
	refused(t, s, claimOf("settle", "2026-09-16"), onerun.RefusedLocked)
	refused(t, s, again(c), onerun.RefusedRunning)
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a heartbeat when the lock's row is put back: %v", err)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("an end when the lock's row is put back: %v", err)
	}
	waitFor(t, url, "the lease to be over", "SELECT expires_at < clock_timestamp() FROM "+schemaOf(url)+".onerun_lock")
	g = granted(t, s, again(c))
	if g.Lease.Attempt != 2 {
		t.Errorf("attempt %d, expected the second", g.Lease.Attempt)
	}
	mustExec(t, conn, "CREATE TABLE kept AS SELECT * FROM onerun_attempt; DELETE FROM onerun_attempt")
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a heartbeat without the attempt: %v", err)
	}
	mustExec(t, conn, "INSERT INTO onerun_attempt SELECT * FROM kept; DROP TABLE kept")
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("a heartbeat when it is back: %v", err)
	}
	mustExec(t, conn, "DELETE FROM onerun_run")
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a heartbeat without the run: %v", err)
	}
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("an end without the run: %v", err)
	}
}

// TestBugsAreErrors: the two unique indexes turn what must never be into an error.
func TestBugsAreErrors(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	c := claimOf("settle", "2026-09-15")
	granted(t, s, c)
	// A bug that took the lock away from its owner, and forgot its run.
	mustExec(t, conn, "UPDATE onerun_lock SET owner = NULL; UPDATE onerun_run SET lock = 'name/other'; DROP INDEX onerun_run_running")
	mustExec(t, conn, "CREATE UNIQUE INDEX onerun_run_running ON onerun_run (namespace) WHERE status = 'RUNNING'")
	_, err := s.Claim(soon(t), claimOf("settle", "2026-09-16"))
	told(t, "a second run under a lock", err, onerun.ErrInternal, "onerun_run_running", "report")
}

// TestOutput: what a job printed is kept as it can be, and never costs the end.
func TestOutput(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	for what, text := range map[string]string{
		"NUL":          "before\x00after",
		"broken UTF-8": "a\xff\xfeb\xc3",
		"escapes":      `\u0000 \\u0000 "quoted" $1 ' ;`,
		"1 MiB":        strings.Repeat("line of output, 한국어\n", 1<<20/24),
		"1 MiB of NUL": strings.Repeat("\x00", 1<<20),
	} {
		g := granted(t, s, claimOf("settle", strings.ReplaceAll(what, " ", "-")))
		o := onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, Error: text, Signal: "SIG\x00", Output: &onerun.Output{Text: text, Total: int64(len(text))}}
		if err := s.Report(soon(t), g.Lease, onerun.Progress{Output: o.Output}); err != nil {
			t.Errorf("%s: report: %v", what, err)
		}
		if err := s.Finish(soon(t), g.Lease, o); err != nil {
			t.Errorf("%s: finish: %v", what, err)
			continue
		}
		got, err := s.Output(soon(t), onerun.DefaultNamespace, g.Lease.RunID, 1)
		if want := o.Output.Cleaned(); err != nil || got.Text != want.Text || got.Total != want.Total {
			t.Errorf("%s: %d bytes of %d are kept, expected %d of %d (%v)", what, len(got.Text), got.Total, len(want.Text), want.Total, err)
		}
		if d := detail(t, s, g.Lease.RunID); d.Run.Error != onerun.CutError(text) {
			t.Errorf("%s: the error is kept as %.40q", what, d.Run.Error)
		}
	}
	// The server refuses the text, for whatever reason.
	mustExec(t, direct(t, url), "ALTER TABLE "+schemaOf(url)+".onerun_output ADD CONSTRAINT no_room CHECK (bytes_total < 1) NOT VALID")
	for what, end := range map[string]func(l onerun.Lease, o onerun.Outcome) error{
		"finish":  func(l onerun.Lease, o onerun.Outcome) error { return s.Finish(soon(t), l, o) },
		"deliver": func(l onerun.Lease, o onerun.Outcome) error { _, err := s.Deliver(soon(t), l, o); return err },
	} {
		g := granted(t, s, claimOf("refused", what))
		if err := end(g.Lease, onerun.Outcome{Status: onerun.Succeeded, Output: &onerun.Output{Text: "x", Total: 1}}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if d := detail(t, s, g.Lease.RunID); d.Run.Status != onerun.Succeeded {
			t.Errorf("%s: a text that is refused cost the status: %s", what, d.Run.Status)
		}
	}
}

// TestBrokenClock: an end tells when the work ended by a worker's clock, which can be wrong
// by anything.
func TestBrokenClock(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	for what, at := range map[string]time.Time{
		"before": time.Date(-40000, 1, 1, 0, 0, 0, 0, time.UTC), "after": time.Date(400000, 1, 1, 0, 0, 0, 0, time.UTC), "epoch": time.Unix(0, 0),
	} {
		c := claimOf("settle", what)
		c.ScheduledAt = at
		code := 1 << 40
		g := granted(t, s, c)
		if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit, ExitCode: &code, FinishedAt: at}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		detail(t, s, g.Lease.RunID)
	}
}

// TestNextRetry: the server reckons the time of a retry as the library does.
func TestNextRetry(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	reasons := []onerun.Reason{
		onerun.ReasonExit, onerun.ReasonSignal, onerun.ReasonTimeout, onerun.ReasonStopped, onerun.ReasonOwnerDied, onerun.ReasonLeaseExpired,
		onerun.ReasonLeaseLost, onerun.ReasonNotFound, onerun.ReasonNotExecutable, onerun.ReasonCanceled,
	}
	waits := []time.Duration{0, time.Microsecond, time.Second, 90 * time.Second, time.Hour, 1000 * time.Hour, -time.Second, 200 * 365 * 24 * time.Hour}
	random := rand.New(rand.NewPCG(3, 4))
	now := time.Date(2026, 9, 15, 1, 2, 3, 456789000, time.UTC)
	for range 500 {
		p := onerun.Policy{
			Retries: random.IntN(80), BackoffMin: waits[random.IntN(len(waits))], BackoffMax: waits[random.IntN(len(waits))], RetryLost: random.IntN(2) == 0,
		}
		failures, reason, jitter := random.IntN(80), reasons[random.IntN(len(reasons))], float64(random.IntN(8))/8
		want, ok := p.NextRetry(now, failures, reason, jitter)
		var us *int64
		err := conn.QueryRow(soon(t), "SELECT onerun_us(onerun_next_retry(onerun_at($1), $2, $3, $4, $5, $6, $7, $8))", now.UnixMicro(), failures, string(reason),
			p.Retries, p.BackoffMin.Microseconds(), p.BackoffMax.Microseconds(), p.RetryLost, jitter).Scan(&us)
		if err != nil {
			t.Fatal(err)
		}
		if ok != (us != nil) || ok && time.UnixMicro(*us).Sub(want).Abs() > time.Microsecond {
			t.Errorf("%+v, %d failures, %s, jitter %v: expected %s %v, got %v", p, failures, reason, jitter, want, ok, us)
		}
	}
}

// TestHolderWords: what is recorded of a refusal are the words that its caller gets.
func TestHolderWords(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	for what, worker := range map[string]onerun.Worker{
		"a label":          {Host: "web1", PID: 77, Label: "blue"},
		"host and process": {Host: "web1", PID: 77},
		"a label like one": {Host: "web1", PID: 77, Label: "web1/77"},
		"nothing":          {},
		"a label alone":    {Label: "blue"},
	} {
		s := open(t, url, postgres.WithWorker(func(string) onerun.Worker { return worker }))
		job := strings.ReplaceAll(what, " ", "-")
		c := claimOf(job, "p")
		g := granted(t, s, c)
		equalWords := func(c onerun.Claim, ref *onerun.Refusal) {
			t.Helper()
			skips, err := s.Skips(soon(t), c.Namespace, c.Job, c.Partition)
			if err != nil || len(skips) == 0 {
				t.Fatalf("%s: no skips, %v", what, err)
			}
			seen := false
			for _, k := range skips {
				seen = seen || k.Reason == ref.Reason && k.Detail == ref.Holder.String() && k.Holder == clean(ref.Holder.ID())
			}
			if !seen {
				for _, k := range skips {
					t.Errorf("%s, %s: recorded as %q (%s), told as %q (%s)", what, ref.Reason, k.Detail, k.Holder, ref.Holder, ref.Holder.ID())
				}
			}
		}
		equalWords(c, refusal(t, s, again(c), onerun.RefusedRunning))
		other := claimOf(job, "q")
		equalWords(other, refusal(t, s, other, onerun.RefusedLocked))
		succeed(t, s, g)
		for _, id := range []string{"", onerun.NewRunID(time.Now())} {
			held := onerun.Holder{RunID: id, Name: "/var/lib/onerun/locks/x.lock", Attempt: 1, Worker: worker, Since: time.Now(), Detail: "its lock\nis held"}
			_, err := s.ClaimKnowing(soon(t), other, onerun.HostKnowledge{Held: &held})
			equalWords(other, refusalOf(t, err, onerun.RefusedLocked))
		}
		equalWords(c, refusal(t, s, again(c), onerun.RefusedSucceeded))
		alone := claimOf("", "")
		alone.Lock, alone.RunID = onerun.NamedLock(job), ""
		granted(t, s, alone)
		other.Lock = alone.Lock
		equalWords(other, refusal(t, s, other, onerun.RefusedLocked))
		reason := "two\nlines, and " + strings.Repeat("very ", 1000) + "long\x00"
		if err := s.Pause(soon(t), onerun.PauseRequest{Namespace: c.Namespace, Job: job, Who: onerun.Who{By: "ann", Reason: reason}}); err != nil {
			t.Fatal(err)
		}
		equalWords(other, refusal(t, s, again(other), onerun.RefusedPaused))
	}
}

// TestChains: each event's hash covers the one before it, so that a changed row shows.
func TestChains(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	who := onerun.Who{By: "김 \"O'Brien\"", Terminal: "pts/3", Reason: "line one\nline two \\ %"}
	for range 3 {
		if err := s.Pause(soon(t), onerun.PauseRequest{Namespace: "default", Job: "settle", Who: who}); err != nil {
			t.Fatal(err)
		}
		if err := s.Resume(soon(t), onerun.PauseRequest{Namespace: "default", Job: "settle", Who: who}); err != nil {
			t.Fatal(err)
		}
	}
	c := claimOf("settle", "2026-09-15")
	c.Retries = 3
	for range 3 {
		granted(t, s, c)
		next, err := s.ClaimKnowing(soon(t), again(c), dead(c.Owner))
		if err != nil {
			t.Fatal(err)
		}
		c.Owner = next.Lease.Owner
	}
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	broken := func() (n, all int) {
		err := conn.QueryRow(soon(t), brokenChains).Scan(&n, &all)
		if err != nil {
			t.Fatal(err)
		}
		return n, all
	}
	if n, all := broken(); n != 0 || all != 9 {
		t.Errorf("%d of %d events don't follow the one before, expected none of 9", n, all)
	}
	for what, change := range map[string]string{
		"changed":      "UPDATE onerun_event SET reason = reason || '.' WHERE id = (SELECT min(id) + 1 FROM onerun_event WHERE chain = 'operator')",
		"another time": "UPDATE onerun_event SET at = at + interval '1 us' WHERE id = (SELECT min(id) FROM onerun_event WHERE chain <> 'operator')",
		"removed":      "DELETE FROM onerun_event WHERE id = (SELECT min(id) + 2 FROM onerun_event WHERE chain = 'operator')",
	} {
		mustExec(t, conn, "BEGIN")
		mustExec(t, conn, change)
		if n, _ := broken(); n == 0 {
			t.Errorf("%s: it doesn't show", what)
		}
		mustExec(t, conn, "ROLLBACK")
	}
}

// brokenChains is the query of docs/stores/postgres.md; TestGuide keeps them the same.
const brokenChains = `SELECT count(*) FILTER (WHERE hash <> onerun_link(before, at, event, namespace, job, key, run_id, by, terminal, reason, detail)) AS broken,
       count(*) AS events
FROM (SELECT *, lag(hash) OVER (PARTITION BY chain ORDER BY id) AS before FROM onerun_event) e`

// TestApplicationName: whoever looks at the server's sessions finds the run.
func TestApplicationName(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	s := open(t, url)
	c := claimOf("settle", "2026-09-15")
	granted(t, s, c)
	waitFor(t, url, "a session of the run", "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'onerun/"+c.RunID+"')")
	s = open(t, url+"&application_name=mine")
	granted(t, s, claimOf("report", ""))
	waitFor(t, url, "a session with a name of its own", "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'mine')")
}

// TestSize: it grows with what is kept, and becomes smaller when that goes, whatever the
// server does with the room.
func TestSize(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	size := func() int64 {
		n, err := s.Size(soon(t))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	empty := size()
	for i := range 20 {
		g := granted(t, s, claimOf("settle", string(rune('a'+i))))
		out := onerun.Output{Text: strings.Repeat("x", 1000), Total: 1000}
		if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded, Output: &out}); err != nil {
			t.Fatal(err)
		}
	}
	full := size()
	if full < empty+20_000 {
		t.Errorf("twenty runs with output took %d bytes", full-empty)
	}
	if _, err := s.Prune(soon(t), onerun.PruneRequest{Namespace: onerun.DefaultNamespace, Oldest: true}); err != nil {
		t.Fatal(err)
	}
	if left := size(); left > full/2 {
		t.Errorf("%d bytes of %d are left after all was pruned", left, full)
	}
}

// TestEncode: what JSON can say and the server's jsonb can't hold.
func TestEncode(t *testing.T) {
	t.Parallel()
	conn := direct(t, sharedServer(t).URL("postgres"))
	for _, text := range []string{"", "plain", "\x00", "a\x00b\x00", `\u0000`, `\\u0000`, "\\\x00", `\`, "\xff", "\u2028 <&>", `"\u0000"`} {
		got, err := postgres.Encode(map[string]string{"k" + text: text})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{clean("k" + text): clean(text)}
		var back map[string]string
		var answer string
		err = conn.QueryRow(soon(t), "SELECT $1::jsonb::text", pgx.QueryExecModeExec, got).Scan(&answer)
		if err == nil {
			err = json.Unmarshal([]byte(answer), &back)
		}
		if err != nil || back[clean("k"+text)] != want[clean("k"+text)] {
			t.Errorf("%q: sent as %s, came back as %q, %v", text, got, back, err)
		}
	}
}

func clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
}
