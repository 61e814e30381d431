package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

const (
	probeRounds = 100                    // of two processes for one lock, in each mode
	probeAhead  = 300 * time.Microsecond // enough to tell both before they begin
	probeTime   = time.Minute            // for everything, on the busiest machine
)

var probeModes = []onerun.LockMode{onerun.LockFlock, onerun.LockCreate}

// prober is a process that takes and drops locks on command: see probe.
type prober struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// newProber starts one. What is wrong it says in its answers, or by the end of them.
func newProber(ctx context.Context, program, dir string) (*prober, error) {
	c := &prober{cmd: exec.CommandContext(ctx, program, "doctor", "--probe", dir)}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, c.cmd.Start()
}

// leave lets a prober drop what it has, and end.
func (c *prober) leave() {
	_ = c.in.Close()
	_ = c.cmd.Wait() // it has said what there was to say
}

func (c *prober) tell(line string) error {
	_, err := io.WriteString(c.in, line+"\n")
	return err
}

func (c *prober) reply() (string, error) {
	line, err := c.out.ReadString('\n')
	line = strings.TrimSpace(line)
	if text, failed := strings.CutPrefix(line, "error "); failed {
		return line, errors.New(text)
	}
	return line, err
}

func (c *prober) ask(line string) (string, error) {
	if err := c.tell(line); err != nil {
		return "", err
	}
	return c.reply()
}

func take(lock onerun.LockName, mode onerun.LockMode, at int64) string {
	return fmt.Sprintf("take %s %s %d", lock, mode, at)
}

// probeLock is a lock of nobody's: of a key, since a key's file goes with its holder.
func probeLock() onerun.LockName { return onerun.KeyLock("onerun-doctor:" + onerun.NewID()) }

// contend lets two real processes contend for one lock, round by round, and counts how
// often exactly one got it. Each has the lock directory by a path of its own.
func contend(ctx context.Context, program string, dirs [2]string, mode onerun.LockMode) (exact int, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	var both [2]*prober
	for i, dir := range dirs {
		if both[i], err = newProber(ctx, program, dir); err != nil {
			return 0, err
		}
		defer both[i].leave()
	}
	lock := probeLock()
	for range probeRounds {
		at := monotonic() + int64(probeAhead)
		for _, c := range both {
			if err := c.tell(take(lock, mode, at)); err != nil {
				return exact, err
			}
		}
		winners := 0
		for _, c := range both {
			got, err := c.reply()
			if err != nil {
				return exact, err
			}
			if strings.HasPrefix(got, "won") {
				winners++
			}
		}
		if winners == 1 {
			exact++
		}
		for _, c := range both {
			if _, err := c.ask("drop"); err != nil {
				return exact, err
			}
		}
	}
	return exact, nil
}

// bury kills a real process that holds a lock, and tells what the next one finds.
func bury(ctx context.Context, program, dir string, mode onerun.LockMode) (found string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	lock := probeLock()
	first, err := newProber(ctx, program, dir)
	if err != nil {
		return "", err
	}
	got, err := first.ask(take(lock, mode, 0))
	_ = first.cmd.Process.Kill()
	_ = first.cmd.Wait() // killed, as it should be
	if err != nil || got != "won" {
		return "", fmt.Errorf("a lock that nobody has could not be taken: %s: %w", got, errors.Join(err, errNotTaken))
	}
	next, err := newProber(ctx, program, dir)
	if err != nil {
		return "", err
	}
	defer next.leave()
	return next.ask(take(lock, mode, 0))
}

var errNotTaken = errors.New("the probe ended")

// probeable says why nothing can be tried out in a lock directory, or "".
func probeable(dir string) string {
	if !exists(filepath.Join(dir, ".held")) {
		return "no lock was ever taken in " + dir + ", and nothing is made there to try it"
	}
	return ""
}
