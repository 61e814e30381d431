package storetest

import "github.com/onerun-dev/onerun"

// progressCases: how far an attempt has come is seen while it runs, and only its owner says.
func progressCases() []check {
	return []check{
		{"progress/seen while it runs", func(t *trial) {
			g := t.granted(t.job("settle", day))
			t.report(g, onerun.Progress{Processed: number(12), Failed: number(0)})
			t.counted(g, 12, 0)
			t.report(g, onerun.Progress{Failed: number(3)})
			t.counted(g, 12, 3)
			t.report(g, onerun.Progress{Processed: number(20)})
			t.counted(g, 20, 3)
			equal(t, t.run(g.Lease.RunID).Status, onerun.Running, "status")
			t.finish(g, failed)
			t.counted(g, 20, 3)
		}},
		{"progress/an end that says more", func(t *trial) {
			g := t.granted(t.job("settle", day))
			t.report(g, onerun.Progress{Processed: number(12), Failed: number(1)})
			o := succeeded
			o.Processed = number(40)
			t.finish(g, o)
			t.counted(g, 40, 1)
		}},
		{"progress/of each attempt", func(t *trial) {
			c := retrying(t.job("settle", day), 1, 0)
			g := t.granted(c)
			t.report(g, onerun.Progress{Processed: number(7), Output: &onerun.Output{Text: "first\n", Total: 6}})
			t.finish(g, failed)
			next := t.granted(again(c))
			r := t.run(g.Lease.RunID)
			equal(t, r.Processed == nil && r.Execution.Failed == nil, true, "whether a new attempt has no counts")
			t.report(next, onerun.Progress{Processed: number(9)})
			equal(t, *t.attempt(g.Lease.RunID, 1).Processed, 7, "Processed of attempt 1")
			equal(t, t.output(g.Lease.RunID, 1).Text, "first\n", "output of attempt 1")
			t.noOutput(g.Lease.RunID, 2, "of an attempt that has reported none")
			t.finish(next, succeeded)
		}},
		{"progress/what it has printed so far", func(t *trial) {
			g := t.granted(t.job("settle", day))
			t.report(g, onerun.Progress{Output: &onerun.Output{Text: "one\n", Total: 4}})
			equal(t, t.output(g.Lease.RunID, 1).Text, "one\n", "output")
			t.report(g, onerun.Progress{Output: &onerun.Output{Text: "two password=c4n4ry\n", Total: 900, Truncated: true}})
			o := t.output(g.Lease.RunID, 1)
			equal(t, o.Text, "two password=***\n", "output after the second report")
			equal(t, o.Total, 900, "Total")
			equal(t, o.Truncated, true, "Truncated")
			t.report(g, onerun.Progress{Processed: number(1)})
			equal(t, t.output(g.Lease.RunID, 1).Total, 900, "Total after a report without output")
			t.finish(g, printing(succeeded, "the end"))
			equal(t, t.output(g.Lease.RunID, 1).Text, "the end", "output after the end")

			quiet := t.granted(t.job("report", day))
			t.report(quiet, onerun.Progress{Output: &onerun.Output{Text: "so far", Total: 6}})
			t.finish(quiet, failed)
			equal(t, t.output(quiet.Lease.RunID, 1).Text, "so far", "output of an attempt whose end says nothing of it")
		}},
		{"progress/of an owner that died", func(t *trial) {
			c := t.job("settle", day)
			g := t.orphan(c)
			t.report(g, onerun.Progress{Processed: number(5), Output: &onerun.Output{Text: "last words", Total: 10}})
			t.refusedAfterDeath(again(c), onerun.RefusedFailed)
			t.counted(g, 5, -1)
			equal(t, t.output(g.Lease.RunID, 1).Text, "last words", "output")
		}},
		{"progress/its owner's alone", func(t *trial) {
			g := t.granted(t.job("settle", day))
			p := onerun.Progress{Processed: number(99), Output: &onerun.Output{Text: "forged", Total: 6}}
			for name, change := range map[string]func(*onerun.Lease){
				"token":   func(l *onerun.Lease) { l.Token++ },
				"owner":   func(l *onerun.Lease) { l.Owner = onerun.NewID() },
				"attempt": func(l *onerun.Lease) { l.Attempt++ },
				"run":     func(l *onerun.Lease) { l.RunID = onerun.NewRunID(t.now()) },
			} {
				before := t.look()
				l := g.Lease
				change(&l)
				t.is(t.s.Report(t.ctx, l, p), onerun.ErrLost, "a report with another %s", name)
				t.unchanged(before, t.look(), "a report with another "+name)
				t.noOutput(g.Lease.RunID, 1, "after a report with another "+name)
			}
			t.finish(g, succeeded)
			before := t.look()
			t.is(t.s.Report(t.ctx, g.Lease, p), onerun.ErrLost, "a report after the end")
			t.unchanged(before, t.look(), "a report after the end")
			t.noOutput(g.Lease.RunID, 1, "after a report that came after the end")

			late, next := t.takenOver(t.job("report", day))
			before = t.look()
			t.is(t.s.Report(t.ctx, late.Lease, p), onerun.ErrLost, "a report after a takeover")
			t.unchanged(before, t.look(), "a report after a takeover")
			t.finish(next, succeeded)
		}},
		{"progress/none of a lock alone", func(t *trial) {
			g := t.granted(t.lockOnly("db"))
			t.is(t.s.Report(t.ctx, g.Lease, onerun.Progress{Processed: number(1)}), onerun.ErrUsage, "a report of a lock alone")
			t.finish(g, succeeded)
		}},
	}
}

func number(n int64) *int64 { return &n }

func (t *trial) report(g onerun.Grant, p onerun.Progress) {
	t.must(t.s.Report(t.ctx, g.Lease, p), "report progress of %s", g.Run.Name())
}

// counted checks the counts of a run's last attempt, wherever they are read; -1: none.
func (t *trial) counted(g onerun.Grant, processed, failed int64) {
	value := func(n *int64) int64 {
		if n == nil {
			return -1
		}
		return *n
	}
	d := t.detail(g.Lease.RunID)
	for what, x := range map[string]onerun.Execution{
		"the run": d.Run.Execution, "the run in a listing": t.run(g.Lease.RunID).Execution, "the attempt": d.Attempts[len(d.Attempts)-1].Execution,
	} {
		equal(t, value(x.Processed), processed, "%s: Processed", what)
		equal(t, value(x.Failed), failed, "%s: Failed", what)
	}
}
