package storetest_test

import (
	"context"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

func progressBugs() []bug {
	as := func(report func(s onerun.Store, l onerun.Lease, p onerun.Progress) error) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store { return &reporter{Store: s, report: report} }
	}
	changed := func(f func(p *onerun.Progress)) func(onerun.Store) onerun.Store {
		return as(func(s onerun.Store, l onerun.Lease, p onerun.Progress) error {
			f(&p)
			return s.Report(context.Background(), l, p)
		})
	}
	zero := func() *int64 { return new(int64) }
	return []bug{
		{name: "progress is lost", caught: "progress/seen while it runs", disguise: as(func(onerun.Store, onerun.Lease, onerun.Progress) error { return nil })},
		{name: "what isn't reported becomes 0", caught: "progress/seen while it runs", disguise: changed(func(p *onerun.Progress) {
			if p.Processed == nil {
				p.Processed = zero()
			}
		})},
		{name: "an end forgets the counts", caught: "progress/seen while it runs", disguise: func(s onerun.Store) onerun.Store { return overwrites{s} }},
		{name: "the end's own counts are lost", caught: "progress/an end that says more", disguise: func(s onerun.Store) onerun.Store { return countless{s} }},
		{name: "what it prints is seen at the end alone", caught: "progress/what it has printed so far", disguise: changed(func(p *onerun.Progress) { p.Output = nil })},
		{name: "a report without output removes it", caught: "progress/what it has printed so far", disguise: changed(func(p *onerun.Progress) {
			if p.Output == nil {
				p.Output = &onerun.Output{Text: "?"}
			}
		})},
		{name: "the dead leave nothing", caught: "progress/of an owner that died", disguise: changed(func(p *onerun.Progress) { p.Processed, p.Output = nil, nil })},
		{name: "anybody reports", caught: "progress/its owner's alone", rules: memory.Rules{
			ReportOwns: func(held, lease onerun.Lease) bool { return held.Owner != "" },
		}},
		{name: "a lock alone reports", caught: "progress/none of a lock alone", disguise: as(func(s onerun.Store, l onerun.Lease, p onerun.Progress) error {
			if l.RunID == "" {
				return nil
			}
			return s.Report(context.Background(), l, p)
		})},
	}
}

// reporter records progress in ways that are wrong.
type reporter struct {
	onerun.Store
	report func(s onerun.Store, l onerun.Lease, p onerun.Progress) error
}

func (r *reporter) Report(_ context.Context, l onerun.Lease, p onerun.Progress) error {
	return r.report(r.Store, l, p)
}

// overwrites writes an end over what was reported.
type overwrites struct{ onerun.Store }

func (f overwrites) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if o.Processed == nil {
		o.Processed = new(int64)
	}
	return f.Store.Finish(ctx, l, o)
}

// countless takes counts from reports alone.
type countless struct{ onerun.Store }

func (c countless) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	o.Processed, o.Failed = nil, nil
	return c.Store.Finish(ctx, l, o)
}
