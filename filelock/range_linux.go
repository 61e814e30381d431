package filelock

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

const (
	// rangeWait is how long a range that is busy while the flock was free is tried
	// again: a process that is killed lets go of its two locks one after the other, and
	// on a busy machine it can be made to wait in between.
	rangeWait  = 100 * time.Millisecond
	rangePause = time.Millisecond
)

// rangeState is what came of an attempt at a byte of .held.
type rangeState int

const (
	rangeTaken  rangeState = iota // or there are no such locks, and l.held is closed
	rangeBusy                     // somebody has it
	rangeHidden                   // we have it, and somebody else has it in a .held that was deleted
)

// takeRange takes the lock's byte of .held, for which it opens a file description of its
// own: two locks of one process exclude each other as those of two processes do.
// Where there are no such locks it leaves l.held closed.
func (l *Lock) takeRange(ctx context.Context) (*Held, error) {
	end := time.Now().Add(rangeWait)
	for pause := rangePause; ; pause = min(2*pause, 8*rangePause) {
		state, err := l.tryRange()
		if state == rangeTaken || err != nil {
			return nil, err
		}
		// Of several that ask while files are being deleted, whoever has the .held that is there keeps its byte, and
		// the others see in tryRange that theirs is gone, and let go: so one of them gets on.
		if late := time.Now().After(end); late || state == rangeBusy {
			closeFD(&l.held.fd)
			if late {
				return &Held{
					Path: l.dir.path + "/" + l.base + lockSuffix, Liveness: onerun.Alive,
					Evidence: "its lock file was deleted under its holder, which still runs and holds the lock's byte of " + heldName,
				}, nil
			}
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (l *Lock) tryRange() (rangeState, error) {
	fail := func(err error) (rangeState, error) { return rangeBusy, l.dir.fail("lock file", heldName, err) }
	if l.dir.opt.noRange {
		return rangeTaken, nil
	}
	off, trace, err := l.dir.offsets(l.base)
	if err != nil {
		return fail(err)
	}
	for range vanishTries {
		if l.held.fd < 0 {
			if err := l.openHeld(); err != nil {
				return fail(err)
			}
			switch err := setRange(l.held.fd, off); {
			case err == nil:
			case errors.Is(err, unix.EAGAIN):
				return rangeBusy, nil
			case unsupported(err):
				closeFD(&l.held.fd)
				return rangeTaken, nil
			default:
				return fail(err)
			}
			_ = setRange(l.held.fd, trace) // excludes nobody
			l.dir.step("acquire: range taken")
		}
		switch same, err := l.dir.names(heldName, l.held.id); {
		case err != nil:
			return fail(err)
		case same && l.hidden(trace):
			return rangeHidden, nil
		case same:
			return rangeTaken, nil
		}
		closeFD(&l.held.fd)
	}
	return fail(unix.ENOENT) // it was deleted each time between being made and being compared
}

func (l *Lock) openHeld() error {
	fd, _, err := l.dir.openOrCreate(heldName)
	if err != nil {
		return err
	}
	l.held.fd = fd
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	l.held.saw(&st)
	return l.dir.regular(heldName, &st, true)
}

// setRange locks one byte with an open file description lock (fcntl(2)): as with
// flock(2), it belongs to all duplicates of the descriptor and ends with the last of
// them, so that a guard shares it. An ordinary record lock would end with the wrapper.
func setRange(fd int, off int64) error {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Start: off, Len: 1}
	return again(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &lk) })
}

// rangeHeld reports whether somebody holds a lock's byte of .held, or of one that was
// deleted, without taking anything. known is false where there are no such locks.
func (d *Dir) rangeHeld(base string) (held, known bool, err error) {
	off, trace, err := d.offsets(base)
	if d.opt.noRange || err != nil {
		return false, false, err
	}
	fd, err := d.open(heldName, unix.O_RDONLY, 0)
	if errors.Is(err, unix.ENOENT) {
		return d.listed(trace), true, nil
	}
	if err != nil {
		return false, false, d.fail("lock file", heldName, err)
	}
	defer closeFD(&fd)
	var st unix.Stat_t
	lk := unix.Flock_t{Type: unix.F_WRLCK, Start: off, Len: 1}
	err = unix.Fstat(fd, &st)
	if err == nil {
		err = again(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &lk) })
	}
	switch {
	case err == nil:
		return lk.Type != unix.F_UNLCK || !settled(fd, st.Ino) && d.listed(trace), true, nil
	case unsupported(err):
		return false, false, nil
	}
	return false, false, d.fail("lock file", heldName, err)
}

// listed reports whether /proc/locks has a lock's trace.
func (d *Dir) listed(trace int64) bool {
	ranges, err := readRanges(d.tag)
	return err == nil && slices.ContainsFunc(ranges, func(r listedRange) bool { return r.off == trace })
}

// hidden closes the one gap that .held leaves: that it was deleted together with
// the lock file, so that the holder's range lies in a file without a name.
//
// Such a file is still listed in /proc/locks, with range and inode, from inside every pid
// namespace. But reading that list makes every file lock of the kernel wait (it takes
// file_rwsem for writing), so it is read only while .held is young: until somebody has
// seen that no other file of this directory has locked ranges. From then on .held holds
// the number of its own inode, which a copy, or a new one, doesn't have.
//
// That is sound: a holder has compared name and inode after it took its range, so one
// in a deleted file took it before the present file had the name; whoever has found
// the present file under its name and then reads the list, sees that holder.
func (l *Lock) hidden(trace int64) bool {
	if settled(l.held.fd, l.held.id.ino) {
		return false
	}
	same, other, known := l.othersListed(trace)
	if known && !same && !other {
		text := strconv.AppendUint(nil, l.held.id.ino, 10)
		_, _ = unix.Pwrite(l.held.fd, text, 0) // if the disk is full, the next one looks again
	}
	return known && same // what can't be seen, for want of /proc, can't be refused
}

// settled reports whether .held holds the number of its own inode.
func settled(fd int, ino uint64) bool {
	var buf, want [24]byte
	n, err := unix.Pread(fd, buf[:], 0)
	return err == nil && bytes.Equal(bytes.TrimRight(buf[:n], "\x00"), strconv.AppendUint(want[:0], ino, 10))
}

// othersListed looks in /proc/locks for traces of this directory in other files than ours:
// same says that one of them has our lock's, other that one has any. known is false where
// our own trace, which we hold, isn't listed.
//
// The list is longer than one read(2), and not one moment: what begins or ends meanwhile
// makes other lines appear twice or not at all. So files are told apart by their inodes,
// and "nobody" is believed when it was seen twice.
func (l *Lock) othersListed(trace int64) (same, other, known bool) {
	for range 2 {
		ranges, err := readRanges(l.dir.tag)
		if err != nil {
			return false, false, false
		}
		same, other, known = others(ranges, trace, strconv.FormatUint(l.held.id.ino, 10))
		if same || other || !known {
			break
		}
	}
	return same, other, known
}

type listedRange struct {
	off    int64
	device string // MAJOR:MINOR
	inode  string
}

// others is othersListed on one reading. Some file systems tell stat(2) another device,
// or another inode, than the list; what they call our file shows at our own trace.
func others(ranges []listedRange, trace int64, inode string) (same, other, known bool) {
	var mine listedRange
	for _, r := range ranges {
		if r.off == trace && (!known || r.inode == inode) {
			mine, known = r, true
		}
	}
	for _, r := range ranges {
		if known && r.device == mine.device && r.inode != mine.inode {
			same = same || r.off == trace
			other = true
		}
	}
	return same, other, known
}

// readRanges reads the traces of a directory out of /proc/locks, whose lines
// are (proc_locks(5)):
//
//	1: OFDLCK ADVISORY  WRITE -1 fe:00:5308612 2305843009213706297 2305843009213706297
//
// A line with "->" after its number is a lock that is waited for.
func readRanges(tag uint64) ([]listedRange, error) {
	text, err := readLocks()
	if err != nil {
		return nil, err
	}
	return rangesIn(text, tag), nil
}

func rangesIn(text []byte, tag uint64) (found []listedRange) {
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		f := bytes.Fields(s.Bytes())
		if len(f) != 8 || string(f[1]) != "OFDLCK" || string(f[3]) != "WRITE" {
			continue
		}
		off, err := strconv.ParseInt(string(f[6]), 10, 64)
		if err == nil && bytes.Equal(f[6], f[7]) && uint64(off)>>traceBits == tag {
			i := bytes.LastIndexByte(f[5], ':')
			found = append(found, listedRange{off, string(f[5][:max(i, 0)]), string(f[5][i+1:])})
		}
	}
	return found
}

// readLocks returns the text of /proc/locks.
func readLocks() ([]byte, error) { return os.ReadFile("/proc/locks") }
