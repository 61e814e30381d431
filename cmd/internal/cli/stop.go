package cli

import (
	"context"

	"github.com/onerun-dev/onerun"
)

type stopCmd struct {
	Key string `arg:"" help:"Key, run id, or job (its RUNNING run, else its latest)."`
	reasonFlag
}

// Help explains the command.
func (stopCmd) Help() string {
	return `The owner is told within a second, whatever account it works under: it sends SIGTERM to the job, and SIGKILL after its
--grace to everything that is left. The run ends as FAILED, reason stopped, and is never retried; the start that it was
exits with 143. A run whose owner is dead can't be stopped; see onerun resolve.`
}

func (c *stopCmd) run(ctx context.Context, e *env) error {
	return c.onRun(ctx, e, c.Key, func(ctx context.Context, d *desk, run onerun.Run, reason string) error {
		err := d.Stop(ctx, onerun.StopRequest{Namespace: run.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), Who: who(reason)})
		if err != nil {
			return err
		}
		d.decided(onerun.EventStopRequested, run, "stop requested", reason)
		return say(e, "%s was told to stop; see: onerun%s show %s", run.Name(), e.storeFlags(), run.Name())
	})
}
