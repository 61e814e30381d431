package postgres_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

// TestHeartbeatsPassAFence: a fenced transaction that is open for longer than the lease keeps
// the lease from nothing, and everybody else from the lock.
func TestHeartbeatsPassAFence(t *testing.T) {
	t.Parallel()
	forEachWay(t, func(t *testing.T, s *postgres.Store, url string, begin func() transaction) {
		var mu sync.Mutex
		var told []string
		runner := onerun.NewRunner(s, onerun.WithObserver(onerun.ObserverFunc(func(o onerun.Observation) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, o.Event)
		})))
		job := onerun.Job{Name: "settle", Partition: "2026-09-15", Policy: onerun.Policy{TTL: 3 * time.Second}}
		err := runner.Do(t.Context(), job, func(ctx context.Context, o *onerun.Owner) error {
			tx := begin()
			if err := tx.fence(o.Lease()); err != nil {
				return err
			}
			var first string
			if err := direct(t, url).QueryRow(soon(t), "SELECT expires_at::text FROM "+schemaOf(url)+".onerun_lock").Scan(&first); err != nil {
				return err
			}
			waitFor(t, url, "the lease to be renewed beyond another one", "SELECT expires_at > '"+first+"'::timestamptz + interval '3 s' FROM "+schemaOf(url)+".onerun_lock")
			refused(t, s, again(claimOf("settle", "2026-09-15")), onerun.RefusedRunning)
			if err := tx.exec("INSERT INTO " + schemaOf(url) + ".paid VALUES ('page 1')"); err != nil {
				return err
			}
			return errors.Join(tx.commit(), context.Cause(ctx))
		})
		if n := paid(t, url); err != nil || n != 1 {
			t.Errorf("the owner: %v; paid %d times", err, n)
		}
		if slices.Contains(told, onerun.EventLeaseLost) || !slices.Contains(told, onerun.EventFinished) {
			t.Errorf("told: %v", told)
		}
	})
}

// freezeURL is the environment variable that makes this binary a worker to be frozen, with
// freezeWay and freezeAt saying how.
const freezeURL = "ONERUN_TEST_FREEZE_URL"

// frozenJob is done by workers that may be replaced.
var frozenJob = onerun.Job{
	Name: "settle", Partition: "2026-09-15", BusinessDate: "2026-09-15",
	Policy: onerun.Policy{TTL: onerun.MinTTL, Retries: 5, RetryLost: true}, RetryLater: true,
}

// freezeIfChild does a job in one transaction, and stops in the middle until it gets a line,
// saying where it is. It heeds no context, as some work doesn't: only the fence stops it.
func freezeIfChild() {
	url, ok := os.LookupEnv(freezeURL)
	if !ok {
		return
	}
	way, at := os.Getenv("ONERUN_TEST_FREEZE_WAY"), os.Getenv("ONERUN_TEST_FREEZE_AT")
	ctx := context.Background()
	pause := func(here string) {
		if here == at {
			fmt.Println(here)
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		}
	}
	s, err := postgres.Open(ctx, url)
	if err == nil {
		err = onerun.NewRunner(s).Do(ctx, frozenJob, func(_ context.Context, o *onerun.Owner) error {
			if way == "pages" {
				return settlePages(ctx, s, url, o, pause)
			}
			return settleOnce(ctx, s, way, url, o.Lease(), pause)
		})
	}
	fmt.Println("ended:", err)
	os.Exit(0)
}

// settleOnce pays, in a transaction by one of the ways.
func settleOnce(ctx context.Context, s *postgres.Store, way, url string, l onerun.Lease, pause func(here string)) error {
	pay := "INSERT INTO " + schemaOf(url) + ".paid VALUES ('page 1')"
	if way == "pgx" {
		conn, err := pgx.Connect(ctx, withoutSchema(url))
		if err != nil {
			return err
		}
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, pay); err != nil {
				return err
			}
			pause("written")
			if err := s.Fence(ctx, tx, l); err != nil {
				return err
			}
			pause("fenced")
			return nil
		})
	}
	db, err := sql.Open("pgx", withoutSchema(url))
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, pay); err != nil {
		return err
	}
	pause("written")
	if err := s.FenceSQL(ctx, tx, l); err != nil {
		return err
	}
	pause("fenced")
	return tx.Commit()
}

// worker is another process that does the job.
type worker struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

// frozen starts a worker and freezes it where it says at.
func frozen(t *testing.T, way, url, at string) *worker {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd: exec.CommandContext(soon(t), exe)}
	w.cmd.Env = append(os.Environ(), freezeURL+"="+url, "ONERUN_TEST_FREEZE_WAY="+way, "ONERUN_TEST_FREEZE_AT="+at, "GORACE=atexit_sleep_ms=0")
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.out = bufio.NewScanner(out)
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Wait() })
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	if got := w.says(t); got != at {
		t.Fatalf("the worker says %q", got)
	}
	w.signal(t, syscall.SIGSTOP)
	return w
}

func (w *worker) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (w *worker) says(t *testing.T) string {
	t.Helper()
	if !w.out.Scan() {
		t.Fatalf("the worker says nothing: %v", w.out.Err())
	}
	return w.out.Text()
}

// leaseOver waits until nobody has beaten for the worker's lease.
func leaseOver(t *testing.T, url string) {
	t.Helper()
	waitFor(t, url, "the lease to be over", "SELECT expires_at < clock_timestamp() FROM "+schemaOf(url)+".onerun_lock")
}

// TestFrozenWorkerCantCommit: a process is frozen in the middle of its transaction, another one
// does the work, and the first goes on as if nothing had been.
func TestFrozenWorkerCantCommit(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"pgx", "database/sql"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s, url := fresh(t)
			mustExec(t, direct(t, url), "CREATE TABLE "+schemaOf(url)+".paid (what text)")
			first := frozen(t, way, url, "written")
			leaseOver(t, url)
			attempt := 0
			err := onerun.NewRunner(s).Do(t.Context(), frozenJob, func(ctx context.Context, o *onerun.Owner) error {
				attempt = o.Run().Attempt
				return settleOnce(ctx, s, way, url, o.Lease(), func(string) {})
			})
			if err != nil || attempt != 2 {
				t.Fatalf("the second worker, attempt %d: %v", attempt, err)
			}
			first.signal(t, syscall.SIGCONT)
			if _, err := io.WriteString(first.in, "\n"); err != nil {
				t.Fatal(err)
			}
			if got := first.says(t); !strings.Contains(got, onerun.ErrLost.Error()) {
				t.Errorf("the worker that was replaced %s", got)
			}
			if n := paid(t, url); n != 1 {
				t.Errorf("paid %d times", n)
			}
		})
	}
}

// TestFrozenBehindItsFence: while a worker is frozen between its fence and its commit, nobody
// takes its place, however long its lease has been over; killed, it has committed nothing, and
// the next one may.
func TestFrozenBehindItsFence(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"pgx", "database/sql"} {
		for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGCONT} {
			t.Run(fmt.Sprint(way, ", ", end), func(t *testing.T) {
				t.Parallel()
				s, url := fresh(t)
				mustExec(t, direct(t, url), "CREATE TABLE "+schemaOf(url)+".paid (what text)")
				first := frozen(t, way, url, "fenced")
				leaseOver(t, url)
				runner := onerun.NewRunner(s)
				ran := false
				do := func() error {
					return runner.Do(t.Context(), frozenJob, func(ctx context.Context, o *onerun.Owner) error {
						ran = true
						return settleOnce(ctx, s, way, url, o.Lease(), func(string) {})
					})
				}
				for range 3 {
					isRefusal(t, do(), onerun.RefusedRunning)
				}
				first.signal(t, end)
				if end == syscall.SIGKILL {
					if err := first.cmd.Wait(); err == nil {
						t.Fatal("the worker ended by itself")
					}
					for began := time.Now(); ; { // the server takes a moment to see that the connection is gone
						if err := do(); err == nil {
							break
						} else if !errors.As(err, new(*onerun.Refusal)) || time.Since(began) > time.Minute {
							t.Fatal(err)
						}
					}
				} else {
					if _, err := io.WriteString(first.in, "\n"); err != nil {
						t.Fatal(err)
					}
					if got := first.says(t); got != "ended: <nil>" {
						t.Errorf("the worker %s", got)
					}
					isRefusal(t, do(), onerun.RefusedSucceeded)
				}
				if n := paid(t, url); n != 1 || ran != (end == syscall.SIGKILL) {
					t.Errorf("paid %d times, the second worker ran: %v", n, ran)
				}
			})
		}
	}
}

// TestFrozenForTooLong: the server's own limit for transactions in which nothing happens ends one
// that is frozen behind its fence, so that the lock isn't kept for ever.
func TestFrozenForTooLong(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"pgx", "database/sql"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s, url := fresh(t, "idle_in_transaction_session_timeout", "2s")
			mustExec(t, direct(t, url), "CREATE TABLE "+schemaOf(url)+".paid (what text)")
			first := frozen(t, way, url, "fenced")
			job := frozenJob
			job.Wait = time.Minute
			err := onerun.NewRunner(s).Do(t.Context(), job, func(ctx context.Context, o *onerun.Owner) error {
				return settleOnce(ctx, s, way, url, o.Lease(), func(string) {})
			})
			if err != nil {
				t.Fatalf("the second worker: %v", err)
			}
			first.signal(t, syscall.SIGCONT)
			if _, err := io.WriteString(first.in, "\n"); err != nil {
				t.Fatal(err)
			}
			if got := first.says(t); !strings.HasPrefix(got, "ended: ") || got == "ended: <nil>" {
				t.Errorf("the worker that was replaced %s", got)
			}
			if n := paid(t, url); n != 1 {
				t.Errorf("paid %d times", n)
			}
		})
	}
}
