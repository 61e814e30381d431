package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// AtMost says how often a job may run, whoever starts it, before people are told: by the schedule, by a person, again after
// a failure, or by the crontab that somebody forgot to empty. It keeps nothing from running.
type AtMost struct {
	Runs   int // 0: any number
	Within time.Duration
}

// often counts the executions in each span of that length that ends with one of the last of them: so it is over when it has been
// well for as long. Each attempt is an execution.
func (s *sight) often(ctx context.Context, _ open) (trouble, bool, error) {
	j, now := s.job, s.now
	if j.AtMost.Runs == 0 {
		return trouble{}, false, nil
	}
	times, err := s.executions(ctx, s.newest, now.Add(-2*j.AtMost.Within))
	if err != nil {
		return trouble{}, false, err
	}
	worst, at, oldest := 0, time.Time{}, 0
	for i, t := range times {
		for !times[oldest].After(t.Add(-j.AtMost.Within)) {
			oldest++
		}
		if n := i - oldest + 1; n >= worst && t.After(now.Add(-j.AtMost.Within)) {
			worst, at = n, t
		}
	}
	return trouble{
		kind: AlertOften, cause: "often",
		title: fmt.Sprintf("%s ran %d times within %s, where %d are the most", j.Name, worst, j.AtMost.Within, j.AtMost.Runs),
		lines: []string{"counted up to " + at.UTC().Format(time.RFC3339) + ", every attempt, whoever started it"},
	}, worst > j.AtMost.Runs, nil
}

// executions are when attempts of runs began since a time, oldest first.
func (e *Engine) executions(ctx context.Context, runs []onerun.Run, from time.Time) (times []time.Time, err error) {
	for _, r := range runs {
		switch {
		case r.Attempt == 0 || r.StartedAt.Before(from): // its earlier attempts are older still
		case r.Attempt == 1:
			times = append(times, r.StartedAt)
		default:
			x, err := e.Store.Detail(ctx, e.Namespace, r.RunID)
			if err != nil {
				return nil, err
			}
			for _, a := range x.Attempts {
				if !a.StartedAt.Before(from) {
					times = append(times, a.StartedAt)
				}
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, nil
}
