package sqlite_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestReportView: what reports read has the columns that the documentation promises,
// and a row for every kind of run.
func TestReportView(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.granted(claimOf("settle", day))
	out := ended(onerun.Failed)
	out.Error = "no connection"
	if err := b.Finish(soon(t), g.Lease, out); err != nil {
		t.Fatal(err)
	}
	unkeyed := b.granted(claimOf("sweep", ""))
	rows, err := b.sql().QueryContext(soon(t), "SELECT * FROM batch_job_run ORDER BY job_key")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if want := []string{"job_key", "status", "started_at", "finished_at", "worker_id", "error_message"}; err != nil || !slices.Equal(columns, want) {
		t.Fatalf("columns of batch_job_run: %v %v, not %v", columns, err, want)
	}
	var got [][6]sql.NullString
	for rows.Next() {
		var r [6]sql.NullString
		if err := rows.Scan(&r[0], &r[1], &r[2], &r[3], &r[4], &r[5]); err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if err := rows.Err(); err != nil || len(got) != 2 {
		t.Fatalf("rows of batch_job_run: %v %v", got, err)
	}
	const form = "2006-01-02T15:04:05.000Z"
	at := func(s sql.NullString, want time.Time) {
		t.Helper()
		if got, err := time.Parse(form, s.String); err != nil || got.Sub(want).Abs() > 2*time.Millisecond {
			t.Errorf("time in batch_job_run: %q %v, not %s", s.String, err, want.UTC().Format(form))
		}
	}
	keyed, running := got[0], got[1]
	at(keyed[2], g.At)
	at(keyed[3], out.FinishedAt)
	at(running[2], unkeyed.At)
	if keyed[0].String != "settle:"+day || keyed[1].String != "FAILED" || keyed[5].String != "no connection" || keyed[4].String != g.Run.Worker.String() {
		t.Errorf("the keyed run: %v", keyed)
	}
	if running[0].String != "sweep" || running[1].String != "RUNNING" || running[3].Valid || running[5].Valid {
		t.Errorf("the unkeyed run: %v", running)
	}
}

// TestTimesInTheTables: microseconds since 1970, as the documentation says.
func TestTimesInTheTables(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := claimOf("settle", day)
	c.ScheduledAt = time.Date(2026, 9, 15, 1, 0, 0, 123456000, time.UTC)
	c.Retries, c.BackoffMin = 3, time.Hour
	g := b.granted(c)
	out := ended(onerun.Failed)
	if err := b.Finish(soon(t), g.Lease, out); err != nil {
		t.Fatal(err)
	}
	d := b.sql()
	for column, want := range map[string]time.Time{"scheduled_at": c.ScheduledAt, "started_at": g.At, "finished_at": out.FinishedAt} {
		if us := one[int64](t, d, "SELECT "+column+" FROM onerun_run"); us != want.UnixMicro() {
			t.Errorf("%s: %d, not %d", column, us, want.UnixMicro())
		}
	}
	if us := one[int64](t, d, "SELECT next_retry_at FROM onerun_run"); time.Until(time.UnixMicro(us)) < 59*time.Minute {
		t.Errorf("next_retry_at: %s", time.UnixMicro(us))
	}
	if us := one[int64](t, d, "SELECT backoff_min FROM onerun_attempt"); us != time.Hour.Microseconds() {
		t.Errorf("backoff_min: %d", us)
	}
	r := b.run(c.RunID)
	if !r.ScheduledAt.Equal(c.ScheduledAt) || !r.StartedAt.Equal(g.At.Truncate(time.Microsecond)) || !r.FinishedAt.Equal(out.FinishedAt) {
		t.Errorf("read back: %s %s %s", r.ScheduledAt, r.StartedAt, r.FinishedAt)
	}
}

// TestIndexesRefuse: a bug would be an error, not a double run.
func TestIndexesRefuse(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	running := b.granted(claimOf("settle", day))
	done := b.lived(claimOf("report", day), onerun.Succeeded)
	b.approve(done)
	d := b.sql()
	for what, query := range map[string]string{
		"a second RUNNING run under a lock": "UPDATE onerun_run SET status = 'RUNNING', lock = 'job/settle' WHERE job = 'report'",
		"a second RUNNING attempt of a run": `INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, lock_dir, in_process, on_crash, retries, backoff_min, backoff_max, retry_lost, started_at)
			SELECT run_id, attempt + 1, 'RUNNING', 'x', token + 1, lock, lock_dir, 0, 'auto', 0, 0, 0, 0, 0 FROM onerun_attempt WHERE run_id = '` + running.Lease.RunID + "'",
		"a second run of a key":               "UPDATE onerun_run SET key = 'settle:" + day + "' WHERE job = 'report'",
		"a second open approval of a run":     "INSERT INTO onerun_approval (run_id, status, attempt, reason, approved_by, created_at) SELECT run_id, status, attempt, reason, approved_by, created_at FROM onerun_approval",
		"a status that there isn't":           "UPDATE onerun_run SET status = 'PENDING'",
		"a second row of one kind of skip":    "INSERT INTO onerun_skip VALUES ('n','j','','locked','h','',1,0,0), ('n','j','','locked','h','',1,0,0)",
		"a second row of a lock":              "INSERT INTO onerun_lock (namespace, lock, token) SELECT namespace, lock, token FROM onerun_lock",
		"a second attempt of the same number": "INSERT INTO onerun_attempt SELECT * FROM onerun_attempt WHERE run_id = '" + done.RunID + "'",
	} {
		_, err := d.ExecContext(soon(t), query)
		if err == nil || !strings.Contains(err.Error(), "constraint failed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.finish(running, onerun.Succeeded)
	sound(t, b.path)
}

// TestIndexIsAnInternalError: what such a bug looks like to the caller. The lock in the
// ledger is taken by hand for a run that no claim can know of.
func TestIndexIsAnInternalError(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	first := b.lived(claimOf("settle", day), onerun.Succeeded)
	d := b.sql()
	mustExec(t, d, "CREATE TRIGGER bug AFTER INSERT ON onerun_run BEGIN UPDATE onerun_run SET status = 'RUNNING', lock = NEW.lock WHERE run_id = '"+first.RunID+"'; END")
	c := claimOf("report", day)
	_, err := b.Claim(soon(t), c)
	is(t, err, "internal", "a claim that would make two RUNNING runs under one lock")
	mustExec(t, d, "DROP TRIGGER bug")
	b.lived(again(c), onerun.Succeeded)
	sound(t, b.path)
}

// event is a row of the journal.
type event struct {
	ID, At                                              int64
	Event, Namespace, Job, Key, Run, By, Reason, Detail string
	Chain, Hash, Terminal                               string
}

// hash is what the event's should be, after the one before it in its chain.
func (e event) hash(t *testing.T, last string) string {
	t.Helper()
	fields := []any{last, e.At, e.Event, e.Namespace, e.Job, e.Key, e.Run, e.By, e.Reason, e.Detail}
	if e.Terminal != "" {
		fields = append(fields, e.Terminal)
	}
	content, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func journal(t *testing.T, d *sql.DB) (events []event) {
	t.Helper()
	rows, err := d.QueryContext(soon(t), `SELECT id, at, event, namespace, job, coalesce(key, ''), coalesce(run_id, ''), coalesce(by, ''),
		coalesce(reason, ''), coalesce(detail, ''), chain, hash, coalesce(terminal, '') FROM onerun_event ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e event
		if err := rows.Scan(&e.ID, &e.At, &e.Event, &e.Namespace, &e.Job, &e.Key, &e.Run, &e.By, &e.Reason, &e.Detail, &e.Chain, &e.Hash, &e.Terminal); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

// broken recomputes the chains and returns the first row that doesn't fit; 0: none.
func broken(t *testing.T, events []event) int64 {
	t.Helper()
	last := map[string]string{}
	for _, e := range events {
		if e.hash(t, last[e.Chain]) != e.Hash {
			return e.ID
		}
		last[e.Chain] = e.Hash
	}
	return 0
}

// TestHashChain: what people decided is one chain, what became of a run one each; a row
// that is changed, removed or put in between shows.
func TestHashChain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, partition := range []string{day, "2026-09-16"} {
		c := claimOf("settle", partition)
		c.Retries = 2
		for range 2 {
			if _, died := life(t, b, plan{KillAt: stepOutcome}, again(c), ended(onerun.Succeeded)); !died {
				t.Fatal("it lived on")
			}
		}
		g := b.granted(again(c))
		b.finish(g, onerun.Failed)
		b.approve(b.run(g.Lease.RunID))
		b.lived(again(c), onerun.Failed)
		r := b.resolve(b.run(g.Lease.RunID), onerun.Succeeded)
		if _, err := b.Approve(soon(t), onerun.ApprovalRequest{Namespace: r.Namespace, RunID: r.RunID, Expect: onerun.Expected(r), Who: onerun.Who{By: "안나 <ann@example.org>", Reason: "a & b \"c\" \u2028 \x00"}}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		p := onerun.PauseRequest{Namespace: "default", Job: "settle", Who: onerun.Who{By: "bob", Terminal: "pts/3", Reason: "wait"}}
		if err := b.Pause(soon(t), p); err != nil {
			t.Fatal(err)
		}
		if err := b.Resume(soon(t), p); err != nil {
			t.Fatal(err)
		}
	}
	d := b.sql()
	events := journal(t, d)
	chains := map[string]int{}
	for _, e := range events {
		chains[e.Chain]++
		if (e.Chain == "operator") != (e.By != "") {
			t.Errorf("event %s by %q is in chain %s", e.Event, e.By, e.Chain)
		}
	}
	if len(chains) != 3 || chains["operator"] != 10 {
		t.Fatalf("chains: %v", chains)
	}
	if id := broken(t, events); id != 0 {
		t.Fatalf("event %d doesn't fit its chain", id)
	}
	for _, e := range events { // where a decision was made is kept with it
		if (e.Terminal == "pts/3") != (e.Event == onerun.EventPaused || e.Event == onerun.EventResumed) {
			t.Errorf("event %s was made at %q", e.Event, e.Terminal)
		}
	}
	// The last row of a chain can be taken off unseen: nothing covers it yet.
	for _, e := range events[:len(events)-4] {
		for _, change := range []string{
			"UPDATE onerun_event SET reason = 'nothing' WHERE id = ?1", "UPDATE onerun_event SET by = 'eve' WHERE id = ?1",
			"UPDATE onerun_event SET at = at + 1 WHERE id = ?1", "UPDATE onerun_event SET detail = 'x' WHERE id = ?1",
			"UPDATE onerun_event SET terminal = 'tty1' WHERE id = ?1",
			"DELETE FROM onerun_event WHERE id = ?1",
		} {
			if strings.HasPrefix(change, "DELETE") && !slices.ContainsFunc(events, func(later event) bool { return later.Chain == e.Chain && later.ID > e.ID }) {
				continue
			}
			tx, err := d.BeginTx(soon(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			mustExec(t, tx, change, e.ID)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if id := broken(t, journal(t, d)); id == 0 {
				t.Errorf("%q of event %d (%s) isn't seen", change, e.ID, e.Event)
			}
			mustExec(t, d, "INSERT OR REPLACE INTO onerun_event (id, at, event, namespace, job, key, run_id, by, reason, detail, chain, hash, terminal) VALUES (?1, ?2, ?3, ?4, ?5, nullif(?6, ''), nullif(?7, ''), nullif(?8, ''), nullif(?9, ''), nullif(?10, ''), ?11, ?12, nullif(?13, ''))",
				e.ID, e.At, e.Event, e.Namespace, e.Job, e.Key, e.Run, e.By, e.Reason, e.Detail, e.Chain, e.Hash, e.Terminal)
		}
	}
	if id := broken(t, journal(t, d)); id != 0 {
		t.Fatalf("event %d, put back, doesn't fit", id)
	}
}

// TestTokensSurvive: the last token outlives the lock's owner, every process, and a clock
// that was ahead; `onerun lock N` and runs under N count on from each other.
func TestTokensSurvive(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := claimOf("settle", "")
	run.Lock = onerun.NamedLock("db")
	last := int64(0)
	see := func(s *bed, c onerun.Claim) {
		t.Helper()
		g := s.granted(c)
		if g.Lease.Token <= last {
			t.Errorf("token %d of %q under %s, after %d", g.Lease.Token, c.Job, c.Lock, last)
		}
		last = g.Lease.Token
		s.finish(g, onerun.Succeeded)
	}
	see(b, again(run))
	// As if that had been given out when the clock was far ahead.
	ahead := time.Now().Add(1000 * time.Hour).UnixMilli()
	mustExec(t, b.sql(), "UPDATE onerun_lock SET token = ?1 WHERE lock = 'name/db'", ahead)
	last = ahead
	for range 2 {
		for _, c := range []onerun.Claim{lockClaim("db"), lockClaim("db"), again(run), again(run), lockClaim("db")} {
			see(b, c)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		b = b.reopen()
	}
	if last < ahead+10 {
		t.Errorf("the last token is %d, and it was %d", last, ahead)
	}
}
