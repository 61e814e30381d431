package storetest

import (
	"errors"
	"strings"

	"github.com/onerun-dev/onerun"
)

// pauseCases: a paused job is refused until it is resumed; nothing else is.
func pauseCases() []check {
	return []check{
		{"pause/and resume", func(t *trial) {
			t.pause("settle")
			t.refused(t.job("settle", day), onerun.RefusedPaused)
			t.refused(t.job("settle", ""), onerun.RefusedPaused)
			t.resume("settle")
			t.finish(t.granted(t.job("settle", day)), succeeded)
			t.granted(t.job("settle", ""))
		}},
		{"pause/twice", func(t *trial) {
			t.is(t.s.Resume(t.ctx, t.pauseOf("settle")), onerun.ErrState, "resume a job that isn't paused")
			t.pause("settle")
			before := t.look()
			q := t.pauseOf("settle")
			q.By, q.Reason = "lee", "another reason"
			err := t.s.Pause(t.ctx, q)
			t.is(err, onerun.ErrState, "pause a paused job")
			equal(t, strings.Contains(err.Error(), "by "+operator+": "+because), true, "whether it is said who has paused the job, and why: %v", err)
			t.unchanged(before, t.look(), "a second pause")
			t.resume("settle")
			t.is(t.s.Resume(t.ctx, t.pauseOf("settle")), onerun.ErrState, "resume a job twice")
			t.pause("settle")
			t.resume("settle")
			t.granted(t.job("settle", day))
		}},
		{"pause/many at once", func(t *trial) {
			stores := t.opens(4)
			for _, act := range []func(onerun.Store) error{
				func(s onerun.Store) error { return s.Pause(t.ctx, t.pauseOf("settle")) },
				func(s onerun.Store) error { return s.Resume(t.ctx, t.pauseOf("settle")) },
			} {
				errs := make([]error, t.h.Clients)
				t.together(len(errs), func(i int) error {
					errs[i] = act(stores[i%len(stores)])
					return nil
				})
				t.oneDecided(errs, "pauses or resumptions")
			}
		}},
		{"pause/that job and namespace only", func(t *trial) {
			t.pause("settle")
			t.granted(t.job("settle2", day))
			t.granted(t.job("Settle", day))
			other := t.job("settle", day)
			other.Namespace = t.ns + "-b"
			t.grantedBy(t.s, other)
			t.granted(under(t.job("report", day), onerun.NamedLock("settle")))
			t.granted(under(t.job("close", day), onerun.JobLock("settle")))
			t.refused(t.job("settle", day), onerun.RefusedPaused)
			elsewhere, err := t.s.Jobs(t.ctx, t.ns+"-b")
			t.must(err, "list the jobs of another namespace")
			equal(t, paused(elsewhere), 0, "jobs that are paused in another namespace")
		}},
		{"pause/doesn't touch what runs", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			g := t.granted(c)
			t.pause("settle")
			_, err := t.s.Heartbeat(t.ctx, g.Lease)
			t.must(err, "heartbeat of a paused job's run")
			t.finish(g, failed)
			t.refused(again(c), onerun.RefusedPaused)
			t.resume("settle")
			equal(t, t.granted(again(c)).Lease.Attempt, 2, "attempt of the retry after the pause")
		}},
		{"pause/doesn't touch a lock alone", func(t *trial) {
			t.pause("db")
			t.granted(t.lockOnly("db"))
		}},
		{"pause/is listed", func(t *trial) {
			t.pause("settle")
			jobs, err := t.s.Jobs(t.ctx, t.ns)
			t.must(err, "list jobs")
			equal(t, paused(jobs), 1, "paused jobs")
			for _, j := range jobs {
				if j.PausedAt.IsZero() {
					continue
				}
				equal(t, j.Namespace, t.ns, "JobState.Namespace")
				equal(t, j.Job, "settle", "JobState.Job")
				equal(t, j.PausedBy, operator, "JobState.PausedBy")
				equal(t, j.Reason, because, "JobState.Reason")
			}
			t.resume("settle")
			jobs, err = t.s.Jobs(t.ctx, t.ns)
			t.must(err, "list jobs")
			equal(t, paused(jobs), 0, "paused jobs after Resume")
		}},
		{"pause/holds against many starts", func(t *trial) {
			stores := t.opens(4)
			t.pause("settle")
			t.together(t.h.Clients, func(i int) error {
				_, err := stores[i%len(stores)].Claim(t.ctx, t.job("settle", partition(i)))
				var ref *onerun.Refusal
				if !errors.As(err, &ref) || ref.Reason != onerun.RefusedPaused && ref.Reason != onerun.RefusedLocked {
					t.failf("claim of a paused job: expected refused paused, got %s", said(err))
				}
				return nil
			})
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 0, "runs of a paused job")
		}},
	}
}

func paused(jobs []onerun.JobState) int {
	n := 0
	for _, j := range jobs {
		if !j.PausedAt.IsZero() {
			n++
		}
	}
	return n
}
