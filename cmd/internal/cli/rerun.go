package cli

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/scheduler"
)

type rerunCmd struct {
	Key string `arg:"" help:"Key, run id, or job (its RUNNING run, else its latest)."`
	reasonFlag
	Request bool `help:"Only ask for it: another person approves it, with onerun approve KEY."`
	lockFlags
	execFlags
	outputFlags
	notifyFlags
	Command []string `arg:"" optional:"" passthrough:"partial" help:"What to execute, here and now."`
}

// Help explains the command.
func (rerunCmd) Help() string {
	return `The next start of the key executes it once more, whatever became of it before; a second one is refused again. The
approval holds for the run as it is now: if it changes first, the approval is void.

With a command (or -c) that start is made at once, under the run's own lock, crash policy and labels. If the rerun is
approved already, that approval is used.

A key that was pruned comes back with its run id, lock and crash policy; labels and earlier attempts are gone.

A job with rerun: two-person needs two people: one types --request, the other onerun approve KEY.`
}

func (c *rerunCmd) run(ctx context.Context, e *env) error {
	reason, err := c.text(e)
	if err != nil {
		return err
	}
	var argv []string
	if c.Request && (len(c.Command) > 0 || c.Shell != "") {
		return usage("--request only asks for a rerun, so there is nothing to execute yet; leave out the command")
	}
	if len(c.Command) > 0 || c.Shell != "" {
		if argv, err = commandLine(string(c.Shell), c.Command); err != nil {
			return err
		}
	}
	if err := checkRef(c.Key); err != nil {
		return err
	}
	if err := e.applyByID(ctx, c, c.Key); err != nil {
		return err
	}
	listeners, err := c.notifyFlags.read()
	if err != nil {
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
	if c.Request {
		if err := d.approve(bounded, run, onerun.ApproveRequest, reason); err != nil {
			return err
		}
		return say(e, "rerun of %s requested; another person approves it: onerun%s approve %s --reason TEXT", run.Name(), e.storeFlags(), run.Name())
	}
	err = d.approve(bounded, run, onerun.ApproveAlone, reason)
	if argv == nil {
		if err != nil {
			return err
		}
		return saidApproved(e, run)
	}
	if errors.Is(err, onerun.ErrState) && d.approved(bounded, run) { // by others: this is the start they meant
		err = nil
	}
	if err != nil {
		return err
	}
	return c.now(ctx, e, d, run, argv, listeners)
}

// requestedBy reports whether that person has requested a rerun that is open.
func (d *desk) requestedBy(ctx context.Context, run onerun.Run, person string) bool {
	x, err := d.Detail(ctx, run.Namespace, run.RunID)
	return err == nil && slices.ContainsFunc(x.Approvals, func(a onerun.Approval) bool {
		return a.By == "" && a.UsedAt.IsZero() && onerun.Person(a.RequestedBy) == person
	})
}

// approved reports whether a rerun of the run as it is has been approved.
func (d *desk) approved(ctx context.Context, run onerun.Run) bool {
	x, err := d.Detail(ctx, run.Namespace, run.RunID)
	return err == nil && slices.ContainsFunc(x.Approvals, func(a onerun.Approval) bool {
		return a.By != "" && a.UsedAt.IsZero() && a.Status == run.Status && a.Attempt == run.Attempt
	})
}

func saidApproved(e *env, run onerun.Run) error {
	return say(e, "rerun of %s approved (it is %s, attempt %d); the next start executes it", run.Name(), run.Status, run.Attempt)
}

// approve takes a step towards one more execution of the run.
func (d *desk) approve(ctx context.Context, run onerun.Run, step onerun.ApprovalStep, reason string) error {
	if by := os.Getenv("SUDO_USER"); step == onerun.ApproveSecond && by != "" && d.requestedBy(ctx, run, by) {
		// Where nobody was logged in by the system, sudo's word is all there is, and good
		// enough to refuse.
		return &onerun.StateError{Why: by + " has requested the rerun of " + run.Name() + ", so somebody else has to approve it"}
	}
	_, err := d.Approve(ctx, onerun.ApprovalRequest{
		Namespace: run.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), Step: step, TwoPeople: d.log.env.twoPeople(run.Job), Who: who(reason),
	})
	switch {
	case err != nil:
	case step == onerun.ApproveRequest:
		d.decided(onerun.EventRerunRequested, run, "rerun requested", reason)
	default:
		d.decided(onerun.EventRerunApproved, run, "rerun approved", reason)
		d.tellScheduler(ctx, run)
	}
	return err
}

// tellScheduler lets a scheduler know of an approved rerun, if there is one. Without its help the next start executes it.
func (d *desk) tellScheduler(ctx context.Context, run onerun.Run) {
	notes, ok := onerun.Ability[onerun.Notebook](d.Store)
	if !ok || run.Key() == "" {
		return
	}
	_ = scheduler.AskRerun(ctx, notes, run.Namespace, run.Job, run.Partition, time.Now())
}

// now is the approved start, made here.
func (c *rerunCmd) now(ctx context.Context, e *env, d *desk, run onerun.Run, argv []string, l *listeners) error {
	x := &execution{env: e, argv: argv, place: d.place, timeout: time.Duration(c.Timeout), grace: time.Duration(c.Grace), hold: c.Hold == "tree", output: c.outputFlags.plan(e), listeners: l, textfileDir: c.TextfileDir}
	err := x.do(ctx, d.Store, onerun.Job{
		Namespace: run.Namespace, Name: run.Job, Partition: run.Partition, BusinessDate: run.BusinessDate,
		Lock: run.Lock, LockMode: onerun.LockMode(c.LockMode),
		Policy:       onerun.Policy{TTL: time.Duration(c.TTL), OnCrash: run.OnCrash, StaleAfter: run.StaleAfter, TwoPeople: run.TwoPeople || e.twoPeople(run.Job)},
		Grace:        time.Duration(c.Grace),
		VersionLabel: run.VersionLabel, Labels: run.Labels,
	})
	var refused *onerun.Refusal
	if errors.As(err, &refused) {
		bounded, cancel := e.bound(ctx)
		defer cancel()
		if !d.approved(bounded, run) {
			return &onerun.StateError{Why: "another start has used the approval meanwhile: " + refused.Error()}
		}
		return &onerun.StateError{Why: "the rerun is approved, but it could not start now: " + refused.Error() + "; the next start executes it"}
	}
	return err
}
