package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// probe is a process of the checklist. It takes and drops locks in a lock directory as its
// standard input says, one line each, and answers each by a line:
//
//	take NAME MODE AT   won; won after LIVENESS (of the owner before); held; error TEXT
//	drop                dropped; error TEXT
//
// AT is an instant of CLOCK_MONOTONIC in nanoseconds, for which it waits at full speed, so
// that two of them begin together. When its input ends it drops what it has.
func probe(ctx context.Context, dir string, out io.Writer) error {
	d, err := filelock.Open(dir, filelock.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	var lock *filelock.Lock
	defer func() { _ = dropProbe(lock) }()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		reply := "dropped"
		switch f := strings.Fields(lines.Text()); {
		case len(f) == 4 && f[0] == "take":
			at, err := strconv.ParseInt(f[3], 10, 64)
			if err != nil {
				return err
			}
			for monotonic() < at {
				runtime.Gosched()
			}
			lock, reply = takeProbe(ctx, d, onerun.LockName(f[1]), onerun.LockMode(f[2]))
		default:
			if err := dropProbe(lock); err != nil {
				reply = "error " + err.Error()
			}
			lock = nil
		}
		if _, err := fmt.Fprintln(out, strings.Join(strings.Fields(reply), " ")); err != nil {
			return written(err)
		}
	}
	return nil
}

func takeProbe(ctx context.Context, d *filelock.Dir, name onerun.LockName, mode onerun.LockMode) (*filelock.Lock, string) {
	lock, held, err := d.Acquire(ctx, filelock.Request{Namespace: onerun.DefaultNamespace, Lock: name, Mode: mode, Owner: onerun.NewID()})
	switch {
	case err != nil:
		return nil, "error " + err.Error()
	case held != nil:
		return nil, "held"
	}
	reply := "won"
	if lock.Previous != nil {
		reply += " after " + string(lock.Verdict.Liveness)
	}
	if err := lock.Write(filelock.Note{State: filelock.StateInProcess}); err != nil {
		_ = dropProbe(lock)
		return nil, "error " + err.Error()
	}
	return lock, reply
}

// dropProbe gives a probe's lock back. Its file goes with it: that of a key is unlinked by
// its holder when no note is left in it.
func dropProbe(lock *filelock.Lock) error {
	if lock == nil {
		return nil
	}
	err := lock.Clear()
	if e := lock.Release(); err == nil {
		err = e
	}
	return err
}

// monotonic is CLOCK_MONOTONIC, which all processes of a host share.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it can't fail for a clock that exists
	return t.Nano()
}
