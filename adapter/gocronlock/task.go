package gocronlock

import (
	"context"

	"github.com/go-co-op/gocron/v2"

	"github.com/onerun-dev/onerun"
)

// Task makes a task of gocron's of a function: each fire is a Runner.Do of job, with the context
// that gocron gives the task. An everyday skip is no error; a *onerun.Refusal that somebody
// should look at (onerun.Reason.Blocked) is, as is the work's own and whatever else Runner.Do
// says: gocron tells an AfterJobRunsWithError listener. A job with a Task needs no Locker; in a scheduler that has one,
// add gocron.WithDisabledDistributedJobLocker(true) to it.
//
// Errors: onerun.ErrUsage when keys can't be made of what Keyed says.
func Task(runner *onerun.Runner, job onerun.Job, fn func(context.Context, *onerun.Owner) error, opts ...Option) (gocron.Task, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	return gocron.NewTask(func(ctx context.Context) error {
		job := job
		if err := o.name(&job); err != nil {
			return err
		}
		err := runner.Do(ctx, job, fn)
		if everyday(err) {
			return nil
		}
		return err
	}), nil
}
