package cli

import (
	"context"
	"errors"
)

type checkCmd struct {
	JSON bool `name:"json" help:"Print the run as one JSON document."`
}

// Help explains the command.
func (checkCmd) Help() string {
	return `Inside of a job: asks whether this run still owns its lock, before a step that must not be done twice. 0: it does. 75:
it doesn't, and another may have begun. 1: it does, but it has been asked to stop. Between this answer and the step time
passes all the same: what has to be safe against that, checks the fencing token ONERUN_TOKEN itself, or is an item.`
}

func (c *checkCmd) run(ctx context.Context, e *env) error {
	job, err := insideJob()
	if err != nil {
		return err
	}
	s, err := job.Check(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(e.out, s)
	}
	if err == nil && s.Stopping {
		err = &statusError{status: exitState, cause: errors.New("the job has been asked to stop")}
	}
	return err
}
