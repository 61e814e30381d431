package storetest

import (
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/onerun-dev/onerun"
)

// keptCases: what is recorded of a run comes back as it was given.
func keptCases() []check {
	return []check{
		{"kept/what the claim said", func(t *trial) {
			c := t.job("settle", day)
			c.BusinessDate = day
			c.ScheduledAt = time.Date(2026, 9, 16, 1, 0, 0, 123_000_000, time.FixedZone("KST", 9*3600))
			c.WorkerLabel, c.VersionLabel = "blue-1", "v1.2.3+build.7"
			c.Labels = map[string]string{"team": "ops", "empty": "", "말": "\"quoted\" \\ ' ; -- 日\n", strings.Repeat("k", 200): strings.Repeat("v", 2000)}
			c.StaleAfter = 17 * time.Minute
			g := t.granted(c)
			for what, r := range map[string]onerun.Run{"Grant.Run": g.Run, "the run that is read": t.run(g.Lease.RunID), "the run in a listing": t.runs(onerun.Query{Namespace: t.ns})[0]} {
				equal(t, r.BusinessDate, day, "%s: BusinessDate", what)
				equal(t, r.VersionLabel, c.VersionLabel, "%s: VersionLabel", what)
				equal(t, r.Worker.Label, c.WorkerLabel, "%s: Worker.Label", what)
				equal(t, r.Worker.String(), c.WorkerLabel, "%s: Worker", what)
				equal(t, r.StaleAfter, c.StaleAfter, "%s: StaleAfter", what)
				equal(t, r.OnCrash, c.OnCrash, "%s: OnCrash", what)
				t.near(r.ScheduledAt, c.ScheduledAt, 0, "%s: ScheduledAt", what)
				if !maps.Equal(r.Labels, c.Labels) {
					t.failf("%s: expected labels %q, got %q", what, c.Labels, r.Labels)
				}
			}
			t.finish(g, succeeded)
		}},
		{"kept/nothing is nothing", func(t *trial) {
			r := t.ended(t.job("sweep", ""), succeeded)
			equal(t, r.Key(), "", "Run.Key of an unkeyed run")
			equal(t, r.Partition, "", "Run.Partition")
			equal(t, r.BusinessDate, "", "Run.BusinessDate")
			equal(t, r.ScheduledAt.IsZero(), true, "whether ScheduledAt is empty")
			equal(t, r.ExitCode == nil && r.Processed == nil && r.Execution.Failed == nil, true, "whether exit code and counts are empty")
			equal(t, len(r.Labels), 0, "labels")
			equal(t, r.Error+r.Signal+string(r.Reason)+r.VersionLabel, "", "error, signal, reason and version")
		}},
		{"kept/the run's date, whatever a retry says", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			c.BusinessDate, c.ScheduledAt = day, time.Date(2026, 9, 16, 1, 0, 0, 0, time.UTC)
			c.VersionLabel = "v1"
			t.ended(c, failed)
			next := again(c)
			next.BusinessDate, next.ScheduledAt, next.VersionLabel = "2026-09-20", c.ScheduledAt.AddDate(0, 0, 5), "v2"
			g := t.granted(next)
			for _, r := range []onerun.Run{g.Run, t.run(g.Lease.RunID)} {
				equal(t, r.BusinessDate, day, "BusinessDate of attempt 2")
				t.near(r.ScheduledAt, c.ScheduledAt, 0, "ScheduledAt of attempt 2")
				equal(t, r.VersionLabel, "v2", "VersionLabel of attempt 2, which is its own")
				equal(t, r.Error+string(r.Reason), "", "error and reason of attempt 2, which runs")
				equal(t, r.FinishedAt.IsZero(), true, "whether attempt 2 has no end")
			}
			t.finish(g, succeeded)
		}},
		{"kept/the outcome", func(t *trial) {
			for i, o := range []onerun.Outcome{
				{Status: onerun.Failed, Reason: onerun.ReasonExit, ExitCode: new(255), Error: "exit status 255"},
				{Status: onerun.Failed, Reason: onerun.ReasonSignal, ExitCode: new(137), Signal: "SIGKILL"},
				{Status: onerun.Succeeded, ExitCode: new(0), Processed: new(int64(1 << 40)), Failed: new(int64(0))},
				{Status: onerun.Skipped, Error: "nothing to do"},
			} {
				o.FinishedAt = time.Date(2026, 9, 16, 2, 0, 0, 456_000_000, time.UTC)
				g := t.granted(t.job("settle", partition(i)))
				t.finish(g, o)
				for what, x := range map[string]onerun.Execution{"run": t.run(g.Lease.RunID).Execution, "attempt": t.attempt(g.Lease.RunID, 1).Execution} {
					equal(t, x.Reason, o.Reason, "%s: Reason", what)
					equal(t, x.Signal, o.Signal, "%s: Signal", what)
					equal(t, x.Error, o.Error, "%s: Error", what)
					samePtr(t, x.ExitCode, o.ExitCode, what+": ExitCode")
					samePtr(t, x.Processed, o.Processed, what+": Processed")
					samePtr(t, x.Failed, o.Failed, what+": Failed")
					t.near(x.FinishedAt, o.FinishedAt, 0, "%s: FinishedAt", what)
				}
			}
		}},
		{"kept/the status, whatever the text (B35)", func(t *trial) {
			for i, text := range []string{
				"before\x00after",
				"broken \xff\xfe\xc3( UTF-8",
				strings.Repeat("x", 1<<20),
				strings.Repeat("日", 1<<18),
				strings.Repeat("a", 999) + "𐐨𐐨",
				"\x1b[31mred\x1b[0m \u202egnp.exe \u2028 '; DROP TABLE onerun_run; -- %s {{.}} \\",
				"\ud7ff\ufffd\U0010ffff",
			} {
				g := t.granted(t.job("settle", partition(i)))
				o := failed
				o.Error = text
				t.finish(g, o)
				for what, x := range map[string]string{"run": t.run(g.Lease.RunID).Error, "attempt": t.attempt(g.Lease.RunID, 1).Error} {
					equal(t, t.run(g.Lease.RunID).Status, onerun.Failed, "status with error text %d", i)
					if !utf8.ValidString(x) || strings.ContainsRune(x, 0) {
						t.failf("error text %d of the %s: expected valid text without NUL, got %.40q", i, what, x)
					}
					if n := utf8.RuneCountInString(x); n > onerun.MaxError {
						t.failf("error text %d of the %s: expected at most %d characters, got %d", i, what, onerun.MaxError, n)
					}
					equal(t, x, onerun.CutError(text), "error text %d of the %s", i, what)
				}
			}
		}},
		{"kept/an operator's words", func(t *trial) {
			r := t.ended(t.job("settle", day), failed)
			q := resolution(r, onerun.Succeeded)
			q.By, q.Reason = "김 'O\"Brien", "line one\nline two; -- \\ %d 日本"
			_, err := t.s.Resolve(t.ctx, q)
			t.must(err, "resolve")
			e := t.event(r.RunID, onerun.EventResolved)
			equal(t, e.By, q.By, "who")
			equal(t, e.Reason, q.Reason, "why")
		}},
	}
}

func samePtr[T comparable](t *trial, got, want *T, what string) {
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil:
		t.failf("%s: expected that it is nil: %v, got %v", what, want == nil, got == nil)
	case *got != *want:
		t.failf("%s: expected %v, got %v", what, *want, *got)
	}
}
