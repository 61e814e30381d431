package capture

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// How much is read at once, at first, and from a job that fills that; the pipe grows too. More
// than that is slower: it doesn't stay in the processor's cache until it is written.
const (
	firstRead = 16 << 10
	largeRead = 64 << 10
	largePipe = 256 << 10
)

// stream is one pipe from the job.
type stream struct {
	x      *Capture
	number int // of the job's descriptor
	fd     int
	file   *os.File
	sink   int
	gone   bool // nobody reads the sink any more
	done   chan struct{}
}

// pump reads until the pipe ends, or until the job has ended and nothing more comes.
func (s *stream) pump() {
	defer close(s.done)
	buf := make([]byte, firstRead)
	for {
		n, err := s.file.Read(buf)
		s.take(buf[:n])
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				s.drain(buf)
			}
			return
		}
		if n == len(buf) && n < largeRead {
			buf = make([]byte, largeRead)
			// Beyond a user's share of memory for pipes this fails, and the pipe stays as it is.
			_, _ = unix.FcntlInt(uintptr(s.fd), unix.F_SETPIPE_SZ, largePipe)
		}
	}
}

// drain reads on after the job's end: all that is in the pipe now, which is the job's,
// however long it takes to pass that on; and then what still comes, for a short while.
func (s *stream) drain(buf []byte) {
	owed, err := unix.IoctlGetInt(s.fd, unix.TIOCINQ)
	if err != nil {
		owed = 0
	}
	s.x.mu.Lock()
	over := s.x.over
	s.x.mu.Unlock()
	for {
		until := time.Now().Add(idle)
		if owed <= 0 && until.After(over) {
			until = over
		}
		_ = s.file.SetReadDeadline(until)
		n, err := s.file.Read(buf)
		s.take(buf[:n])
		if owed -= n; err != nil {
			return
		}
	}
}

// take keeps what was read, and passes it on.
func (s *stream) take(b []byte) {
	if len(b) == 0 {
		return
	}
	x := s.x
	x.mu.Lock()
	x.tail.write(b)
	if x.spool != nil {
		if err := x.spool.write(s.number, b); err != nil && x.lost == nil {
			x.lost = err
		}
	}
	x.mu.Unlock()
	if x.mode != Always || s.gone {
		return
	}
	err := write(s.sink, b)
	s.gone = errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EBADF)
	x.pass(err)
}

// write writes everything. A descriptor that somebody has made non-blocking is waited for.
func write(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return err
			}
		case err != nil:
			return err
		}
		b = b[max(n, 0):]
	}
	return nil
}
