package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
)

type resolveCmd struct {
	Key  string `arg:"" help:"Key, run id, or job (its RUNNING run, else its latest)."`
	As   string `required:"" enum:"failed,succeeded,skipped,done" placeholder:"failed|succeeded|skipped|done" help:"What the run is to be; an item: done or failed."`
	Item word   `placeholder:"ITEM" help:"Decide about this item of the job KEY, and not about a run."`
	reasonFlag
	Rerun bool `help:"Approve a rerun as well: the next start executes the key once more."`
}

// Help explains the command.
func (resolveCmd) Help() string {
	return `A RUNNING run can be resolved when its owner is dead; a FAILED one as succeeded or skipped; and a key that has no run
as skipped, which cancels it in advance. Anything else is refused (1), and so is a run that changed meanwhile.

With --item, KEY is a job, and the item is done, or failed and to be done again. A started one can be decided about when
whoever did it is dead.`
}

func (c *resolveCmd) run(ctx context.Context, e *env) error {
	reason, err := c.text(e)
	if err != nil {
		return err
	}
	if c.Item != "" {
		return c.resolveItem(ctx, e, reason)
	}
	if c.As == "done" {
		return usage("--as done is for items; give --item, or --as succeeded")
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

// resolveItem decides about an item.
func (c *resolveCmd) resolveItem(ctx context.Context, e *env, reason string) error {
	as := map[string]onerun.ItemState{"done": onerun.ItemDone, "succeeded": onerun.ItemDone, "failed": onerun.ItemFailed}[c.As]
	if as == "" || c.Rerun {
		return usage("an item is resolved --as done or failed; a failed one is done again")
	}
	job, err := onerun.CleanName("job", c.Key)
	if err != nil {
		return err
	}
	name, err := onerun.CleanItem(string(c.Item))
	if err != nil {
		return err
	}
	ctx, d, leave, err := e.sit(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	found, err := d.Items(ctx, onerun.ItemQuery{Namespace: e.Namespace, Job: job, Name: name})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return &onerun.StoreError{Kind: onerun.ErrNotFound, What: fmt.Sprintf("item %q of job %s", name, job), Err: errors.New("there is no such item"), Do: "see: onerun items " + job}
	}
	was := found[0]
	it, err := d.DecideItem(ctx, onerun.ItemDecision{
		Namespace: e.Namespace, Job: job, Name: name, Expect: was.State, Tries: was.Tries, As: as, Who: who(reason),
	})
	if err != nil {
		return err
	}
	d.decided(onerun.EventItemResolved, onerun.Run{Namespace: e.Namespace, Job: job}, fmt.Sprintf("item %q: %s to %s", name, was.State, it.State), reason)
	return say(e, "item %q of %s resolved as %s (was %s)", name, job, it.State, was.State)
}
