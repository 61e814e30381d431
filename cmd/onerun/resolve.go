package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
)

type resolveCmd struct {
	Key string `arg:"" help:"Key, run id, or job (its RUNNING run, else its latest)."`
	As  string `required:"" enum:"failed,succeeded,skipped" placeholder:"failed|succeeded|skipped" help:"What the run is to be."`
	reasonFlag
	Rerun bool `help:"Approve a rerun as well: the next start executes the key once more."`
}

// Help explains the command.
func (resolveCmd) Help() string {
	return `A RUNNING run can be resolved when its owner is dead; a FAILED one as succeeded or skipped; and a key that has no run
as skipped, which cancels it in advance. Anything else is refused (1), and so is a run that changed meanwhile.`
}

func (c *resolveCmd) run(ctx context.Context, e *env) error {
	reason, err := c.text(e)
	if err != nil {
		return err
	}
	if err := checkRef(c.Key); err != nil {
		return err
	}
	ctx, d, leave, err := e.sit(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	run, found, err := find(ctx, e, d, c.Key)
	if err != nil {
		return err
	}
	q := onerun.Resolution{Namespace: e.Namespace, As: onerun.Status(strings.ToUpper(c.As)), Who: who(reason)}
	was := "never started"
	if job := run.Job; c.Rerun {
		if !found {
			job = jobOf(c.Key)
		}
		if run.TwoPeople || e.twoPeople(job) {
			return &onerun.StateError{Why: fmt.Sprintf("a rerun of %[1]s needs two people: resolve it without --rerun, then: onerun%[2]s rerun %[1]s --request --reason TEXT", c.Key, e.storeFlags())}
		}
	}
	switch {
	case !found:
		if q.Job, q.Partition, err = c.unborn(); err != nil {
			return err
		}
		if isDate(q.Partition) {
			q.BusinessDate = q.Partition
		}
	case c.Rerun && run.Partition == "":
		return usage("--rerun needs a key, and %s has none: its next start runs anyway", run.Job)
	default:
		q.RunID, q.Expect, was = run.RunID, onerun.Expected(run), string(run.Status)
	}
	after, err := d.Resolve(ctx, q)
	if err != nil {
		return err
	}
	d.decided(onerun.EventResolved, after, fmt.Sprintf("%s to %s", was, after.Status), reason)
	if err := say(e, "%s resolved as %s (was %s)", after.Name(), after.Status, was); err != nil || !c.Rerun {
		return err
	}
	if err := d.approve(ctx, after, onerun.ApproveAlone, reason); err != nil {
		return err
	}
	return saidApproved(e, after)
}

// unborn is a key that has no run yet.
func (c *resolveCmd) unborn() (job, partition string, err error) {
	if onerun.IsRunID(c.Key) {
		return "", "", noSuchRun(c.Key)
	}
	job, partition, err = onerun.SplitKey(c.Key)
	if err == nil && partition == "" {
		err = noSuchRun(c.Key)
	}
	return job, partition, err
}
