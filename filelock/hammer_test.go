package filelock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// arena is memory that all processes of a test share.
type arena struct {
	inside   atomic.Int64 // the pid of the one who has the lock
	overlaps atomic.Int64
	entries  atomic.Int64
}

func mapArena(file string) (*arena, error) {
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Ftruncate(fd, 4096); err != nil {
		return nil, err
	}
	b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*arena)(unsafe.Pointer(&b[0])), nil
}

// helperHammer is told what to hammer, again and again.
func helperHammer(config) error {
	for {
		line := readCommand()
		if line == "" {
			return nil
		}
		var c config
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			return err
		}
		if err := hammer(c); err != nil {
			return err
		}
		fmt.Println("done")
	}
}

// hammer takes the lock so and so often, and looks whether it is alone.
func hammer(c config) error {
	a, err := mapArena(c.File)
	if err != nil {
		return err
	}
	d, err := c.open()
	if err != nil {
		return err
	}
	fmt.Println("ready")
	readCommand()
	me := int64(os.Getpid())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	pause := time.Millisecond
	for n := 0; n < c.Count; {
		r := c.request2()
		r.Wait = c.Mode == onerun.LockFlock
		l, held, err := d.Acquire(ctx, r)
		if err != nil {
			return err
		}
		if held != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(time.Duration(rand.Int64N(int64(pause)))) // as a caller that polls
			pause = min(2*pause, time.Second)
			continue
		}
		if !a.inside.CompareAndSwap(0, me) {
			a.overlaps.Add(1)
		}
		if err := l.Write(Note{State: StateInProcess}); err != nil {
			return err
		}
		n, pause = n+1, time.Millisecond
		a.entries.Add(1)
		a.inside.CompareAndSwap(me, 0)
		if err := errors.Join(l.Clear(), l.Release()); err != nil {
			return err
		}
	}
	return d.Close()
}

// Two hundred processes want one lock, and somebody keeps deleting files under them: the
// lock file, or all that is in the directory. (B18)
func TestHammerWhileFilesAreDeleted(t *testing.T) {
	var all []*process
	for range 200 {
		all = append(all, start(t, "hammer", config{}))
	}
	for _, c := range []struct {
		name   string
		config config
		delete func(name string) bool
		pause  time.Duration // between two sweeps
		n      int           // processes
	}{
		{"key locks, which are unlinked", config{Count: 10, Mode: onerun.LockFlock, Lock: onerun.KeyLock("j:1")}, nil, 0, 200},
		{"key locks, flock alone", config{Count: 10, Mode: onerun.LockFlock, NoRange: true, Lock: onerun.KeyLock("j:1")}, nil, 0, 200},
		{"lock file deleted", config{Count: 10, Mode: onerun.LockFlock}, func(name string) bool { return strings.HasSuffix(name, lockSuffix) }, 0, 200},
		{"all deleted", config{Count: 40, Mode: onerun.LockFlock}, func(string) bool { return true }, 20 * time.Millisecond, 40},
		{"create, all deleted but private files", config{Count: 5, Mode: onerun.LockCreate}, func(name string) bool { return !strings.Contains(name, newInfix) }, 20 * time.Millisecond, 60},
		{"create without flock", config{Count: 10, Mode: onerun.LockCreate, NoFlock: true}, nil, 0, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Dir = lockDir(t)
			c.config.File = filepath.Join(t.TempDir(), "arena")
			a, err := mapArena(c.config.File)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(c.config)
			if err != nil {
				t.Fatal(err)
			}
			ps := all[:c.n]
			for _, p := range ps {
				p.tell(string(text))
			}
			for _, p := range ps {
				p.expect("ready")
			}
			stop, stopped := make(chan struct{}), make(chan int)
			go func() {
				n := 0
				defer func() { stopped <- n }()
				for c.delete != nil {
					entries, _ := os.ReadDir(c.config.Dir)
					for _, e := range entries {
						if c.delete(e.Name()) && os.Remove(filepath.Join(c.config.Dir, e.Name())) == nil {
							n++
						}
					}
					select {
					case <-stop:
						return
					case <-time.After(c.pause):
					}
				}
			}()
			for _, p := range ps {
				p.tell("go")
			}
			for _, p := range ps {
				if line := p.line(); line != "done" {
					t.Fatalf("helper said %q; %d entries", line, a.entries.Load())
				}
			}
			close(stop)
			deleted := <-stopped
			if n := a.overlaps.Load(); n != 0 {
				t.Errorf("%d of %d times somebody else was inside (%d files deleted)", n, a.entries.Load(), deleted)
			}
			if n := a.entries.Load(); n != int64(c.n*c.config.Count) {
				t.Errorf("%d entries, want %d", n, int64(c.n*c.config.Count))
			}
			if c.delete != nil && deleted < 3 {
				t.Errorf("only %d files were deleted", deleted)
			}
		})
	}
}
