package sqlite_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// mount mounts a file system for the time of a test.
func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		t.Fatalf("mount %s on %s: %v; these tests mount small file systems, so run them as root, or under: unshare -rm", kind, target, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", target, err)
		}
	})
}

// smallDisk is a disk of 1 MiB.
type smallDisk struct {
	t    *testing.T
	path string // of a store on it
}

func newSmallDisk(t *testing.T) smallDisk {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mount(t, "tmpfs", dir, "tmpfs", 0, "size=1m,mode=0700")
	return smallDisk{t: t, path: filepath.Join(dir, sqlite.DatabaseName)}
}

func (d smallDisk) bed() *bed {
	d.t.Helper()
	return &bed{t: d.t, path: d.path, Store: open(d.t, d.path)}
}

// fill leaves no room at all.
func (d smallDisk) fill() {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(filepath.Dir(d.path), "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, size := range []int{4096, 1} {
		for chunk := bytes.Repeat([]byte{'x'}, size); ; {
			if _, err := f.Write(chunk); errors.Is(err, unix.ENOSPC) {
				break
			} else if err != nil {
				d.t.Fatal(err)
			}
		}
	}
}

func (d smallDisk) free() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(filepath.Dir(d.path), "filler")); err != nil {
		d.t.Fatal(err)
	}
}

func TestFullDiskBeforeFirstUse(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t)
	d.fill()
	s, err := sqlite.Open(t.Context(), d.path)
	if err == nil { // a directory may have needed no room
		_, err = s.Claim(soon(t), claimOf("settle", day))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	is(t, err, "io", "first use on a full disk")
	d.free()
	b := d.bed()
	if n := b.lived(claimOf("settle", day), onerun.Succeeded).Attempt; n != 1 {
		t.Errorf("attempts: %d", n)
	}
	sound(t, d.path)
}

func TestFullDiskBeforeTheClaim(t *testing.T) {
	t.Parallel()
	for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			d := newSmallDisk(t)
			b := d.bed()
			b.lived(claimOf("other", day), onerun.Succeeded)
			d.fill()
			c := claimOf("settle", day)
			c.LockMode = mode
			for _, s := range []*bed{b, b.reopen()} { // with the journal open already, and not
				_, err := s.Claim(soon(t), again(c))
				is(t, err, "io", "claim on a full disk")
				_, err = s.Claim(soon(t), lockClaim("db"))
				is(t, err, "io", "claim of a lock alone on a full disk")
			}
			d.free()
			if n := len(b.runs("settle")); n != 0 {
				t.Errorf("runs of claims that failed: %d", n)
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(d.path), "locks", "*.excl*"))
			if err != nil || len(left) != 0 {
				t.Errorf("lock files left by claims that failed: %v %v", left, err)
			}
			b.lived(again(c), onerun.Succeeded)
			b.finish(b.granted(lockClaim("db")), "")
			sound(t, d.path)
		})
	}
}

// TestFullDiskAtTheCommit: the note is written, in room that the lock file has from an
// earlier run, and then the ledger can't take the claim. That must not leave a note of a
// process that lives, and so bar all that follow.
func TestFullDiskAtTheCommit(t *testing.T) {
	t.Parallel()
	for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			d := newSmallDisk(t)
			var steps []string
			b := &bed{t: t, path: d.path, Store: open(t, d.path, sqlite.WithHook(func(step string) {
				if steps = append(steps, step); step == stepCommit && len(steps) > 1 && steps[0] == "armed" {
					d.fill()
				}
			}))}
			c := claimOf("settle", "")
			c.LockMode = mode
			b.lived(c, onerun.Succeeded)
			for _, c := range []onerun.Claim{c, claimOf("settle", day)} {
				c.LockMode = mode
				steps = []string{"armed"}
				_, err := b.Claim(soon(t), again(c))
				is(t, err, "io", "claim whose commit meets a full disk")
				d.free()
				steps = nil
				b.lived(again(c), onerun.Succeeded)
			}
			sound(t, d.path)
		})
	}
}

// TestFullDiskAtTheEnd: the end of a job loses nothing. It stands in the lock file, in
// room that was taken before the job started, until the next claim can record it;
// one that fails in between, the disk still being full, doesn't lose it either.
func TestFullDiskAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			d := newSmallDisk(t)
			c := claimOf("settle", day)
			c.LockMode = mode
			b := d.bed()
			b.lived(claimOf("other", day), onerun.Succeeded)
			owner := b.child(plan{})
			owner.do(order{Do: "claim", Claim: c})
			owner.do(order{Do: "job", Script: "echo $$; exec sleep 1000"})
			d.fill()
			out := ended(onerun.Failed)
			out.Error = strings.Repeat("details ", 100)
			r, err := owner.ask(order{Do: "finish", Outcome: out})
			if err != nil {
				t.Fatal(err)
			}
			isKind(t, r.Kinds, r.Err, "io", "finish on a full disk")
			_, err = b.Claim(soon(t), again(c)) // it is held still, but that can't be recorded
			is(t, err, "io", "another start, on a full disk")
			owner.kill()
			next := again(c)
			next.Partition = "2026-09-16"
			for _, s := range []*bed{b, b.reopen()} {
				_, err := s.Claim(soon(t), again(next))
				is(t, err, "io", "the next claim, on a disk that is still full")
			}
			d.free()
			g := b.granted(again(next))
			run := b.run(c.RunID)
			if run.Status != onerun.Failed || run.Reason != onerun.ReasonExit || *run.ExitCode != 3 || !run.FinishedAt.Equal(out.FinishedAt) || run.Error != out.Error {
				t.Errorf("the end that was told by the next claim: %s %s at %s: %q", run.Status, run.Reason, run.FinishedAt, run.Error)
			}
			if len(g.Delivered) != 1 || g.Delivered[0].Run.RunID != c.RunID {
				t.Errorf("closed on the way: %v", g.Delivered)
			}
			b.finish(g, onerun.Succeeded)
			b.refused(again(c), onerun.RefusedFailed)
			sound(t, d.path)
		})
	}
}

// TestFullDiskFinishAgain: the owner lives, and asks again until there is room.
func TestFullDiskFinishAgain(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t)
	b := d.bed()
	g := b.granted(claimOf("settle", day))
	d.fill()
	out := ended(onerun.Succeeded)
	var err error
	for range 3 {
		err = b.Finish(soon(t), g.Lease, out)
		is(t, err, "io", "finish on a full disk")
	}
	if _, err := b.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("heartbeat on a full disk: %v", err)
	}
	d.free()
	if err := b.Finish(soon(t), g.Lease, out); err != nil {
		t.Fatalf("finish when there is room: %v", err)
	}
	if r := b.run(g.Lease.RunID); r.Status != onerun.Succeeded || !r.FinishedAt.Equal(out.FinishedAt) {
		t.Errorf("the run: %s at %s", r.Status, r.FinishedAt)
	}
	sound(t, d.path)
}

// TestFullDiskAtASkip: a refusal that can't be recorded is an error, not a skip.
func TestFullDiskAtASkip(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t)
	b := d.bed()
	c := claimOf("settle", day)
	b.lived(c, onerun.Succeeded)
	counted := b.refusal(again(c), onerun.RefusedSucceeded).Count
	d.fill()
	_, err := b.Claim(soon(t), again(c))
	is(t, err, "io", "claim of a key that has succeeded, on a full disk")
	_, err = b.Approve(soon(t), approval(b.run(c.RunID)))
	is(t, err, "io", "approve on a full disk")
	if b.run(c.RunID).Status != onerun.Succeeded { // reading needs no room
		t.Error("the run changed")
	}
	d.free()
	if n := b.refusal(again(c), onerun.RefusedSucceeded).Count; n != counted+1 {
		t.Errorf("refusals counted: %d after %d", n, counted)
	}
	b.approve(b.run(c.RunID))
	sound(t, d.path)
}

func TestReadOnlyFileSystem(t *testing.T) {
	t.Parallel()
	dir := home(t)
	rw, ro := filepath.Join(dir, "rw"), filepath.Join(dir, "ro")
	for _, d := range []string{rw, ro} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b := &bed{t: t, path: filepath.Join(rw, sqlite.DatabaseName), Store: open(t, rw)}
	b.lived(claimOf("settle", day), onerun.Succeeded)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	mount(t, rw, ro, "", unix.MS_BIND, "")
	if err := unix.Mount("", ro, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatalf("make a mount read-only: %v", err)
	}
	_, err := sqlite.Open(t.Context(), ro)
	is(t, err, "create", "open a store on a read-only file system")
	s := open(t, ro, sqlite.WithLockDir(filepath.Join(home(t), "locks")))
	_, err = s.Claim(soon(t), claimOf("settle", "2026-09-16"))
	is(t, err, "create", "claim with a database on a read-only file system")
	_, err = sqlite.Open(t.Context(), filepath.Join(ro, "new.db"), sqlite.WithLockDir(filepath.Join(home(t), "locks")))
	if err == nil {
		s := open(t, filepath.Join(ro, "new.db"), sqlite.WithLockDir(filepath.Join(home(t), "locks")))
		_, err = s.Claim(soon(t), claimOf("settle", day))
	}
	is(t, err, "create", "make a database on a read-only file system")
	if _, err := os.Stat(filepath.Join(rw, "new.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	sound(t, b.path)
}
