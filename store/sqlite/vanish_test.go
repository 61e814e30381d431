package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// away moves the files of a database out of sight, and gives what puts them back.
func (b *bed) away(suffixes ...string) (back func()) {
	b.t.Helper()
	dir := b.t.TempDir()
	if d, err := os.MkdirTemp(filepath.Dir(b.path), "away-"); err == nil { // on the same file system
		dir = d
	}
	var moved []string
	for _, suffix := range suffixes {
		err := os.Rename(b.path+suffix, filepath.Join(dir, "db"+suffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.t.Fatal(err)
		}
		if err == nil {
			moved = append(moved, suffix)
		}
	}
	return func() {
		b.t.Helper()
		for _, suffix := range moved {
			if err := os.Rename(filepath.Join(dir, "db"+suffix), b.path+suffix); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// TestDatabaseDeletedUnderAnOwner: a lease whose ledger vanished is lost. Neither a
// heartbeat nor a finish makes a new ledger and pretends; the lock is held until the
// owner ends; and should the ledger come back, the end is recorded after all.
func TestDatabaseDeletedUnderAnOwner(t *testing.T) {
	t.Parallel()
	for _, putBack := range []bool{false, true} {
		t.Run(map[bool]string{false: "for good", true: "and put back"}[putBack], func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			c, out := claimOf("settle", day), ended(onerun.Succeeded)
			owner := b.child(plan{})
			owner.do(order{Do: "claim", Claim: c})
			owner.do(order{Do: "job", Script: "echo $$; exec sleep 1000"})
			if err := b.Close(); err != nil { // one connection is enough
				t.Fatal(err)
			}
			back := b.away("", "-wal", "-shm")
			r, err := owner.ask(order{Do: "beat"})
			if err != nil {
				t.Fatal(err)
			}
			isKind(t, r.Kinds, r.Err, "lost", "heartbeat without a ledger")
			if _, err := os.Stat(b.path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a heartbeat made a database: %v", err)
			}
			if !putBack {
				// With a new ledger, which another start makes: the lock is held all the same.
				b = b.reopen()
				b.refused(again(c), onerun.RefusedLocked)
			}
			if r, err = owner.ask(order{Do: "finish", Outcome: out}); err != nil {
				t.Fatal(err)
			}
			isKind(t, r.Kinds, r.Err, "lost", "finish without a ledger")
			if putBack {
				if _, err := os.Stat(b.path); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a finish made a database: %v", err)
				}
				back()
				b = b.reopen()
				b.refused(again(c), onerun.RefusedSucceeded)
				if r := b.run(c.RunID); !r.FinishedAt.Equal(out.FinishedAt) {
					t.Errorf("the end that came back with the ledger: %s, not %s", r.FinishedAt, out.FinishedAt)
				}
			} else {
				if n := len(b.runs("settle")); n != 0 {
					t.Errorf("runs in the new ledger: %d", n)
				}
				// The lock file still tells of a run that has ended and that the new ledger
				// doesn't know: executing the key again is for a person to decide.
				if ref := b.refusal(again(c), onerun.RefusedStale); ref.Holder.RunID != c.RunID {
					t.Errorf("holder: %s", ref.Holder)
				}
				b.removeLockFile(c.Lock)
				b.lived(again(c), onerun.Succeeded)
			}
			sound(t, b.path)
		})
	}
}

// TestDatabaseReplaced: a client that stays open (`onerun serve`, say) goes on with the
// database that stands under the name now, not with the one that it had opened.
func TestDatabaseReplaced(t *testing.T) {
	t.Parallel()
	for _, files := range [][]string{{"", "-wal", "-shm"}, {"-wal", "-shm"}, {"-shm"}, {"-wal"}} {
		t.Run(strings.Join(append([]string{"without"}, files...), " "), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.lived(claimOf("settle", day), onerun.Succeeded)
			held := b.granted(claimOf("report", day))
			b.away(files...)
			switch {
			case files[0] == "":
				other := b.reopen() // makes a new one
				other.lived(claimOf("settle", "2026-09-17"), onerun.Succeeded)
				b.lived(claimOf("settle", day), onerun.Succeeded) // its history is gone
				b.refused(claimOf("settle", "2026-09-17"), onerun.RefusedSucceeded)
				is(t, b.Finish(soon(t), held.Lease, ended(onerun.Succeeded)), "lost", "finish what the new database doesn't know")
				other.refused(claimOf("settle", day), onerun.RefusedSucceeded)
			default:
				// The only connection has it all, and folds it into the database.
				b.refused(claimOf("settle", day), onerun.RefusedSucceeded)
				b.finish(held, onerun.Succeeded)
				other := b.reopen()
				other.refused(claimOf("settle", day), onerun.RefusedSucceeded)
				other.refused(claimOf("report", day), onerun.RefusedSucceeded)
			}
			sound(t, b.path)
		})
	}
}

// TestLockFileDeletedUnderAnOwner: nobody gets in.
func TestLockFileDeletedUnderAnOwner(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	keyed, unkeyed, alone := claimOf("settle", day), claimOf("sweep", ""), lockClaim("db")
	owners := map[string]onerun.Grant{}
	for _, c := range []onerun.Claim{keyed, unkeyed, alone} {
		owners[string(c.Lock)] = b.granted(c)
		b.removeLockFile(c.Lock)
	}
	if !b.LockDeleted(owners["name/db"].Lease) {
		t.Error("the owner isn't told")
	}
	for range 3 {
		b.refused(again(keyed), onerun.RefusedRunning)
		b.refused(again(unkeyed), onerun.RefusedLocked)
		b.refused(again(alone), onerun.RefusedLocked)
	}
	for _, g := range owners {
		if _, err := b.Heartbeat(soon(t), g.Lease); err != nil {
			t.Errorf("heartbeat of %s: %v", g.Lease.Lock, err)
		}
		b.finish(g, onerun.Succeeded)
	}
	b.refused(again(keyed), onerun.RefusedSucceeded)
	b.finish(b.granted(again(unkeyed)), onerun.Succeeded)
	b.finish(b.granted(again(alone)), "")
	sound(t, b.path)
}

// TestLockDirectoryDeleted: the ledger still knows who runs. A client that has the
// directory open says what is wrong; a new one makes it anew.
func TestLockDirectoryDeleted(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := claimOf("settle", day)
	g := b.granted(c)
	locks := filepath.Join(filepath.Dir(b.path), "locks")
	if err := os.RemoveAll(locks); err != nil {
		t.Fatal(err)
	}
	_, err := b.Claim(soon(t), claimOf("report", day))
	is(t, err, "create", "claim without a lock directory")
	if n := len(b.runs("report")); n != 0 {
		t.Errorf("runs of a claim that failed: %d", n)
	}
	other := b.reopen()
	other.refused(again(c), onerun.RefusedRunning)
	b.finish(g, onerun.Succeeded)
	other.refused(again(c), onerun.RefusedSucceeded)
	other.lived(claimOf("report", day), onerun.Succeeded)
	sound(t, b.path)
}
