package kvledger

import (
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// judge says of a RUNNING run whether it is stale.
func (t *tx) judge(run *onerun.Run) error {
	h, err := t.lock(run.Namespace, run.Lock)
	if err != nil {
		return err
	}
	if h.owner() == run.Owner {
		run.LeaseExpiresAt = h.Expires
	}
	run.Liveness, run.Evidence = onerun.Unknown, "its lease runs until "+run.LeaseExpiresAt.Format(time.RFC3339)
	switch {
	case h.over() && h.owner() == run.Owner:
		run.Stale, run.Evidence = true, ranOut(run.LeaseExpiresAt)
	case h.vanished || h.owner() != run.Owner: // or it has ended since it was read
		now, err := load[runRecord](t.fresh(), keyRun(run.RunID))
		if err != nil {
			return err
		}
		if now != nil && now.Run.Status == onerun.Running && now.Run.Attempt == run.Attempt {
			run.Stale, run.Evidence = true, vanished
		}
	}
	after := run.StaleAfter
	if after == 0 {
		if t.now.Sub(run.StartedAt) <= onerun.UsualStaleAfter(0) {
			return nil // whatever the job's history says
		}
		if after, err = t.usual(run.Namespace, run.Job); err != nil {
			return err
		}
	}
	if t.now.Sub(run.StartedAt) > after {
		run.Stale = true
	}
	return nil
}

// looked bounds how many runs are looked at for what a job usually takes.
const looked = 500

// usual is how long a run of a job may last until it is shown as stale, by the job's last
// successes.
func (t *tx) usual(ns, job string) (time.Duration, error) {
	from, to := under(path("hist", segment(ns), segment(job)))
	longest, found := time.Duration(0), 0
	entries, err := t.l.space.Range(t.ctx, from, to, looked)
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(entries, onerun.UsualRuns) {
		records, err := t.records(some)
		if err != nil {
			return 0, err
		}
		for _, r := range records {
			if r.Run.Status == onerun.Succeeded && found < onerun.UsualRuns {
				found++
				longest = max(longest, r.Run.FinishedAt.Sub(r.Run.StartedAt))
			}
		}
		if found == onerun.UsualRuns {
			break
		}
	}
	return onerun.UsualStaleAfter(longest), nil
}
