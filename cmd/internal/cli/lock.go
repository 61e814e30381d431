package cli

import (
	"context"
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

type lockCmd struct {
	Name string `arg:"" help:"Name of the lock."`
	lockFlags
	execFlags
	Wait         *waiting  `short:"w" placeholder:"D|forever" help:"Wait at most D (for ever)."`
	NoWait       bool      `short:"n" help:"Don't wait."`
	Order        waitOrder `enum:"any,fifo" default:"any" placeholder:"any|fifo" help:"Who of those that wait is next: any, or among those with fifo the one that came first (any)."`
	ConflictCode int       `short:"E" default:"1" placeholder:"N" help:"Exit code when the lock is held (1)."`
	VersionLabel word      `placeholder:"V" help:"Version of the command, kept in the lock file."`
	Command      []string  `arg:"" optional:"" passthrough:"partial" help:"What to execute."`
}

// Help explains the command.
func (lockCmd) Help() string {
	return `For users of flock(1): exclusion only, and no ledger. It waits, unless -n or -w is given. onerun run --lock NAME
takes the same lock.`
}

func (c *lockCmd) run(ctx context.Context, e *env) error {
	name, err := onerun.CleanName("lock", c.Name)
	if err != nil {
		return err
	}
	argv, err := commandLine(string(c.Shell), c.Command)
	if err != nil {
		return err
	}
	if err := checkExit("--conflict-code", c.ConflictCode); err != nil {
		return err
	}
	wait := onerun.Forever
	switch {
	case c.NoWait && c.Wait != nil:
		return usage("-n and --wait contradict each other")
	case c.NoWait:
		wait = 0
	case c.Wait != nil:
		wait = time.Duration(*c.Wait)
	}
	s, p, err := e.open(ctx, string(c.LockDir))
	if err != nil {
		return err
	}
	x := &execution{env: e, argv: argv, place: p, timeout: time.Duration(c.Timeout), grace: time.Duration(c.Grace), hold: c.Hold == "tree"}
	err = x.do(ctx, s, onerun.Job{
		Namespace: e.Namespace, Lock: onerun.NamedLock(name), LockMode: onerun.LockMode(c.LockMode), Order: c.Order.order(),
		Policy: onerun.Policy{TTL: time.Duration(c.TTL)}, Grace: time.Duration(c.Grace), Wait: wait, VersionLabel: e.redacted(string(c.VersionLabel)),
	})
	var refused *onerun.Refusal
	if errors.As(err, &refused) {
		return &statusError{status: c.ConflictCode}
	}
	return err
}

// waitOrder is --order.
type waitOrder string

func (o waitOrder) order() onerun.Order {
	if o == "any" {
		return onerun.OrderAny
	}
	return onerun.Order(o)
}
