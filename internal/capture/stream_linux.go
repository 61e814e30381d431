package capture

import (
	"errors"
	"os"
	"sync"
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

	mu   sync.Mutex // whoever holds it reads; of what follows
	left []byte     // what was kept at the job's end, and has yet to be passed on
	over time.Time  // when to read no more of what the background prints; zero: the job has not ended
}

// pump reads and passes on until the pipe ends, or until the job has ended and nothing more
// comes.
func (s *stream) pump() {
	defer close(s.done)
	buf := make([]byte, firstRead)
	for {
		b, err := s.next(buf)
		s.pass(b)
		if err != nil {
			return
		}
		if len(b) == len(buf) && len(buf) < largeRead {
			buf = make([]byte, largeRead)
			// Beyond a user's share of memory for pipes this fails, and the pipe stays as it is.
			_, _ = unix.FcntlInt(uintptr(s.fd), unix.F_SETPIPE_SZ, largePipe)
		}
	}
}

// next is what comes next, and is kept. An error says that nothing does.
func (s *stream) next(buf []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.left; len(b) > 0 {
		s.left = nil
		return b, nil
	}
	ended := !s.over.IsZero()
	if ended {
		until := time.Now().Add(idle)
		if until.After(s.over) {
			until = s.over
		}
		_ = s.file.SetReadDeadline(until)
	}
	n, err := s.file.Read(buf)
	s.keep(buf[:n])
	if !ended && errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil // the job has just ended: end waits for its turn
	}
	return buf[:n], err
}

// end keeps all that is in the pipe when the job has ended, which is the job's, however long
// it takes to pass that on. What comes from then on is of its background, and read for a
// short while.
func (s *stream) end(over time.Time) {
	_ = s.file.SetReadDeadline(time.Unix(1, 0)) // wakes next
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = over
	owed, err := unix.IoctlGetInt(s.fd, unix.TIOCINQ)
	if err != nil || owed <= 0 {
		return
	}
	b := make([]byte, owed)
	for n := 0; n < len(b); {
		m, err := unix.Read(s.fd, b[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || m <= 0 {
			b = b[:n]
			break
		}
		n += m
	}
	s.keep(b)
	s.left = b
}

// keep keeps what was read.
func (s *stream) keep(b []byte) {
	if len(b) == 0 {
		return
	}
	x := s.x
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tail.write(b)
	if x.spool != nil {
		if err := x.spool.write(s.number, b); err != nil && x.lost == nil {
			x.lost = err
		}
	}
}

// pass passes on what was read.
func (s *stream) pass(b []byte) {
	if len(b) == 0 || s.x.mode != Always || s.gone {
		return
	}
	err := write(s.sink, b)
	s.gone = errors.Is(err, unix.EPIPE) || errors.Is(err, unix.EBADF)
	s.x.pass(err)
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
