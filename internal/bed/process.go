package bed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Process is a server that is one process, so that it can be told to stand still.
type Process struct{ *Daemon }

// Signal sends the server a signal: SIGSTOP freezes it, SIGCONT lets it go on.
func (p Process) Signal(sig syscall.Signal) error {
	r := p.last()
	if r == nil {
		return errors.New("the server was never started")
	}
	return r.signal(sig)
}

// Freeze stops the server as it is, until SIGCONT, and waits until every thread of it stands
// still: the signal's sender is not told when that is.
func (p Process) Freeze() error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	pid, err := p.last().process()
	if err != nil {
		return err
	}
	for begin := time.Now(); time.Since(begin) < 10*time.Second; time.Sleep(time.Millisecond) {
		if still, err := stands(pid); still || err != nil {
			return err
		}
	}
	return errors.New("the server doesn't stand still")
}

func stands(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	if len(threads) == 0 {
		return false, errors.New("the server has ended")
	}
	for _, t := range threads {
		stat, err := os.ReadFile(t)
		if err != nil {
			continue // a thread that has ended
		}
		if state := stat[strings.LastIndexByte(string(stat), ')')+1:]; !strings.HasPrefix(string(state), " T") {
			return false, nil
		}
	}
	return true, nil
}
