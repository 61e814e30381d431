package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// maxTextfile bounds what is read of a file: what is longer isn't ours.
const maxTextfile = 64 << 10

// textfileName is a job's file. No two jobs have one name: `_` stands between namespace and job, so within a namespace it
// is `~`, which no name has. A name that a file system could refuse for its length ends with a hash.
func textfileName(namespace, job string) string {
	const most, kept = 200, 150 // bytes
	name := "onerun_" + strings.ReplaceAll(namespace, "_", "~") + "_" + job
	if len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = strings.ToValidUTF8(name[:kept], "") + "~" + hex.EncodeToString(sum[:16])
	}
	return name + ".prom"
}

// changeTextfile changes a job's file in a directory. The file is replaced as a whole, so that whoever reads it sees one
// state; no link is followed. Two that change it at once do so one after the other, by the directory's flock, which
// leaves no file behind. Where there is none, they may lose each other's change, and still tear nothing.
func changeTextfile(dir, namespace, job string, change func(*textState)) error {
	fd, err := openFile(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	name := textfileName(namespace, job)
	// The name ends otherwise than what node_exporter reads.
	temporary := "." + name + "." + onerun.NewID() + ".tmp"
	if lockTextfiles(fd) {
		temporary = "." + name + ".tmp"
		_ = unix.Unlinkat(fd, temporary, 0) // of one that was killed; else there is none
	}
	old, err := readTextfile(fd, name)
	if err != nil {
		old = "" // it is replaced, whatever it is
	}
	state := readText(old, namespace, job, time.Now())
	change(&state)
	if err := writeTextfile(fd, temporary, state.text(namespace, job)); err != nil {
		return err
	}
	if err := unix.Renameat(fd, temporary, fd, name); err != nil {
		_ = unix.Unlinkat(fd, temporary, 0) // the error is known
		return &fs.PathError{Op: "rename", Path: name, Err: err}
	}
	return nil
}

// lockTextfiles takes the directory's flock; it reports whether it has. Whoever else may read the directory can
// take it too, so it is not waited for long.
func lockTextfiles(dir int) bool {
	for deadline := time.Now().Add(2 * time.Second); ; rest(5 * time.Millisecond) {
		err := unix.Flock(dir, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return true
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			return false
		}
	}
}

func openFile(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return -1, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return fd, nil
	}
}

func readTextfile(dir int, name string) (string, error) {
	// A pipe that somebody put there must not keep us.
	fd, err := openFile(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil || is.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return "", errors.Join(err, unix.EINVAL)
	}
	f := os.NewFile(uintptr(fd), name)
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxTextfile))
	return string(text), err
}

// writeTextfile writes a file that wasn't there.
func writeTextfile(dir int, name, text string) error {
	fd, err := openFile(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteString(text)
	if e := f.Chmod(0o644); err == nil { // whatever the umask: node_exporter is another account
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = unix.Unlinkat(dir, name, 0) // the error is known
	}
	return err
}
