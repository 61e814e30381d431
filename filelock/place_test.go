package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/onerun-dev/onerun"
)

// helperQueue waits in line, and when it has the lock appends its word to a file.
func helperQueue(c config) error {
	d, err := c.open()
	if err != nil {
		return err
	}
	r := c.request()
	r.InLine, r.Wait = true, true
	if r.Place, err = d.Queue(context.Background(), r.Namespace, r.Lock); err != nil {
		return err
	}
	fmt.Println("queued")
	l, _, err := d.Acquire(context.Background(), r)
	if err != nil {
		return err
	}
	r.Place.Leave()
	f, err := os.OpenFile(c.File, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, c.Owner)
	err = errors.Join(err, f.Close(), l.Clear(), l.Release())
	fmt.Println("served")
	return err
}

// line is a lock that is held, and the processes that wait in line for it.
type line struct {
	t      *testing.T
	path   string
	file   string // which of them have been served
	dir    *Dir
	held   *Lock
	all    []*process
	owners []string
}

func newLine(t *testing.T, n int) *line {
	t.Helper()
	w := &line{t: t, path: lockDir(t), file: filepath.Join(t.TempDir(), "served")}
	w.dir = mustOpen(t, w.path, Options{})
	w.held = mustAcquire(t, w.dir, request(onerun.LockFlock))
	for range n {
		w.come()
	}
	return w
}

// come is one more that waits, once it stands in the line.
func (w *line) come() {
	w.t.Helper()
	owner := onerun.NewID()
	p := start(w.t, "queue", config{Dir: w.path, Owner: owner, File: w.file})
	p.expect("queued")
	w.all, w.owners = append(w.all, p), append(w.owners, owner)
	w.queued(len(w.all))
}

func (w *line) queued(want int) {
	w.t.Helper()
	if n, err := w.dir.Queued("default", onerun.JobLock("j")); n != want || err != nil {
		w.t.Fatalf("%d stand in line, error %v; want %d", n, err, want)
	}
}

// served waits until some of them have had the lock, and looks who had it, in order.
func (w *line) served(which ...int) {
	w.t.Helper()
	var want []string
	for _, i := range which {
		want = append(want, w.owners[i])
		w.all[i].expect("served")
	}
	text, err := os.ReadFile(w.file)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := strings.Fields(string(text)); !slices.Equal(got, want) {
		w.t.Fatalf("served were %q, want %q, of %q", got, want, w.owners)
	}
}

// TestFirstComeFirstServed: processes have the lock in the order in which they came.
func TestFirstComeFirstServed(t *testing.T) {
	w := newLine(t, 8)
	mustRelease(t, w.held)
	w.served(0, 1, 2, 3, 4, 5, 6, 7)
	w.queued(0)
}

// TestKilledInLine: who is killed leaves the line, and all others keep their order, wherever
// it stood: at the front, in the middle, at the end.
func TestKilledInLine(t *testing.T) {
	for _, c := range []struct {
		killed []int
		want   []int
	}{
		{[]int{0}, []int{1, 2, 3, 4}},
		{[]int{2}, []int{0, 1, 3, 4}},
		{[]int{1, 2}, []int{0, 3, 4}},
		{[]int{4}, []int{0, 1, 2, 3}},
		{[]int{0, 1, 2, 3}, []int{4}},
	} {
		t.Run(fmt.Sprint(c.killed), func(t *testing.T) {
			w := newLine(t, 5)
			for _, i := range c.killed {
				w.all[i].kill()
			}
			w.queued(5 - len(c.killed))
			mustRelease(t, w.held)
			w.served(c.want...)
			w.queued(0)
		})
	}
}

// TestFrozenInLine: who is stopped keeps its place while it lives, even when the lock is free.
func TestFrozenInLine(t *testing.T) {
	w := newLine(t, 2)
	first := w.all[0].cmd.Process
	if err := first.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(first.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it is not stopped: %v, error %v", status, err)
	}
	mustRelease(t, w.held)
	r := request(onerun.LockFlock)
	r.InLine = true
	held := mustHeld(t, w.dir, r)
	if held.Note != nil || held.Liveness != onerun.Alive || !strings.Contains(held.Evidence, "2 starts") || !strings.HasSuffix(held.Path, queueSuffix) {
		t.Errorf("in the way is %+v; want the line, and nobody who has the lock", held)
	}
	w.queued(2)
	r.InLine = false // who doesn't say that it wants to be served in order takes what is free
	l := mustAcquire(t, w.dir, r)
	mustRelease(t, l)
	if err := first.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.served(0, 1)
}
