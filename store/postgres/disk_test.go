package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// smallDisk is a small file system of the servers' account.
type smallDisk struct {
	t   *testing.T
	dir string
}

func newSmallDisk(t *testing.T, size string) smallDisk {
	t.Helper()
	dir, err := bed.Dir()
	must(t, err, "make a directory")
	d := smallDisk{t: t, dir: filepath.Join(dir, "disk")}
	must(t, os.Mkdir(d.dir, 0o700), "make a directory")
	if err := unix.Mount("tmpfs", d.dir, "tmpfs", 0, "size="+size+",mode=0700"); err != nil {
		t.Fatalf("mount a small file system on %s: %v; these tests need a full disk, so run them as root, or under: unshare -rm", d.dir, err)
	}
	must(t, pgbed.Own(d.dir), "give it to the servers' account")
	t.Cleanup(func() {
		if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", d.dir, err)
		}
	})
	return d
}

// fill leaves no room at all.
func (d smallDisk) fill() {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.dir, "filler"))
	must(d.t, err, "fill the disk")
	defer func() { _ = f.Close() }()
	for chunk := bytes.Repeat([]byte{'x'}, 4096); ; {
		switch _, err := f.Write(chunk); {
		case errors.Is(err, unix.ENOSPC):
			return
		case err != nil:
			d.t.Fatal(err)
		}
	}
}

func (d smallDisk) free() {
	d.t.Helper()
	must(d.t, os.Remove(filepath.Join(d.dir, "filler")), "make room")
}

// cramped is a store whose tables lie on a small disk. The server's log lies elsewhere.
func cramped(t *testing.T) (smallDisk, string) {
	t.Helper()
	d := newSmallDisk(t, "4m")
	server, err := newServer("-c", "fsync=off")
	must(t, err, "start a server")
	stopsAfter(t, server)
	admin := direct(t, server.URL("postgres"))
	mustExec(t, admin, "CREATE TABLESPACE small LOCATION '"+d.dir+"'")
	mustExec(t, admin, "ALTER ROLE "+superuser+" SET default_tablespace = small")
	url := server.URL("postgres", "schema", "onerun")
	_, _, err = open(t, url).Migrate(soon(t))
	must(t, err, "migrate")
	return d, url
}

// crowd claims until there is no room for one more, and gives that claim and its error. The
// rooms that are left in the tables' pages are filled by that.
func crowd(t *testing.T, s *postgres.Store) (onerun.Claim, error) {
	t.Helper()
	for i := range 2000 {
		c := claimOf(fmt.Sprintf("job-%d", i), "2026-09-15")
		if _, err := s.Claim(soon(t), c); err != nil {
			return c, err
		}
	}
	t.Fatal("two thousand claims found room on a disk that is full")
	return onerun.Claim{}, nil
}

// pack fills the pages that the attempts lie in, so that none of them can be changed: a row
// that is changed is written anew beside the old one.
func pack(t *testing.T, url string) {
	t.Helper()
	conn := direct(t, url)
	for n, size := 0, 1900; size > 0; size /= 2 {
		for {
			_, err := conn.Exec(soon(t), `INSERT INTO onerun.onerun_attempt (run_id, attempt, status, owner, token, lock, ttl, on_crash, retries, backoff_min, backoff_max,
				retry_lost, started_at, error) VALUES ($1, 1, 'FAILED', '', 0, '', 0, '', 0, 0, 0, false, now(), repeat('x', $2))`, fmt.Sprint("filler ", n), size)
			var pg *pgconn.PgError
			if errors.As(err, &pg) && pg.Code == "53100" {
				break
			}
			must(t, err, "fill the pages")
			n++
		}
	}
}

// TestFullDisk: a claim for which there is no room fails, with one line that says why, and
// leaves nothing behind; it is granted when there is room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d, url := cramped(t)
	s := open(t, url)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	d.fill()
	c, err := crowd(t, s)
	told(t, "a claim", err, onerun.ErrIO, "No space left on device", "make room")
	_, err = s.Claim(soon(t), c)
	told(t, "the same claim", err, onerun.ErrIO, "No space left on device")
	runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace, Job: c.Job})
	if err != nil || len(runs) > 0 {
		t.Errorf("a claim that failed left %+v, %v", runs, err)
	}
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil && !errors.Is(err, onerun.ErrIO) {
		t.Errorf("a heartbeat: %v", err)
	}
	d.free()
	succeed(t, s, granted(t, s, c))
	succeed(t, s, g)
}

// TestFullDiskAtTheEnd: a job ends when there is no room even for that. Its end is recorded
// when there is, and until then the run is RUNNING and its owner's.
func TestFullDiskAtTheEnd(t *testing.T) {
	t.Parallel()
	d, url := cramped(t)
	var tries atomic.Int64
	s := open(t, url, postgres.WithHook(func(step string) {
		if step == "record the end" && tries.Add(1) == 3 {
			runs, err := open(t, url).Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace, Job: "settle"})
			if err != nil || len(runs) != 1 || runs[0].Status != onerun.Running || runs[0].Stale {
				t.Errorf("while there is no room for its end: %+v, %v", runs, err)
			}
			d.free()
		}
	}))
	job := onerun.Job{Name: "settle", Partition: "2026-09-15", Policy: onerun.Policy{TTL: 30 * time.Second}}
	err := onerun.NewRunner(s).Do(soon(t), job, func(context.Context, *onerun.Owner) error {
		d.fill()
		pack(t, url)
		return nil
	})
	must(t, err, "the job")
	if tries.Load() < 3 {
		t.Errorf("the end was recorded after %d tries, while the disk was full", tries.Load())
	}
	refused(t, s, claimOf("settle", "2026-09-15"), onerun.RefusedSucceeded)
}

// TestFullDiskForOutput: there is room for the end, and none for what the job printed.
func TestFullDiskForOutput(t *testing.T) {
	t.Parallel()
	d, url := cramped(t)
	s := open(t, url)
	succeed(t, s, granted(t, s, claimOf("done", "2026-09-15"))) // the first end takes a page of each index
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	noise := make([]byte, 64<<10)
	for i := range noise { // what nobody can compress
		noise[i] = '!' + byte(rand.IntN('~'-'!'))
	}
	d.fill()
	must(t, s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded, Output: &onerun.Output{Text: string(noise), Total: int64(len(noise))}}), "finish")
	d.free()
	refused(t, s, claimOf("settle", "2026-09-15"), onerun.RefusedSucceeded)
	if _, err := s.Output(soon(t), onerun.DefaultNamespace, g.Lease.RunID, 1); !errors.Is(err, onerun.ErrNotFound) {
		t.Errorf("the output: %v", err)
	}
}

// TestFullDiskOfTheLog: no room for the server's write-ahead log stops the server. Nothing
// that it acknowledged is lost.
func TestFullDiskOfTheLog(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t, "64m")
	server, err := newServer("-c", "restart_after_crash=off", "-c", "min_wal_size=32MB", "-c", "max_wal_size=32MB", "-c", "wal_recycle=off")
	must(t, err, "start a server")
	stopsAfter(t, server)
	url := server.URL("postgres", "schema", "onerun")
	var data string
	must(t, direct(t, url).QueryRow(soon(t), "SHOW data_directory").Scan(&data), "find the data")
	server.Stop(syscall.SIGINT)
	log := filepath.Join(data, "pg_wal")
	out, err := exec.Command("cp", "-a", log, filepath.Join(d.dir, "pg_wal")).CombinedOutput()
	must(t, err, "copy the log: "+string(out))
	must(t, os.RemoveAll(log), "move the log")
	must(t, os.Symlink(filepath.Join(d.dir, "pg_wal"), log), "move the log")
	must(t, server.Start(), "start the server again")

	s := open(t, url)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	succeed(t, s, granted(t, s, claimOf("done", "2026-09-15")))
	d.fill()
	// The next file of the log finds no room.
	conn := direct(t, url)
	_, err = conn.Exec(soon(t), "SELECT pg_switch_wal(); CREATE TABLE t AS SELECT 1")
	if err == nil {
		t.Fatal("the log found room on a disk that is full")
	}
	_, err = s.Claim(soon(t), claimOf("next", "2026-09-15"))
	told(t, "a claim", err, onerun.ErrUnavailable, "is the server up")
	must(t, server.Wait(soon(t)), "see the server end")
	d.free()
	must(t, server.Start(), "start the server again")
	refused(t, s, claimOf("done", "2026-09-15"), onerun.RefusedSucceeded)
	refused(t, s, claimOf("settle", "2026-09-15"), onerun.RefusedRunning)
	succeed(t, s, g)
}
