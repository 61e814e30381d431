package process

import (
	"os"
	"os/signal"

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

func reap(leader int, own func(pid int) bool) {
	ended, _ := procfs.EndedChildren() // without /proc there is nothing to go by
	for _, pid := range ended {
		if pid != leader && (own == nil || !own(pid)) {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // it may have been waited for meanwhile
		}
	}
}
