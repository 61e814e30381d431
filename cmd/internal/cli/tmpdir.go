package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/jobapi"
)

// private is what an attempt has to itself, made for it and taken away after it.
type private struct {
	tmp    string // ONERUN_TMPDIR; "" if it could not be made
	socket string // ONERUN_SOCKET; "" if there is none
	server *jobapi.Server
}

// paths are what is to be removed.
func (p private) paths() []string {
	return slices.DeleteFunc([]string{p.tmp, p.socket}, func(path string) bool { return path == "" })
}

// makePrivate makes the job's own directory for temporary files, and the socket by which it
// talks to us. Without them the job runs all the same: a machine whose /tmp is full or
// missing has other things to worry about, and the job may not want any.
func (x *execution) makePrivate(o *onerun.Owner) {
	x.private = private{}
	for _, in := range tempDirs() {
		if dir, err := os.MkdirTemp(in, "onerun-"); err == nil {
			x.private.tmp = dir
			break
		}
	}
	if o.Lease().RunID == "" {
		return // a lock alone has nothing to report; a job that it is part of has its own socket
	}
	with := jobapi.Config{
		Owner: o, Store: x.store, Worker: filelock.ThisWorker(""), Timeout: time.Duration(x.StoreTimeout),
		Stopping: x.stopping.Load, Redact: x.redacted,
	}
	var err error
	for _, dir := range socketDirs() {
		path := filepath.Join(dir, "onerun-"+onerun.NewID()+".sock")
		if x.private.server, err = jobapi.Serve(path, with); err == nil {
			x.private.socket = path
			return
		}
	}
	complain(x.env, fmt.Errorf("the job has no ONERUN_SOCKET, and can't report: %w", pathCause(err)))
}

// tempDirs are where temporary files may lie. A guard removes them from another directory, and the
// job may go to one, so a relative TMPDIR is made absolute.
func tempDirs() []string {
	dir, err := filepath.Abs(os.TempDir())
	if err != nil || dir == "/tmp" {
		return []string{"/tmp"}
	}
	return []string{dir, "/tmp"}
}

// socketDirs are where sockets may lie: where a machine keeps such things, which is no disk, and
// so costs a start less; else where temporary files lie, whose path can be too long for one.
func socketDirs() []string {
	dirs := tempDirs()
	uid := os.Geteuid()
	run := "/run/user/" + strconv.Itoa(uid)
	if uid == 0 {
		run = "/run"
	}
	var st unix.Stat_t
	if unix.Lstat(run, &st) == nil && int(st.Uid) == uid && st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Mode&0o022 == 0 {
		dirs = append([]string{run}, dirs...)
	}
	return dirs
}

// closeSocket ends what the job can say. The ends of items that the store hasn't taken so far are
// recorded, as long as there is time for that, before the run's own: while the lock is held, no
// next run takes them for things that nobody knows of. late is called before anything is waited
// for.
func (x *execution) closeSocket(late func()) {
	s := x.private.server
	if s == nil {
		return
	}
	x.private.server = nil
	kept := s.Close(late)
	if len(kept) == 0 {
		return
	}
	late()
	ctx, cancel := context.WithTimeout(context.Background(), x.finishWait)
	defer cancel()
	for kept = jobapi.Record(ctx, x.store, kept); len(kept) > 0 && ctx.Err() == nil; kept = jobapi.Record(ctx, x.store, kept) {
		rest(100 * time.Millisecond)
	}
	for _, end := range kept {
		complain(x.env, fmt.Errorf("item %q is %s, and that could not be recorded: it is taken for started; see: onerun resolve %s --item", end.Name, end.State, end.Job))
	}
}

// removePrivate takes it all away, with what the job left in it, while the end is being
// recorded. What is another account's stays.
func (x *execution) removePrivate() {
	x.closeSocket(func() {}) // of a job that could not be started
	paths := x.private.paths()
	x.private = private{}
	x.removing.Go(func() { removeAll(paths) })
}

func removeAll(paths []string) {
	for _, path := range paths {
		if syscall.Rmdir(path) != nil { // mostly it is an empty directory
			_ = os.RemoveAll(path)
		}
	}
}
