package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// The statements by which a program of version 1 recorded the end of a job.
const (
	endAttempt1 = `UPDATE onerun_attempt
		SET status = ?4, reason = ?5, exit_code = ?6, signal = ?7, error = ?8, processed = ?9, failed = ?10, finished_at = ?11, void = ?12
		WHERE run_id = ?1 AND attempt = ?2 AND owner = ?3 AND status = 'RUNNING'
		RETURNING retries, backoff_min, backoff_max, retry_lost, (SELECT key IS NOT NULL FROM onerun_run r WHERE r.run_id = onerun_attempt.run_id)`
	endRun1 = `UPDATE onerun_run
		SET status = ?3, reason = ?4, exit_code = ?5, signal = ?6, error = ?7, processed = ?8, failed = ?9, finished_at = ?10, next_retry_at = ?11
		WHERE run_id = ?1 AND attempt = ?2 AND status = 'RUNNING'`
	freeLock1 = `UPDATE onerun_lock SET owner = NULL, run_id = NULL, attempt = NULL WHERE namespace = ?1 AND lock = ?2 AND owner = ?3`
	attempt1  = `INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, lock_dir, worker_id, host, machine, boot,
		pid_ns, time_ns, pid, start_ticks, in_process, on_crash, stale_after, retries, backoff_min, backoff_max, retry_lost, started_at)
		VALUES (?1, 1, ?2, 'owner-' || ?1, 7, 'job/' || ?3, '/locks', 'h/7', 'h', '', 'boot', 0, 0, 7, 7, 0, 'auto', NULL, 0, 0, 0, 0, 1000000)`
	run1 = `INSERT INTO onerun_run (run_id, namespace, job, partition, key, lock, status, attempt, started_at, finished_at, token, labels)
		VALUES (?1, 'default', ?3, ?4, ?3 || ':' || ?4, 'job/' || ?3, ?2, 1, 1000000, ?5, 7, '{"team":"ops"}')`
)

// version1 makes a store as a program of version 1 left it: a run of every state, what was
// approved, paused and refused, and what people decided. The connection that is returned
// is that program's.
func version1(t *testing.T) (*sql.DB, string) {
	t.Helper()
	path := filepath.Join(home(t), sqlite.DatabaseName)
	d := rawSQL(t, path)
	d.SetMaxOpenConns(1)
	mustExec(t, d, "PRAGMA journal_mode = WAL")
	mustExec(t, d, sqlite.Schema1())
	for _, r := range []struct{ id, status, job string }{
		{"running", "RUNNING", "settle"},
		{"succeeded", "SUCCEEDED", "report"},
		{"failed", "FAILED", "close"},
		{"approved", "FAILED", "sweep"},
		{"skipped", "SKIPPED", "paused"},
	} {
		finished := any(2_000_000)
		if r.status == "RUNNING" {
			finished = nil
		}
		mustExec(t, d, run1, r.id, r.status, r.job, day, finished)
		mustExec(t, d, attempt1, r.id, r.status, r.job)
		mustExec(t, d, "UPDATE onerun_attempt SET finished_at = ?2 WHERE run_id = ?1", r.id, finished)
		mustExec(t, d, "INSERT INTO onerun_lock (namespace, lock, token, owner, run_id, attempt) VALUES ('default', 'job/' || ?1, 7, ?2, ?3, 1)",
			r.job, null(r.status == "RUNNING", "owner-"+r.id), null(r.status == "RUNNING", r.id))
	}
	mustExec(t, d, `INSERT INTO onerun_approval (run_id, status, attempt, reason, approved_by, created_at, used_at, used_attempt) VALUES
		('succeeded', 'FAILED', 0, 'spent', 'ann', 1, 2, 1), ('approved', 'FAILED', 1, 'again', 'ann', 3, NULL, NULL)`)
	mustExec(t, d, "INSERT INTO onerun_skip VALUES ('default', 'report', 'report:' || ?1, 'succeeded', 'succeeded/1', 'words', 3, 1, 2)", day)
	mustExec(t, d, "INSERT INTO onerun_job VALUES ('default', 'paused', 5, 'bob', 'wait')")
	last := map[string]string{}
	for i, e := range []event{
		{Event: "rerun_approved", Key: "report:" + day, Run: "succeeded", Job: "report", By: "ann", Reason: "spent", Chain: "operator"},
		{Event: "taken_over", Key: "close:" + day, Run: "failed", Job: "close", Reason: "owner_died", Detail: "gone", Chain: "failed"},
		{Event: "paused", Job: "paused", By: "bob", Reason: "wait", Chain: "operator"},
	} {
		e.Namespace, e.At = "default", int64(i+1)
		hash := e.hash(t, last[e.Chain])
		last[e.Chain] = hash
		mustExec(t, d, `INSERT INTO onerun_event (at, event, namespace, job, key, run_id, by, reason, detail, chain, hash)
			VALUES (?1, ?2, ?3, ?4, nullif(?5, ''), nullif(?6, ''), nullif(?7, ''), nullif(?8, ''), nullif(?9, ''), ?10, ?11)`,
			e.At, e.Event, e.Namespace, e.Job, e.Key, e.Run, e.By, e.Reason, e.Detail, e.Chain, hash)
	}
	return d, path
}

func null(is bool, s string) any {
	if !is {
		return nil
	}
	return s
}

// TestMigrationKeepsAll: everything that version 1 wrote is still there, and counts.
func TestMigrationKeepsAll(t *testing.T) {
	t.Parallel()
	old, path := version1(t)
	b := &bed{t: t, path: path, Store: open(t, path)}
	if rs := b.runs(""); len(rs) != 5 {
		t.Fatalf("runs: %+v", rs)
	}
	if v := one[int](t, old, "PRAGMA user_version"); v != sqlite.ThisVersion() {
		t.Errorf("user_version: %d, not %d", v, sqlite.ThisVersion())
	}
	for _, id := range []string{"running", "succeeded", "failed", "approved", "skipped"} {
		d := b.detail(id)
		if len(d.Attempts) != 1 || d.Run.Attempt != 1 || d.Run.Token != 7 || d.Run.Labels["team"] != "ops" || !d.Run.StartedAt.Equal(time.Unix(1, 0)) {
			t.Errorf("%s: %+v", id, d)
		}
		if a := d.Attempts[0]; a.Status != d.Run.Status || a.Owner != "owner-"+id || a.TwoPeople || a.ClosedBy != onerun.ByOwner || a.Late != nil {
			t.Errorf("attempt of %s: %+v", id, a)
		}
	}
	if d := b.detail("succeeded"); d.Run.Skips != 3 || len(d.Approvals) != 1 || d.Approvals[0].UsedBy != 1 || d.Approvals[0].RequestedBy != "" || len(d.Events) != 1 || d.Events[0].By != "ann" {
		t.Errorf("what is kept of a run: %+v", d)
	}
	b.refused(claimOf("report", day), onerun.RefusedSucceeded)
	b.refused(claimOf("close", day), onerun.RefusedFailed)
	b.refused(claimOf("paused", "2026-09-16"), onerun.RefusedPaused)
	if g := b.granted(claimOf("sweep", day)); g.Lease.Attempt != 2 || g.Lease.RunID != "approved" || g.Lease.Token <= 7 {
		t.Errorf("the approved rerun: %+v", g.Lease)
	}
	b.approve(b.run("failed"))
	events := journal(t, old)
	if id := broken(t, events); id != 0 || len(events) != 4 || events[3].Chain != "operator" {
		t.Errorf("event %d doesn't fit its chain, of %d", id, len(events))
	}
	p, err := b.Prune(soon(t), onerun.PruneRequest{Namespace: "default", Oldest: true})
	if err != nil || p.Runs != 1 || p.Keys != 1 {
		t.Errorf("pruning what version 1 wrote: %+v %v", p, err)
	}
	sound(t, path)
}

// TestMigrationUnderAJob: a program of version 1 whose job is at work meanwhile records
// its end as it always did.
func TestMigrationUnderAJob(t *testing.T) {
	t.Parallel()
	old, path := version1(t)
	prepared, err := old.PrepareContext(soon(t), endAttempt1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = prepared.Close() }()
	b := &bed{t: t, path: path, Store: open(t, path)}
	if r := b.run("running"); r.Status != onerun.Running {
		t.Fatalf("the run: %+v", r)
	}
	tx, err := old.BeginTx(soon(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	var retries, least, most, lost, keyed int
	err = tx.StmtContext(soon(t), prepared).QueryRowContext(soon(t), "running", 1, "owner-running", "SUCCEEDED", nil, 0, nil, nil, nil, nil, 3_000_000, 0).
		Scan(&retries, &least, &most, &lost, &keyed)
	if err != nil || keyed != 1 {
		t.Fatalf("the attempt's end: %v", err)
	}
	mustExec(t, tx, endRun1, "running", 1, "SUCCEEDED", nil, 0, nil, nil, nil, nil, 3_000_000, nil)
	mustExec(t, tx, freeLock1, "default", "job/settle", "owner-running")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	d := b.detail("running")
	if d.Run.Status != onerun.Succeeded || d.Attempts[0].ClosedBy != onerun.ByOwner || *d.Attempts[0].ExitCode != 0 || !d.Run.FinishedAt.Equal(time.Unix(3, 0)) {
		t.Errorf("the end: %+v", d)
	}
	b.refused(claimOf("settle", day), onerun.RefusedSucceeded)
	out := onerun.Outcome{Status: onerun.Succeeded}
	lease := onerun.Lease{Namespace: "default", RunID: "running", Attempt: 1, Owner: "owner-running", Token: 7}
	if d, err := b.Deliver(soon(t), lease, out); err != nil || d.Kind != onerun.DeliveredBefore {
		t.Errorf("the same end, delivered: %+v %v", d, err)
	}
	sound(t, path)
}

// TestMigrationAtOnce: many processes meet a store of version 1.
func TestMigrationAtOnce(t *testing.T) {
	t.Parallel()
	const processes = 20
	old, path := version1(t)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	children := ready(t, processes, plan{Path: path})
	replies := atOnce(t, children, func(i int) order {
		return order{Do: "claim", Claim: claimOf(fmt.Sprintf("job-%d", i/2), day)}
	})
	won := map[int]int{}
	for i, r := range replies {
		switch {
		case r.Err != "":
			t.Errorf("process %d: %s", i, r.Err)
		case r.Grant != nil:
			won[i/2]++
		case r.Refusal.Reason != onerun.RefusedRunning && r.Refusal.Reason != onerun.RefusedLocked:
			t.Errorf("process %d: %v", i, r.Refusal)
		}
	}
	for i := range processes / 2 {
		if won[i] != 1 {
			t.Errorf("of two starts of job-%d, %d won", i, won[i])
		}
	}
	d := rawSQL(t, path)
	if v := one[int](t, d, "PRAGMA user_version"); v != sqlite.ThisVersion() {
		t.Errorf("user_version: %d, not %d", v, sqlite.ThisVersion())
	}
	if n := one[int](t, d, "SELECT count(*) FROM onerun_run"); n != 5+processes/2 {
		t.Errorf("runs: %d", n)
	}
	if id := broken(t, journal(t, d)); id != 0 {
		t.Errorf("event %d doesn't fit its chain", id)
	}
	sound(t, path)
}
