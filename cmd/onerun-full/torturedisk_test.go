package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk is a file system of a few pages in a mount namespace of its own, which goes with the last
// process in it.
type smallDisk struct {
	dir   string
	outer string // where it is seen from outside
	pid   int
}

func newSmallDisk(t *testing.T, dir string) *smallDisk {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	args := []string{"--mount", "--propagation", "private"}
	if os.Geteuid() != 0 {
		args = append(args, "--user", "--map-root-user")
	}
	cmd := exec.Command("unshare", append(args, "sh", "-c", `mount -t tmpfs -o size=256k,mode=700 tmpfs "$1" && echo up && exec cat`, "sh", dir)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	if n, err := out.Read(make([]byte, 3)); n != 3 {
		t.Fatalf("a small disk: %v %s", err, said.String())
	}
	return &smallDisk{dir: dir, outer: fmt.Sprintf("/proc/%d/root%s", cmd.Process.Pid, dir), pid: cmd.Process.Pid}
}

// enter is what a command begins with that sees the disk, and works in a directory. It becomes the
// command.
func (d *smallDisk) enter(dir string) []string {
	argv := []string{"nsenter", "--target", strconv.Itoa(d.pid), "--mount", "--wd=" + dir}
	if os.Geteuid() != 0 {
		argv = append(argv, "--user", "--preserve-credentials")
	}
	return append(argv, "--")
}

// fill takes all the room that there is.
func (d *smallDisk) fill() error {
	err := os.WriteFile(filepath.Join(d.outer, "full"), make([]byte, 1<<20), 0o600)
	if !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("the disk isn't full: %w", err)
	}
	return nil
}

func (d *smallDisk) empty() error { return os.Remove(filepath.Join(d.outer, "full")) }

// fillDisk takes the room on a host's disk for a while. Now and then its lock files go first, so
// that what starts then needs room.
func (w *world) fillDisk(_ *island, r *rand.Rand) bool {
	h := w.hosts[len(w.hosts)-1]
	if r.IntN(2) == 0 {
		w.spoil(h, r, remove)
	}
	w.during(time.Duration(500+r.IntN(1500))*time.Millisecond, func() {
		if err := h.small.fill(); err != nil {
			w.violate("machine", "%v", err)
		}
	}, func() {
		if err := h.small.empty(); err != nil {
			w.violate("machine", "%v", err)
		}
	})
	return true
}

// spoil harms the lock files of a host, and remembers when: an end that waited in one is gone.
func (w *world) spoil(h *island, r *rand.Rand, how func(path string, r *rand.Rand) error) bool {
	if w.server == nil {
		h = w.hosts[0] // of whose machine all are
	}
	dir := h.path("locks")
	if h.small != nil {
		dir = h.small.outer
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err != nil || len(files) == 0 {
		return false
	}
	// Whoever works is told apart from who began later by the time, so it is noted on both sides.
	note := func() {
		at := sinceBoot()
		for _, other := range w.hosts {
			if other.host == h.host {
				other.mu.Lock()
				other.spoiled = append(other.spoiled, at)
				other.mu.Unlock()
			}
		}
	}
	note()
	for _, f := range files {
		if err := how(f, r); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOSPC) {
			w.violate("machine", "%v", err)
		}
	}
	note()
	return true
}

func remove(path string, _ *rand.Rand) error { return os.Remove(path) }

// scribble does what a disk does that loses or mixes up what it has.
func scribble(path string, r *rand.Rand) error {
	size := int64(0)
	if s, err := os.Stat(path); err == nil {
		size = s.Size()
	}
	switch r.IntN(3) {
	case 0:
		return os.Truncate(path, 0)
	case 1:
		return os.Truncate(path, r.Int64N(size+1))
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	garbage := strings.Repeat(string(rune(r.IntN(256))), 1+r.IntN(200))
	_, err = f.WriteAt([]byte(garbage), r.Int64N(size+1))
	return errors.Join(err, f.Close())
}

// TestFullDisk: a job that has begun ends in the ledger though its host's disk is full by then; what
// needs room that isn't there doesn't begin.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s, net := cut(t)
	h := &island{host: newHost(t, net.URL("postgres", "schema", "one"))}
	h.small = newSmallDisk(t, h.path("locks"))
	begun := h.at(bin, "run", "settle", "--partition", "one", "--finish-wait", "1s", "--store-timeout", "1s", "--", "sh", "-c", waits("up", "exit 0"))
	if err := begun.Start(); err != nil {
		t.Fatal(err)
	}
	h.sees("up")
	if err := h.small.fill(); err != nil {
		t.Fatal(err)
	}
	net.Pass(false, false) // so the end has to wait on the full disk
	h.write("go")
	if err := begun.Wait(); begun.ProcessState.ExitCode() != 76 {
		t.Fatalf("%v, want exit status 76", err)
	}
	net.Break()
	net.Pass(true, true)
	if out, err := h.at(bin, "run", "other", "--", "touch", "ran").CombinedOutput(); err == nil || !strings.Contains("exit status 73 exit status 74", err.Error()) {
		t.Errorf("without room for a lock file: %v, %s", err, out)
	}
	if _, err := os.Stat(h.path("ran")); err == nil {
		t.Error("a job began that there was no room for")
	}
	if err := h.small.empty(); err != nil {
		t.Fatal(err)
	}
	if out, err := h.at(bin, "flush").CombinedOutput(); err != nil {
		t.Fatalf("flush: %v, %s", err, out)
	}
	h.is("settle", "SUCCEEDED", "")
	s.Stop(syscall.SIGQUIT)
}
