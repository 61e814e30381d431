package storetest

import (
	"strings"
	"unicode/utf8"

	"github.com/onerun-dev/onerun"
)

// outputCases: what a job printed is kept with the attempt that printed it.
func outputCases() []check {
	return []check{
		{"output/kept with its attempt", func(t *trial) {
			for i, o := range []onerun.Outcome{succeeded, failed, skipped} {
				g := t.granted(t.job("settle", partition(i)))
				t.noOutput(g.Lease.RunID, 1, "of an attempt that is RUNNING")
				t.finish(g, printing(o, "one\ntwo\n"))
				got := t.output(g.Lease.RunID, 1)
				equal(t, got.Text, "one\ntwo\n", "Text")
				equal(t, got.Total, 8, "Total")
				equal(t, got.Truncated, false, "Truncated")
				equal(t, got.At.IsZero(), false, "whether At is empty")
				equal(t, t.run(g.Lease.RunID).Status, o.Status, "status of a run that printed something")
			}
			r := t.ended(t.job("sweep", ""), printing(succeeded, "unkeyed")) // a run without a key
			equal(t, t.output(r.RunID, 1).Text, "unkeyed", "Text of an unkeyed run")
		}},
		{"output/of each attempt", func(t *trial) {
			c := retrying(t.job("settle", day), 2, 0)
			g := t.granted(c)
			t.finish(g, printing(failed, "first"))
			t.finish(t.granted(again(c)), failed)
			t.finish(t.granted(again(c)), printing(succeeded, "third"))
			equal(t, t.output(g.Lease.RunID, 1).Text, "first", "Text of attempt 1")
			t.noOutput(g.Lease.RunID, 2, "of an attempt that printed nothing")
			equal(t, t.output(g.Lease.RunID, 3).Text, "third", "Text of attempt 3")
		}},
		{"output/none", func(t *trial) {
			r := t.ended(t.job("settle", day), printing(succeeded, "text"))
			t.noOutput(r.RunID, 2, "of an attempt that isn't there")
			t.noOutput(r.RunID, 0, "of attempt 0")
			t.noOutput(onerun.NewRunID(t.now()), 1, "of a run that isn't there")
			_, err := t.s.Output(t.ctx, t.ns+"-b", r.RunID, 1)
			t.is(err, onerun.ErrNotFound, "output of a run in another namespace")
			quiet := t.ended(t.job("report", day), printing(succeeded, ""))
			t.noOutput(quiet.RunID, 1, "that is empty")
		}},
		{"output/of an end that is recorded twice", func(t *trial) {
			g := t.granted(t.job("settle", day))
			o := printing(succeeded, "once")
			t.finish(g, o)
			t.finish(g, o) // its reply was lost
			equal(t, t.output(g.Lease.RunID, 1).Text, "once", "Text")
		}},
		{"output/of an end that comes too late", func(t *trial) {
			first, next := t.takenOver(t.job("settle", day))
			t.is(t.s.Finish(t.ctx, first.Lease, printing(succeeded, "late")), onerun.ErrLost, "finish of an attempt that was closed")
			t.noOutput(first.Lease.RunID, 1, "of an end that was refused")
			t.finish(next, printing(succeeded, "second"))
			t.keptAside(first, printing(late(onerun.Succeeded), "late"))
			t.noOutput(first.Lease.RunID, 1, "of an end that is only kept")
			equal(t, t.output(next.Lease.RunID, 2).Text, "second", "Text of the later attempt")
		}},
		{"output/of an end that is delivered", func(t *trial) {
			g := t.orphan(t.job("settle", day))
			t.deliver(g, printing(late(onerun.Succeeded), "applied"), onerun.DeliveredApplied)
			equal(t, t.output(g.Lease.RunID, 1).Text, "applied", "Text of an end that was applied")
			g = t.fallen(t.job("report", day))
			t.deliver(g, printing(late(onerun.Succeeded), "corrected"), onerun.DeliveredCorrected)
			equal(t, t.output(g.Lease.RunID, 1).Text, "corrected", "Text of an end that corrects")
			g = t.orphan(t.job("close", day))
			t.deliver(g, late(onerun.Failed), onerun.DeliveredApplied)
			t.noOutput(g.Lease.RunID, 1, "of an end that was delivered without one")
		}},
		{"output/pruned with its run", func(t *trial) {
			c := t.job("settle", day)
			r := t.ended(c, printing(succeeded, "text"))
			t.pruned(onerun.PruneRequest{Oldest: true}, r.RunID)
			t.noOutput(r.RunID, 1, "of a run that was pruned")
			t.approve(t.only(onerun.Query{RunID: r.RunID}))
			t.cameBack(r.RunID)
			t.noOutput(r.RunID, 1, "of a run that was pruned and came back")
			t.finish(t.granted(again(c)), printing(succeeded, "again"))
			equal(t, t.output(r.RunID, 2).Text, "again", "Text of the rerun")
		}},
		{"output/whatever it is", func(t *trial) {
			for i, text := range []string{
				strings.Repeat("0123456789abcde\n", 4096),
				"ok\x00mid\xff\xfeend\nansi \x1b[31mred\x1b[0m\r\n\t말 \u2028 '; DROP TABLE onerun_run; --\n",
				strings.Repeat("\x00\xff", 32<<10),
				strings.Repeat("말", 21845),
				"\xeb\xa7", // a character's beginning
				`\x00 as it was written`,
			} {
				o := printing(failed, text)
				r := t.ended(t.job("settle", partition(i)), o)
				got := t.output(r.RunID, 1)
				equal(t, got.Text == onerun.CleanOutput(text), true, "whether text %d is kept as CleanOutput has it", i)
				equal(t, utf8.ValidString(got.Text) && !strings.Contains(got.Text, "\x00"), true, "whether text %d is text", i)
				equal(t, got.Total, int64(len(text)), "Total of text %d", i)
				equal(t, r.Status, onerun.Failed, "status of a run that printed text %d", i)
			}
			o := printing(succeeded, "the end")
			o.Output.Total, o.Output.Truncated = 3<<30, true
			got := t.output(t.ended(t.job("report", day), o).RunID, 1)
			equal(t, got.Total, 3<<30, "Total")
			equal(t, got.Truncated, true, "Truncated")
		}},
		{"output/too much of it", func(t *trial) {
			r := t.ended(t.job("settle", day), printing(succeeded, "begin"+strings.Repeat("x", onerun.MaxOutput)+"end"))
			got := t.output(r.RunID, 1)
			equal(t, len(got.Text), onerun.MaxOutput, "length")
			equal(t, strings.HasSuffix(got.Text, "xend"), true, "whether the end is kept")
			equal(t, got.Truncated, true, "Truncated")
		}},
		{"output/its secrets", func(t *trial) {
			r := t.ended(t.job("settle", day), printing(succeeded, "connect postgres://ana:c4n4ry@db/x password=c4n4ry\n"))
			equal(t, t.output(r.RunID, 1).Text, "connect postgres://***@db/x password=***\n", "Text")
		}},
	}
}

// printing is an end of a job that printed text.
func printing(o onerun.Outcome, text string) onerun.Outcome {
	o.Output = &onerun.Output{Text: text, Total: int64(len(text))}
	return o
}

func (t *trial) output(runID string, attempt int) onerun.Output {
	o, err := t.s.Output(t.ctx, t.ns, runID, attempt)
	t.must(err, "output of attempt %d", attempt)
	return o
}

func (t *trial) noOutput(runID string, attempt int, what string) {
	_, err := t.s.Output(t.ctx, t.ns, runID, attempt)
	t.is(err, onerun.ErrNotFound, "output %s", what)
}
