package filelock

import (
	"crypto/rand"
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// .held also tells whether ends may wait in the lock files of its directory: two numbers
// in its one block, after the inode's. Whoever could not tell the ledger an end writes a
// new first number; whoever has delivered all that there was before it read the first
// number, copies that into the second. So they differ while something may wait, and a
// mark that is set meanwhile isn't lost, with no lock to be taken. What can't be written
// (the first block is taken with the inode's number, so a full disk is no reason) makes
// ends wait for their own job's next start, or for `onerun flush`.
const (
	waitingAt   = 32
	deliveredAt = 40

	// Those of Options.Remote follow: else whoever has delivered to the ledger of this host
	// would take the mark of what waits for a store elsewhere away.
	remoteMarks = 16
)

// SetWaiting marks that an end may wait.
func (d *Dir) SetWaiting() {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand.Read never returns an error
	d.writeHeld(waitingAt, b[:])
}

// Waiting is the mark as it is now: for Delivered.
func (d *Dir) Waiting() uint64 { return d.readHeld(waitingAt) }

// DeliveredUntil is the mark up to which everything was delivered; the same as Waiting
// when nothing waits.
func (d *Dir) DeliveredUntil() uint64 { return d.readHeld(deliveredAt) }

// Delivered says that everything was delivered which may have waited at a mark.
func (d *Dir) Delivered(mark uint64) {
	if mark == d.DeliveredUntil() {
		return
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], mark)
	d.writeHeld(deliveredAt, b[:])
}

// mark is where a mark of this directory's ledger stands.
func (d *Dir) mark(at int64) int64 {
	if d.opt.Remote {
		at += remoteMarks
	}
	return at
}

func (d *Dir) readHeld(at int64) uint64 {
	if !d.share() {
		return 0 // a closed directory knows of nothing that waits
	}
	defer d.release()
	fd, err := d.open(heldName, unix.O_RDONLY, 0)
	if err != nil {
		return 0
	}
	defer closeFD(&fd)
	var b [8]byte
	_, _ = unix.Pread(fd, b[:], d.mark(at)) // a shorter file has no mark
	return binary.LittleEndian.Uint64(b[:])
}

func (d *Dir) writeHeld(at int64, b []byte) {
	if !d.share() {
		return
	}
	defer d.release()
	fd, err := d.open(heldName, unix.O_RDWR, 0)
	if err != nil {
		return
	}
	defer closeFD(&fd)
	_ = again(func() error { _, err := unix.Pwrite(fd, b, d.mark(at)); return err })
}
