package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// hold makes another program's connection hold the database's write lock, or the whole
// of it, until release is called.
func hold(t *testing.T, path, how string) (release func()) {
	t.Helper()
	conn, err := rawSQL(t, path).Conn(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, conn, "BEGIN "+how)
	return sync.OnceFunc(func() {
		t.Helper()
		mustExec(t, conn, "COMMIT")
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestDatabaseHeld is B30: somebody holds the database for 8 s as jobs begin and end. A
// caller with less time than that is told so in its time; one with more gets what it
// asked for.
func TestDatabaseHeld(t *testing.T) {
	t.Parallel()
	const held, short, long = 8 * time.Second, time.Second, 12 * time.Second
	b := newBed(t)
	ending, out := claimOf("ending", day), ended(onerun.Succeeded)
	g := b.granted(ending)
	other := b.reopen()
	other.lived(claimOf("other", day), onerun.Succeeded) // its database is open
	fresh := b.reopen()                                  // its isn't
	alone := lockClaim("db")

	release := hold(t, b.path, "IMMEDIATE")
	start := time.Now()
	timer := time.AfterFunc(held, release)
	defer timer.Stop()
	defer release()

	within := func(limit time.Duration, f func(ctx context.Context) error) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		began := time.Now()
		err := f(ctx)
		return time.Since(began), err
	}
	claim := func(s onerun.Claimer, c onerun.Claim) func(context.Context) error {
		return func(ctx context.Context) error { _, err := s.Claim(ctx, c); return err }
	}
	finish := func(ctx context.Context) error { return b.Finish(ctx, g.Lease, out) }
	var patient, hasty sync.WaitGroup
	for what, f := range map[string]func(context.Context) error{
		"finish":                  finish,
		"claim":                   claim(other, claimOf("settle", day)),
		"claim by another handle": claim(fresh, claimOf("report", day)),
		"pause": func(ctx context.Context) error {
			return other.Pause(ctx, onerun.PauseRequest{Namespace: "default", Job: "x", Who: onerun.Who{By: "ann", Reason: "wait"}})
		},
		"a claim that is refused": claim(other, again(ending)),
	} {
		hasty.Go(func() {
			took, err := within(short, f)
			is(t, err, "unavailable", what+" with a second's time")
			if took > held-time.Second {
				t.Errorf("%s with a second's time: it took %s to be told", what, took)
			}
		})
	}
	hasty.Wait()
	if took := time.Since(start); took > held {
		t.Fatalf("the calls with a second's time took %s", took)
	}

	// What needs no ledger isn't held up, nor is looking.
	for what, f := range map[string]func(context.Context) error{
		"heartbeat": func(ctx context.Context) error { _, err := b.Heartbeat(ctx, g.Lease); return err },
		"runs": func(ctx context.Context) error {
			rs, err := fresh.Runs(ctx, onerun.Query{Namespace: "default", Job: "ending"})
			if err == nil && (len(rs) != 1 || rs[0].Status != onerun.Running) {
				t.Errorf("runs while the database is held: %+v", rs)
			}
			return err
		},
		"explain": func(ctx context.Context) error { _, err := other.Explain(ctx, claimOf("settle", day)); return err },
	} {
		if _, err := within(long, f); err != nil {
			t.Errorf("%s while the database is held: %v", what, err)
		}
	}

	for what, f := range map[string]func(context.Context) error{
		"finish":                  finish,
		"claim":                   claim(other, claimOf("settle", day)),
		"claim by another handle": claim(fresh, claimOf("report", day)),
		"claim of a lock alone":   claim(b, alone),
	} {
		patient.Go(func() {
			if _, err := within(long, f); err != nil {
				t.Errorf("%s with %s: %v", what, long, err)
			}
		})
	}
	patient.Wait()
	if r := b.run(g.Lease.RunID); r.Status != onerun.Succeeded || !r.FinishedAt.Equal(out.FinishedAt) {
		t.Errorf("the run that ended meanwhile: %s at %s", r.Status, r.FinishedAt)
	}
	for _, job := range []string{"settle", "report"} {
		if rs := b.runs(job); len(rs) != 1 || rs[0].Status != onerun.Running {
			t.Errorf("runs of %s: %+v", job, rs)
		}
	}
	sound(t, b.path)
}

// TestMigrationHeld: the first use of a store while somebody holds the whole database.
func TestMigrationHeld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(home(t), sqlite.DatabaseName)
	rewrite(t, path, nil)
	release := hold(t, path, "EXCLUSIVE")
	defer release()
	b := &bed{t: t, path: path, Store: open(t, path)}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := b.Claim(ctx, claimOf("settle", day))
	is(t, err, "unavailable", "first use of a database that is held")

	done := make(chan error)
	go func() {
		_, err := b.Claim(soon(t), claimOf("settle", day))
		done <- err
	}()
	release()
	if err := <-done; err != nil {
		t.Fatalf("first use of a database that is held for a while: %v", err)
	}
	sound(t, path)
}

// TestOpeningIsBounded: one caller waits long for the database to open; another, of the
// same handle, with less time is told in its own time.
func TestOpeningIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(home(t), sqlite.DatabaseName)
	rewrite(t, path, nil)
	release := hold(t, path, "EXCLUSIVE")
	defer release()
	b := &bed{t: t, path: path, Store: open(t, path)}
	long, cancelLong := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := b.Runs(long, onerun.Query{Namespace: "default"})
		first <- err
	}()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := b.Claim(ctx, claimOf("settle", day))
		cancel()
		is(t, err, "unavailable", "claim while another caller opens the database")
	}
	cancelLong()
	is(t, <-first, "unavailable", "a read whose caller gave up")
	release()
	b.lived(claimOf("settle", day), onerun.Succeeded)
}

// TestReadersDontHinder: somebody reads for long, as a report does; claims go on.
func TestReadersDontHinder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.lived(claimOf("settle", day), onerun.Succeeded)
	reader, err := b.sql().BeginTx(soon(t), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var n int
	count := func() int {
		if err := reader.QueryRow("SELECT count(*) FROM batch_job_run").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	for range 50 { // more than the journal's limit, at which it is folded into the database
		b.lived(claimOf("sweep", ""), onerun.Failed)
	}
	if after := count(); after != before {
		t.Errorf("a report saw %d runs, then %d", before, after)
	}
	if err := reader.Rollback(); err != nil {
		t.Error(err)
	}
	sound(t, b.path)
}
