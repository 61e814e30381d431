package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun"
)

// shareHere makes the directory this process's own group's: anybody may do that.
func shareHere(t *testing.T, dir string) int {
	t.Helper()
	changed, err := ShareLocks(dir, os.Getgid()).Apply()
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

func wrongBits(t *testing.T, dir string) {
	t.Helper()
	if err := ShareLocks(dir, os.Getgid()).Wrong(); err != nil {
		t.Error(err)
	}
}

// TestShareWhileFilesAreMade: a process that opened the directory while it was private makes
// its files in it while, and after, it is given to a group; each ends up the group's. It is
// shared between any two steps of the acquisition.
func TestShareWhileFilesAreMade(t *testing.T) {
	t.Parallel()
	for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
		for _, lock := range []onerun.LockName{"job/a", "key/a:1"} {
			for at := 1; ; at++ {
				dir := filepath.Join(t.TempDir(), "locks")
				n := 0
				var step string
				hook := func(name string) {
					if n++; n == at {
						step = name
						shareHere(t, dir)
					}
				}
				d, err := Open(dir, Options{Hook: hook, creating: func() { hook("about to make a file") }})
				if err != nil {
					t.Fatal(err)
				}
				l, held, err := d.Acquire(context.Background(), Request{Namespace: "n", Lock: lock, Mode: mode, Owner: onerun.NewID()})
				if l == nil {
					t.Fatalf("%s: held %v, error %v", step, held, err)
				}
				spool, err := l.Spool(unclaimedRun())
				if err != nil {
					t.Fatal(err)
				}
				spool.Close()
				if err := l.Write(Note{RunID: "r"}); err != nil {
					t.Fatal(err)
				}
				if n >= at {
					if err := ShareLocks(dir, os.Getgid()).Wrong(); err != nil {
						t.Errorf("%s %s, shared at %q: %v", mode, lock, step, err)
					}
				}
				if err := errors.Join(l.Release(), d.Close()); err != nil {
					t.Fatal(err)
				}
				if n < at {
					break
				}
			}
		}
	}
}

// TestShareBesideStarts: the same with many at once, none of which fails or loses a lock.
func TestShareBesideStarts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "locks")
	var wg sync.WaitGroup
	begun, stop := make(chan struct{}, 8), make(chan struct{})
	for i := range 8 {
		d, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				r := Request{Namespace: "n", Lock: onerun.LockName(fmt.Sprintf("key/a%d:%d", i, n)), Owner: onerun.NewID()}
				if n%2 == 0 {
					r.Mode = onerun.LockCreate
				}
				l, held, err := d.Acquire(context.Background(), r)
				if l == nil {
					t.Errorf("held %v, error %v", held, err)
					return
				}
				if n == 20 {
					begun <- struct{}{}
				}
				if err := errors.Join(l.Write(Note{RunID: "r"}), l.Release()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 8 {
		<-begun
	}
	if err := ShareLocks(dir, os.Getgid()).Check(); err != nil {
		t.Error(err)
	}
	if shareHere(t, dir) == 0 {
		t.Error("nothing was changed")
	}
	close(stop)
	wg.Wait()
	wrongBits(t, dir)
	if n := shareHere(t, dir); n != 0 {
		t.Errorf("the second time %d were changed", n)
	}
}

// TestIsLockFile: by its name; what a job may be called doesn't make another file one.
func TestIsLockFile(t *testing.T) {
	base := FileName("n", "job/a.lock")
	id := onerun.NewID()
	for _, name := range []string{
		base + ".lock", base + ".excl", base + ".lock.new-" + id, base + ".excl.new-" + id, base + ".excl.take-" + id,
		base + ".excl.take-" + id + ".take-" + id, ".held", ".held.new-" + id, FileName("n", "key/일일정산:1") + ".lock",
	} {
		if !IsLockFile(name) {
			t.Errorf("%q is none", name)
		}
	}
	for _, name := range []string{
		"", ".", "..", ".lock", "x.lock", "passwd", base, base + ".lock~", base + ".locks", base[1:len(base)-1] + ".lock", ".heldback", ".held~",
		strings.ToUpper(base) + ".lock", base[len(base)-32:] + ".lock",
	} {
		if IsLockFile(name) {
			t.Errorf("%q is one", name)
		}
	}
}
