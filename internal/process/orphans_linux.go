package process

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// orphans takes the statuses of what this process inherits as the first one of its pid namespace, in a container say
// (pid_namespaces(7)). Nobody else can, and what nobody takes fills up the table of processes.
type orphans struct {
	ended chan os.Signal
	done  chan struct{}
}

// reapOrphans begins with that; nil: this process inherits nothing. The job's first process is left to whoever waits for
// it, and so are those that own names. A guard is not: whoever waits for one doesn't ask for its status.
func reapOrphans(leader int, own func(pid int) bool) *orphans {
	if os.Getpid() != 1 {
		return nil
	}
	o := &orphans{ended: make(chan os.Signal, 1), done: make(chan struct{})}
	signal.Notify(o.ended, unix.SIGCHLD)
	o.ended <- unix.SIGCHLD // for what has ended before
	go func() {
		defer close(o.done)
		for range o.ended {
			reap(leader, own)
		}
	}()
	return o
}

// stop returns when no status is taken any more: the number of this job's first process may be anybody's from now on.
func (o *orphans) stop() {
	if o == nil {
		return
	}
	signal.Stop(o.ended)
	close(o.ended)
	<-o.done
}

// reapAfter is for how long a child must have ended before it is taken for an orphan: whoever waits for one that own doesn't name has
// had its status by then.
const reapAfter = 100 * time.Millisecond

// ReapOrphans is for a program that starts others and isn't one job's wrapper. As PID 1 of a pid namespace it takes, until ctx ends, the
// statuses of the orphans that the kernel gives to this process, but not of those children of which own says that somebody
// waits for them.
func ReapOrphans(ctx context.Context, own func(pid int) bool) {
	if os.Getpid() != 1 {
		return
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	ended <- unix.SIGCHLD // for what has ended before
	before := map[int]bool{}
	for {
		if len(before) == 0 {
			select {
			case <-ctx.Done():
				return
			case <-ended:
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reapAfter):
		}
		all, _ := procfs.EndedChildren() // without /proc there is nothing to go by
		now := map[int]bool{}
		for _, pid := range all {
			switch {
			case own(pid):
			case before[pid]:
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			default:
				now[pid] = true
			}
		}
		before = now
	}
}

func reap(leader int, own func(pid int) bool) {
	ended, _ := procfs.EndedChildren() // without /proc there is nothing to go by
	for _, pid := range ended {
		if pid != leader && (own == nil || !own(pid)) {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // it may have been waited for meanwhile
		}
	}
}
