package capture

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Mode says what becomes of what a job prints.
type Mode string

// The modes.
const (
	Always    Mode = "always"     // passed on at once
	OnFailure Mode = "on-failure" // held back, and passed on when the job failed
	Never     Mode = "never"      // dropped
)

// Config is what to do with a job's output.
type Config struct {
	Mode      Mode
	Keep      int    // how many bytes of the end are kept; 0: none
	Terminals bool   // a stream that goes to a terminal is treated as any other; else the job has the terminal itself
	TempDir   string // for what is held back; "": the system's
}

// After the job's end: whatever it left in a pipe is kept. If a process of its background
// keeps the pipe open, more is passed on, but not for longer than this.
const (
	idle   = 100 * time.Millisecond // without a byte
	total  = time.Second
	moment = 20 * time.Millisecond // for what a tee of its own has yet to print, which is kept too
)

// Capture is the output of one job.
type Capture struct {
	fds     [3]uintptr // what becomes the job's 1 and 2; 0: as they are
	streams []*stream
	writers []int // our copies of the job's ends
	mode    Mode
	total   time.Duration // see there

	mu    sync.Mutex
	tail  ring
	spool *spool // of OnFailure
	lost  error  // why something could not be passed on, though its reader is there
}

// New makes what the job is to write to. Nothing is made, and the job has the wrapper's own
// descriptors, where nothing is to be done with its output.
func New(c Config) (*Capture, error) { return newCapture(c, [2]int{1, 2}) }

func newCapture(c Config, sinks [2]int) (*Capture, error) {
	x := &Capture{mode: cmp.Or(c.Mode, Always), total: total, tail: ring{size: c.Keep}}
	if x.mode == Always && c.Keep == 0 {
		return x, nil
	}
	if x.mode == OnFailure {
		x.spool = &spool{dir: c.TempDir}
	}
	for i, sink := range sinks {
		if !c.Terminals && isTerminal(sink) {
			continue
		}
		if i == 1 && x.fds[1] != 0 && sameFile(sinks[0], sink) {
			x.fds[2] = x.fds[1] // one pipe keeps the order in which the two are written
			break
		}
		if err := x.pipe(i+1, sink); err != nil {
			x.closeWriters()
			for _, s := range x.streams {
				_ = s.file.Close()
			}
			return nil, err
		}
	}
	return x, nil
}

// pipe makes the pipe that becomes the job's descriptor number.
func (x *Capture) pipe(number, sink int) error {
	if x.mode == Never && x.tail.size == 0 {
		fd, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			x.fds[number], x.writers = uintptr(fd), append(x.writers, fd)
		}
		return err
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	// Only our end: the job's is another open file, and programs expect a blocking one.
	if err := unix.SetNonblock(p[0], true); err != nil {
		_ = unix.Close(p[0])
		_ = unix.Close(p[1])
		return err
	}
	s := &stream{x: x, number: number, fd: p[0], file: os.NewFile(uintptr(p[0]), "output"), sink: sink, done: make(chan struct{})}
	x.streams = append(x.streams, s)
	x.fds[number], x.writers = uintptr(p[1]), append(x.writers, p[1])
	return nil
}

// Stdout is what becomes the job's standard output; 0: it stays what it is.
func (x *Capture) Stdout() uintptr { return x.fds[1] }

// Stderr is Stdout for standard error.
func (x *Capture) Stderr() uintptr { return x.fds[2] }

func (x *Capture) closeWriters() {
	for _, fd := range x.writers {
		_ = unix.Close(fd)
	}
	x.writers = nil
}

// Started is to be called when the job has been forked, or will not be: from then on the
// pipes end when the last process of the job's has closed them.
func (x *Capture) Started() {
	if x.writers == nil {
		return
	}
	x.closeWriters()
	for _, s := range x.streams {
		go s.pump()
	}
}

// Ended is to be called when the job has ended. All that the job has left in the pipes is kept
// then, though it may have yet to be passed on, and a process of its background may go on
// printing: whoever has an end to record waits for neither, but for a moment.
func (x *Capture) Ended() {
	x.Started()
	over := time.Now().Add(x.total)
	for _, s := range x.streams {
		s.end(over)
	}
	x.read(moment)
}

// read waits until all is read and passed on, for up to d.
func (x *Capture) read(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, s := range x.streams {
		select {
		case <-s.done:
		case <-timer.C:
			return
		}
	}
}

// Tail is the end of what has been read so far, standard output and error in the order in
// which they were read, and how much that was in all. It may be somewhat longer than
// what was to be kept: see ring.
func (x *Capture) Tail() (end []byte, total int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.tail.bytes(), x.tail.total
}

// Waiting reports whether Close has something to pass on: to a slow reader, or of a job that
// failed.
func (x *Capture) Waiting(failed bool) bool {
	if failed && x.spool != nil {
		return true
	}
	for _, s := range x.streams {
		select {
		case <-s.done:
		default:
			return true
		}
	}
	return false
}

// Close passes on what is left, to a reader that may be slow, what the background still prints,
// for a second at most, and what was held back of a job that failed. The error is why something could not be passed on; that a reader
// doesn't want any more is none.
func (x *Capture) Close(failed bool) error {
	x.closeWriters()
	for _, s := range x.streams {
		<-s.done
		_ = s.file.Close()
	}
	if x.spool != nil {
		if failed {
			x.pass(x.spool.replay(func(number int, b []byte) error { return write(x.sinkOf(number), b) }))
		}
		x.spool.close()
	}
	return x.lost
}

func (x *Capture) sinkOf(number int) int {
	for _, s := range x.streams {
		if s.number == number {
			return s.sink
		}
	}
	return number
}

// pass notes how passing on went.
func (x *Capture) pass(err error) {
	if err == nil || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EBADF) {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lost = cmp.Or(x.lost, err)
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// sameFile reports whether two descriptors write to one place, one after the other: as
// those of a script's 2>&1, and those that cron, systemd and containers give.
func sameFile(a, b int) bool {
	var x, y unix.Stat_t
	if unix.Fstat(a, &x) != nil || unix.Fstat(b, &y) != nil || x.Dev != y.Dev || x.Ino != y.Ino {
		return false
	}
	switch x.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR:
		return true
	}
	// Of a regular file each opening has a place of its own to write at, unless it appends.
	const kcmpFile = 0 // linux/kcmp.h
	self := uintptr(os.Getpid())
	if r, _, e := unix.Syscall6(unix.SYS_KCMP, self, self, kcmpFile, uintptr(a), uintptr(b), 0); e == 0 {
		return r == 0
	}
	return appends(a) && appends(b)
}

func appends(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_APPEND != 0
}
