package cli

import (
	"os/exec"
	"sync"
)

// children are the processes that the scheduler has started, and waits for. Those that it inherits as the first process of a
// container are no concern of theirs.
type children struct {
	running  sync.WaitGroup
	starting sync.RWMutex // for reading: one that nobody could tell from an orphan yet is being started
	pids     sync.Map
}

// start starts one; ended is closed when it has ended, and its status was taken.
func (c *children) start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	c.starting.RLock()
	defer c.starting.RUnlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.pids.Store(cmd.Process.Pid, nil)
	over := make(chan struct{})
	c.running.Go(func() {
		_ = cmd.Wait()
		c.pids.Delete(cmd.Process.Pid)
		close(over)
	})
	return over, nil
}

// owns reports whether a process is one of them.
func (c *children) owns(pid int) bool {
	c.starting.Lock()
	defer c.starting.Unlock()
	_, ok := c.pids.Load(pid)
	return ok
}
