package main

import (
	"context"

	"github.com/onerun-dev/onerun"
)

type approveCmd struct {
	Key string `arg:"" help:"Key, run id, or job (its RUNNING run, else its latest)."`
	reasonFlag
}

// Help explains the command.
func (approveCmd) Help() string {
	return `The second of two people agrees to a rerun that the first has requested with onerun rerun KEY --request. It must be
another person: two accounts of one name count as one, and so does an account that works as another by sudo.`
}

func (c *approveCmd) run(ctx context.Context, e *env) error {
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
	if err == nil && !found {
		err = noSuchRun(c.Key)
	}
	if err == nil {
		err = d.approve(ctx, run, onerun.ApproveSecond, reason)
	}
	if err != nil {
		return err
	}
	return saidApproved(e, run)
}
