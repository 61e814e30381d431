package filelock

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// waits reports whether a directory's mark says that ends may wait.
func waits(d *Dir) bool { return d.Waiting() != d.DeliveredUntil() }

// TestWaitingMark: it is set by whoever could not tell an end, seen by every other client
// of the directory, and taken back by whoever delivered.
func TestWaitingMark(t *testing.T) {
	path := lockDir(t)
	d, other := mustOpen(t, path, Options{}), mustOpen(t, path, Options{})
	d.SetWaiting()
	if entries, err := os.ReadDir(path); err != nil || len(entries) != 0 || waits(d) {
		t.Errorf("without .held: %v, error %v, waits %v", entries, err, waits(d))
	}
	mustRelease(t, mustAcquire(t, d, request(onerun.LockFlock)))
	if waits(d) || waits(other) {
		t.Fatal("nothing waits yet")
	}
	d.SetWaiting()
	if !waits(d) || !waits(other) {
		t.Fatal("the mark isn't seen")
	}
	other.Delivered(other.Waiting())
	if waits(d) || waits(other) {
		t.Fatal("the mark is still there")
	}
	// A mark that is set while somebody delivers is about an end that wasn't there yet.
	d.SetWaiting()
	mark := other.Waiting()
	d.SetWaiting()
	other.Delivered(mark)
	if !waits(d) {
		t.Error("a mark that was set while somebody delivered is lost")
	}
	other.Delivered(other.Waiting())
	if waits(d) {
		t.Error("the mark is still there")
	}
}

// TestWaitingIsNeverLost: whatever the order of those who set the mark and those who
// deliver, it isn't taken back before its end was seen.
func TestWaitingIsNeverLost(t *testing.T) {
	path := lockDir(t)
	d, other := mustOpen(t, path, Options{}), mustOpen(t, path, Options{})
	mustRelease(t, mustAcquire(t, d, request(onerun.LockFlock)))
	var ends atomic.Int64
	const rounds = 500
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range rounds {
			ends.Add(1)
			d.SetWaiting()
		}
	}()
	seen := int64(0)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			mark := other.Waiting()
			seen = ends.Load()
			other.Delivered(mark)
		}
	}
	if !waits(other) && seen != rounds {
		t.Errorf("nothing seems to wait, and of %d ends %d were seen", rounds, seen)
	}
}

// TestWaitingMarkBesideTheInode: .held also holds the number of its own inode, by which
// it is known to be settled. The one doesn't disturb the other.
func TestWaitingMarkBesideTheInode(t *testing.T) {
	for _, first := range []string{"the mark", "the inode"} {
		t.Run(first, func(t *testing.T) {
			path := lockDir(t)
			held := filepath.Join(path, heldName)
			d := mustOpen(t, path, Options{})
			is := func() bool {
				t.Helper()
				fd, err := unix.Open(held, unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer closeFD(&fd)
				var st unix.Stat_t
				if err := unix.Fstat(fd, &st); err != nil {
					t.Fatal(err)
				}
				return settled(fd, st.Ino)
			}
			if first == "the mark" {
				if err := os.WriteFile(held, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				d.SetWaiting()
				if is() || !waits(d) {
					t.Fatalf("marked before anybody looked: settled %v, waits %v", is(), waits(d))
				}
			}
			mustRelease(t, mustAcquire(t, d, request(onerun.LockFlock)))
			if !is() || waits(d) != (first == "the mark") {
				t.Fatalf("looked at: settled %v, waits %v", is(), waits(d))
			}
			d.SetWaiting()
			if !is() || !waits(d) {
				t.Fatalf("marked: settled %v, waits %v", is(), waits(d))
			}
			l := mustAcquire(t, d, request(onerun.LockFlock))
			mustHeld(t, d, request(onerun.LockFlock))
			mustRelease(t, l)
			d.Delivered(d.Waiting())
			if !is() || waits(d) {
				t.Fatalf("delivered: settled %v, waits %v", is(), waits(d))
			}
			// A copy of it under its name is another inode, whatever marks it has.
			d.SetWaiting()
			text, err := os.ReadFile(held)
			if err == nil {
				err = os.Rename(held, held+"-old")
			}
			if err == nil {
				err = os.WriteFile(held, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if is() || !waits(d) {
				t.Fatalf("a copy: settled %v, waits %v", is(), waits(d))
			}
		})
	}
}

// TestWaitingWhileClosed: the mark goes by a descriptor that others close. It is theirs to
// the end, and a lock that is still held can mark the directory after Close.
func TestWaitingWhileClosed(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{})
	l := mustAcquire(t, d, request(onerun.LockFlock))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				d.SetWaiting()
				if !waits(d) {
					t.Error("the mark is lost while a lock is held")
				}
			}
		})
	}
	all.Go(func() { _ = d.Close() })
	all.Wait()
	for range 4 {
		all.Go(func() { d.SetWaiting(); waits(d) })
	}
	all.Go(func() { _ = l.Release() })
	all.Wait()
	if d.Waiting() != 0 {
		t.Error("a closed directory has a mark")
	}
}
