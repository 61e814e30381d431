package cli

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
	return c.onRun(ctx, e, c.Key, func(ctx context.Context, d *desk, run onerun.Run, reason string) error {
		if err := d.approve(ctx, run, onerun.ApproveSecond, reason); err != nil {
			return err
		}
		return saidApproved(e, run)
	})
}
