package capture

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// job runs a shell line on a capture whose streams go to the two files.
func job(t *testing.T, c Config, line string, sinks [2]int) *Capture {
	t.Helper()
	x, err := newCapture(c, sinks)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", line)
	for i, f := range []**os.File{nil, new(*os.File), new(*os.File)} {
		if i == 0 {
			continue
		}
		fd := x.fds[i]
		if fd == 0 {
			fd = uintptr(sinks[i-1])
		}
		dup, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		*f = os.NewFile(uintptr(dup), "job")
		if i == 1 {
			cmd.Stdout = *f
		} else {
			cmd.Stderr = *f
		}
		defer func() { _ = (*f).Close() }()
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []io.Writer{cmd.Stdout, cmd.Stderr} {
		_ = f.(*os.File).Close()
	}
	x.Started()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return x
}

// pipe is a pipe whose reading end is non-blocking for Go and whose writing end is fd.
func pipe(t *testing.T) (r *os.File, fd int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r = os.NewFile(uintptr(p[0]), "reader")
	t.Cleanup(func() { _ = r.Close(); _ = unix.Close(p[1]) })
	return r, p[1]
}

func open(t *testing.T, flags int) (path string, fd int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "out")
	fd, err := unix.Open(path, flags|unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return path, fd
}

// TestOrderOfOneFile: where both streams go to one place, they come there in the order in
// which they were written.
func TestOrderOfOneFile(t *testing.T) {
	t.Parallel()
	line := `i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done`
	path, fd := open(t, 0)
	x := job(t, Config{Keep: 1 << 16}, line, [2]int{fd, fd})
	x.Ended()
	if err := x.Close(false); err != nil {
		t.Fatal(err)
	}
	want, err := exec.Command("/bin/sh", "-c", "{ "+line+"; } 2>&1").Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v: another order:\n%.300s", err, got)
	}
	if tail, total := x.Tail(); !bytes.Equal(tail, want) || total != int64(len(want)) {
		t.Errorf("another order is kept: %d bytes", total)
	}
}

// TestSameFile: which two descriptors are one place.
func TestSameFile(t *testing.T) {
	t.Parallel()
	_, a := open(t, 0)
	path, b := open(t, 0)
	again, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	dup, err := unix.Dup(b)
	if err != nil {
		t.Fatal(err)
	}
	_, p := pipe(t)
	_, q := pipe(t)
	for _, c := range []struct {
		what string
		a, b int
		want bool
	}{
		{"two files", a, b, false},
		{"one file, opened twice", b, again, false},
		{"one file", b, dup, true},
		{"one pipe", p, p, true},
		{"two pipes", p, q, false},
		{"what is closed", 9999, 9999, false},
	} {
		if got := sameFile(c.a, c.b); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestNothingToDo: then no pipe lies in between.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		c     Config
		pipes bool
	}{
		{Config{}, false},
		{Config{Mode: Always}, false},
		{Config{Keep: 1}, true},
		{Config{Mode: OnFailure}, true},
		{Config{Mode: Never, Keep: 1}, true},
	} {
		x, err := New(c.c)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(x.streams) > 0; got != c.pipes {
			t.Errorf("%+v: pipes: %v", c.c, got)
		}
		x.Ended()
		if err := x.Close(true); err != nil {
			t.Error(err)
		}
	}
	x, err := New(Config{Mode: Never})
	if err != nil || len(x.streams) != 0 || x.Stdout() == 0 || x.Stderr() == 0 {
		t.Errorf("never, and nothing kept: %v, %d pipes", err, len(x.streams))
	}
	x.Ended()
	if err := x.Close(true); err != nil {
		t.Error(err)
	}
}

// TestBackground: a process that keeps the pipe open holds nobody up, silent or not; what
// the job itself had printed is all there.
func TestBackground(t *testing.T) {
	t.Parallel()
	for what, line := range map[string]string{
		"silent": "sleep 600 & echo $! >&2; head -c 50000 /dev/zero",
		"loud":   "yes & echo $! >&2; head -c 50000 /dev/zero",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path, fd := open(t, 0)
			pids, pid := open(t, 0)
			x := job(t, Config{Keep: 1 << 16}, line, [2]int{fd, pid})
			t.Cleanup(func() {
				text, _ := os.ReadFile(pids)
				_ = exec.Command("kill", string(bytes.TrimSpace(text))).Run() // yes has died of SIGPIPE
			})
			begin := time.Now()
			x.Ended()
			if err := x.Close(false); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took < idle/2 || took > 20*total {
				t.Errorf("it took %s", took)
			}
			got, err := os.ReadFile(path)
			if n := bytes.Count(got, []byte{0}); err != nil || n != 50000 {
				t.Errorf("%v: %d bytes of the job's", err, n)
			}
		})
	}
}

// TestLoudBackground: nobody who has an end to record waits for a process that goes on printing,
// however long that is passed on.
func TestLoudBackground(t *testing.T) {
	t.Parallel()
	_, fd := open(t, 0)
	pids, pid := open(t, 0)
	x := job(t, Config{Keep: 1 << 16}, "(while :; do echo n; sleep .01; done) & echo $! >&2; head -c 50000 /dev/zero", [2]int{fd, pid})
	x.total = time.Hour
	x.Ended()
	if !x.Waiting(false) {
		t.Error("the background is waited for")
	}
	if tail, _ := x.Tail(); bytes.Count(tail, []byte{0}) != 50000 {
		t.Errorf("kept of the job: %d", bytes.Count(tail, []byte{0}))
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("kill", string(bytes.TrimSpace(text))).Run(); err != nil {
		t.Error(err)
	}
	if err := x.Close(false); err != nil {
		t.Error(err)
	}
}

// TestSlowReader: the end of a job isn't waited for by whoever is to record it, and nothing
// is lost.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	r, fd := pipe(t)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // as some callers leave it
		t.Fatal(err)
	}
	_, other := open(t, 0)
	x := job(t, Config{Keep: 1 << 16}, "head -c 60000 /dev/zero", [2]int{fd, other})
	x.Ended()
	if !x.Waiting(false) {
		t.Fatal("all is passed on, to a reader that has read nothing")
	}
	if tail, total := x.Tail(); len(tail) != 60000 || total != 60000 {
		t.Errorf("kept before it is passed on: %d of %d", len(tail), total)
	}
	closed := make(chan error, 1)
	go func() { closed <- x.Close(false) }()
	if n, err := io.ReadFull(r, make([]byte, 60000)); err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if tail, total := x.Tail(); len(tail) != 60000 || total != 60000 {
		t.Errorf("kept: %d of %d", len(tail), total)
	}
}
