package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/jobapi"
)

type reportCmd struct {
	What []string `arg:"" optional:"" help:"processed=N, failed=N; processed=+N adds; or: skipped [REASON]."`
}

// Help explains the command.
func (reportCmd) Help() string {
	return `Inside of a job: says how far it has come. onerun status and show have the numbers while the job runs, and they stay
with the attempt. skipped says that there was nothing to do: a job that then ends with 0 is SKIPPED, not SUCCEEDED.

A report that the store doesn't take for now is kept until the job ends, and is no error: progress is no reason for a job
to fail. Over HTTP, for any language: see docs/inside.md.`
}

func (c *reportCmd) run(ctx context.Context, e *env) error {
	r, err := c.report()
	if err != nil {
		return err
	}
	job, err := insideJob()
	if err != nil {
		return err
	}
	a, err := job.Report(ctx, r)
	if err != nil {
		return err
	}
	if !a.Stored {
		complain(e, fmt.Errorf("the report is kept until the job ends, since the store doesn't take it now: %s", a.Error))
	}
	return nil
}

// report reads the arguments.
func (c *reportCmd) report() (jobapi.Report, error) {
	var r jobapi.Report
	if len(c.What) == 0 {
		return r, usage("there is nothing to report; write processed=N, failed=N, or skipped [REASON]")
	}
	if c.What[0] == "skipped" {
		if len(c.What) > 2 {
			return r, usage("skipped takes one reason; put it into quotes")
		}
		return jobapi.Report{Skipped: true, Reason: onerun.CutError(strings.Join(c.What[1:], " "))}, nil
	}
	var add jobapi.Add
	given := map[string]bool{}
	for _, arg := range c.What {
		name, value, ok := strings.Cut(arg, "=")
		to, by := &r.Processed, &add.Processed
		switch {
		case ok && name == "processed":
		case ok && name == "failed":
			to, by = &r.Failed, &add.Failed
		default:
			return r, usage("%q can't be reported; write processed=N, failed=N, or skipped [REASON]", arg)
		}
		if given[name] {
			return r, usage("%s is given twice", name)
		}
		given[name] = true
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || value == "" || n < 0 {
			return r, usage("%s=%q is no count; write a whole number from 0 on, or +N to add", name, value)
		}
		if strings.HasPrefix(value, "+") {
			*by, r.Add = n, &add
		} else {
			*to = &n
		}
	}
	return r, nil
}
