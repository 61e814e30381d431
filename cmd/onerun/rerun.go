package main

import (
	"context"
	"errors"
	"time"

	"github.com/onerun-dev/onerun"
)

type rerunCmd struct {
	Key string `arg:"" help:"Key, run id, or job (its RUNNING run, else its latest)."`
	reasonFlag
	lockFlags
	execFlags
	Command []string `arg:"" optional:"" passthrough:"partial" help:"What to execute, here and now."`
}

// Help explains the command.
func (rerunCmd) Help() string {
	return `The next start of the key executes it once more, whatever became of it before; a second one is refused again. The
approval holds for the run as it is now: if it changes first, the approval is void.

With a command (or -c) that start is made at once, under the run's own lock, crash policy and labels.`
}

func (c *rerunCmd) run(ctx context.Context, e *env) error {
	reason, err := c.text()
	if err != nil {
		return err
	}
	var argv []string
	if len(c.Command) > 0 || c.Shell != "" {
		if argv, err = commandLine(string(c.Shell), c.Command); err != nil {
			return err
		}
	}
	if err := checkRef(c.Key); err != nil {
		return err
	}
	bounded, d, leave, err := e.sit(ctx, string(c.LockDir))
	if err != nil {
		return err
	}
	defer leave()
	run, found, err := find(bounded, e, d, c.Key)
	if err != nil {
		return err
	}
	if !found {
		return noSuchRun(c.Key)
	}
	if err := d.approve(bounded, run, reason); err != nil {
		return err
	}
	if argv == nil {
		return saidApproved(e, run)
	}
	return c.now(ctx, e, d, run, argv)
}

func saidApproved(e *env, run onerun.Run) error {
	return say(e, "rerun of %s approved (it is %s, attempt %d); the next start executes it", run.Name(), run.Status, run.Attempt)
}

// approve lets the next start execute the run once more.
func (d *desk) approve(ctx context.Context, run onerun.Run, reason string) error {
	_, err := d.Approve(ctx, onerun.ApprovalRequest{
		Namespace: run.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), Who: who(reason),
	})
	if err == nil {
		d.decided(onerun.EventRerunApproved, run, "rerun approved", reason)
	}
	return err
}

// now is the approved start, made here.
func (c *rerunCmd) now(ctx context.Context, e *env, d *desk, run onerun.Run, argv []string) error {
	x := &execution{env: e, argv: argv, place: d.place, timeout: time.Duration(c.Timeout), grace: time.Duration(c.Grace)}
	err := x.do(ctx, d.Store, onerun.Job{
		Namespace: run.Namespace, Name: run.Job, Partition: run.Partition, BusinessDate: run.BusinessDate,
		Lock: run.Lock, LockMode: onerun.LockMode(c.LockMode),
		Policy:       onerun.Policy{TTL: time.Duration(c.TTL), OnCrash: run.OnCrash, StaleAfter: run.StaleAfter},
		Grace:        time.Duration(c.Grace),
		VersionLabel: run.VersionLabel, Labels: run.Labels,
	})
	var refused *onerun.Refusal
	if errors.As(err, &refused) {
		return &onerun.StateError{Why: "the rerun is approved, but it could not start now: " + refused.Error() + "; the next start executes it"}
	}
	return err
}
