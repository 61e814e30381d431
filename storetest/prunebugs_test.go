package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

func pruneBugs() []bug {
	as := func(f func(p *pruner)) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store {
			p := &pruner{Store: s}
			f(p)
			return p
		}
	}
	asks := func(f func(q *onerun.PruneRequest)) func(onerun.Store) onerun.Store {
		return as(func(p *pruner) { p.ask = f })
	}
	removes := func(f func(run onerun.Run, open *onerun.Approval) bool) memory.Rules {
		return memory.Rules{Prunable: f}
	}
	var pruned atomic.Bool     // a store that loses its tokens with its runs
	known := map[string]bool{} // the store's lock is held throughout
	never := memory.Rules{Bury: func(onerun.Run) bool { return false }}
	return []bug{
		{name: "one person forgets what takes two", caught: "forget/not what takes two people", rules: memory.Rules{TakesTwo: func(onerun.Run, []string) bool { return false }}},
		{name: "every success is old", caught: "prune/by age", disguise: asks(func(q *onerun.PruneRequest) {
			if !q.Before.IsZero() {
				q.Before = q.Before.Add(time.Hour)
			}
		})},
		{name: "one too few is kept", caught: "prune/by number", disguise: asks(func(q *onerun.PruneRequest) { q.Keep = max(0, q.Keep-1) })},
		{name: "the number is that of all jobs", caught: "prune/by number", rules: removes(func(run onerun.Run, open *onerun.Approval) bool { return run.Job != "report" && open == nil })},
		{name: "the newest go first", caught: "prune/the oldest", disguise: as(func(p *pruner) { p.newest = true })},
		{name: "whatever the key", caught: "prune/one key", disguise: asks(func(q *onerun.PruneRequest) {
			if q.Partition != "" {
				q.Partition, q.Oldest = "", true
			}
		})},
		{name: "whatever the job", caught: "prune/one job", disguise: asks(func(q *onerun.PruneRequest) {
			if q.Partition == "" {
				q.Job = ""
			}
		})},
		{name: "both limits must hold", caught: "prune/each limit by itself", disguise: asks(func(q *onerun.PruneRequest) {
			if q.Keep > 0 {
				q.Before = time.Time{}
			}
		})},
		{name: "as many as there are in one step", caught: "prune/in order, step by step", disguise: asks(func(q *onerun.PruneRequest) { q.Limit = 0 })},
		{name: "never more", caught: "prune/in order, step by step", disguise: as(func(p *pruner) { p.answer = func(a *onerun.Pruned) { a.More = false } })},
		{name: "always more", caught: "prune/the oldest", disguise: as(func(p *pruner) { p.answer = func(a *onerun.Pruned) { a.More = true } })},
		{name: "more is what went twice", caught: "prune/more of what is over two limits", disguise: as(func(p *pruner) { p.answer = func(a *onerun.Pruned) { a.More = false } })},
		{name: "approved runs go", caught: "prune/what is never removed", rules: removes(func(_ onerun.Run, open *onerun.Approval) bool { return open == nil || open.By == "" })},
		{name: "requested runs go", caught: "prune/what is never removed", rules: removes(func(_ onerun.Run, open *onerun.Approval) bool { return open == nil || open.By != "" })},
		{name: "failures go", caught: "prune/what is never removed", rules: memory.Rules{PruneStatus: func(s onerun.Status) bool { return s == onerun.Succeeded || s == onerun.Failed }}},
		{name: "skipped runs go", caught: "prune/what is never removed", rules: memory.Rules{PruneStatus: func(s onerun.Status) bool { return s == onerun.Succeeded || s == onerun.Skipped }}},
		{name: "running runs go", caught: "prune/what is never removed", rules: memory.Rules{PruneStatus: func(s onerun.Status) bool { return s == onerun.Succeeded || s == onerun.Running }}},
		{name: "refusals stay for ever", caught: "prune/refusals of keys without a run", rules: memory.Rules{RefusalGoes: func(onerun.Skip, bool, time.Time) bool { return false }}},
		{name: "refusals go with their run still there", caught: "prune/refusals of keys without a run", rules: memory.Rules{RefusalGoes: func(k onerun.Skip, _ bool, before time.Time) bool { return k.LastAt.Before(before) }}},
		{name: "refusals go whenever they were", caught: "prune/refusals of keys without a run", rules: memory.Rules{RefusalGoes: func(_ onerun.Skip, ran bool, _ time.Time) bool { return !ran }}},
		{name: "no tombstones", caught: "prune/a key can't run again", rules: never},
		{name: "no tombstones, under claims", caught: "prune/under claims", rules: never},
		{name: "the first start doesn't see the tombstone", caught: "prune/under claims", rules: forgets(func(c onerun.Claim, f *onerun.Facts) {
			if f.Run != nil && !f.Run.Pruned.IsZero() && !known[c.Namespace+c.Key()] {
				known[c.Namespace+c.Key()] = true
				f.Run = nil
			}
		})},
		{name: "tombstones aren't found by key", caught: "prune/what stays", disguise: as(func(p *pruner) {
			p.runs = func(q onerun.Query, rs []onerun.Run) []onerun.Run {
				if q.Partition != "" {
					return alive(rs)
				}
				return rs
			}
		})},
		{name: "tombstones are listed as runs", caught: "prune/what stays", disguise: as(func(p *pruner) { p.query = func(q *onerun.Query) { q.Pruned = true } })},
		{name: "tombstones are never listed", caught: "prune/what stays", disguise: as(func(p *pruner) { p.query = func(q *onerun.Query) { q.Pruned = false } })},
		{name: "tombstones come last", caught: "prune/what stays", disguise: as(func(p *pruner) {
			p.runs = func(_ onerun.Query, rs []onerun.Run) []onerun.Run {
				slices.SortStableFunc(rs, func(a, b onerun.Run) int { return a.Pruned.Compare(b.Pruned) })
				return rs
			}
		})},
		{name: "a pruned key may be resolved", caught: "prune/nothing is resolved", disguise: as(func(p *pruner) { p.resolves = true })},
		{name: "the token goes with the run", caught: "prune/an approved rerun", disguise: as(func(p *pruner) {
			p.answer = func(*onerun.Pruned) { pruned.Store(true) }
		}), rules: memory.Rules{NextToken: func(last int64, now time.Time) int64 {
			if pruned.Swap(false) {
				return now.UnixMilli() - 1
			}
			return onerun.NextToken(last, now)
		}}},
		{name: "a rerun of a pruned key begins at 1", caught: "prune/an approved rerun", rules: memory.Rules{Decide: func(f onerun.Facts) onerun.Verdict {
			v := onerun.Decide(f)
			if v.Spend != nil {
				v.Attempt = 1
			}
			return v
		}}},
		{name: "a refused approval brings a run back", caught: "prune/a rerun that isn't approved", disguise: as(func(p *pruner) { p.revives = true })},
		{name: "two people are forgotten", caught: "prune/a rerun that isn't approved", rules: memory.Rules{Approve: func(run onerun.Run, open *onerun.Approval, q onerun.ApprovalRequest, now time.Time) error {
			run.TwoPeople = false
			return onerun.ApproveAllowed(run, open, q, now)
		}}},
		{name: "unkeyed runs leave a trace", caught: "prune/unkeyed runs go without a trace", disguise: as(func(p *pruner) { p.leaves = true })},
		{name: "ends of pruned runs are swallowed", caught: "prune/ends of what is pruned", disguise: func(s onerun.Store) onerun.Store { return &deliverer{Store: s, easy: true} }},
		{name: "decisions are pruned", caught: "prune/what people decided stays", disguise: as(func(p *pruner) {
			p.detail = func(d *onerun.Detail) {
				if !d.Run.Pruned.IsZero() {
					d.Events = nil
				}
			}
		})},
		{name: "refusals aren't pruned", caught: "prune/what people decided stays", disguise: as(func(p *pruner) { p.skips = map[string][]onerun.Skip{} })},
		{name: "all namespaces are pruned", caught: "prune/nothing across namespaces", disguise: as(func(p *pruner) { p.everywhere = map[string]bool{} })},
		{name: "no limit is no limit", caught: "prune/malformed", disguise: asks(func(q *onerun.PruneRequest) {
			if q.Partition == "" && q.Keep == 0 {
				q.Oldest = true
			}
		})},
		{name: "keys are forgotten without a reason", caught: "prune/malformed", disguise: asks(func(q *onerun.PruneRequest) {
			if q.Reason == "" {
				q.Reason = "none"
			}
		})},
		{name: "forgotten keys don't run again", caught: "forget/a key runs again", disguise: asks(func(q *onerun.PruneRequest) { q.ForgetKeys = false })},
		{name: "every key is forgotten", caught: "forget/a tombstone of one key", rules: never},
		{name: "tombstones are there for ever", caught: "forget/a tombstone of one key", disguise: as(func(p *pruner) { p.ask = p.onlyRuns })},
		{name: "tombstones are forgotten whatever their age", caught: "forget/tombstones by age", disguise: asks(func(q *onerun.PruneRequest) {
			if q.ForgetKeys {
				q.Oldest = true
			}
		})},
		{name: "tombstones after the last step", caught: "forget/step by step", disguise: as(func(p *pruner) {
			p.answer = func(a *onerun.Pruned) { a.More = a.More && a.Runs > a.Keys+a.Forgotten }
		})},
		{name: "a forgotten run is still there", caught: "forget/what the key was before", disguise: asks(func(q *onerun.PruneRequest) { q.ForgetKeys = false })},
	}
}

func alive(rs []onerun.Run) (out []onerun.Run) {
	for _, r := range rs {
		if r.Pruned.IsZero() {
			out = append(out, r)
		}
	}
	return out
}

// pruner prunes a little wrong.
type pruner struct {
	onerun.Store
	ask        func(*onerun.PruneRequest)
	answer     func(*onerun.Pruned)
	query      func(*onerun.Query)
	runs       func(onerun.Query, []onerun.Run) []onerun.Run
	detail     func(*onerun.Detail)
	newest     bool
	resolves   bool
	revives    bool
	leaves     bool
	skips      map[string][]onerun.Skip
	everywhere map[string]bool
	back       []onerun.Run
}

// onlyRuns asks for tombstones no more than for a key that isn't there.
func (p *pruner) onlyRuns(q *onerun.PruneRequest) {
	if rs, err := p.Store.Runs(context.Background(), onerun.Query{Namespace: q.Namespace}); err == nil && len(rs) == 0 {
		q.ForgetKeys = false
	}
}

func (p *pruner) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	if p.everywhere != nil {
		p.everywhere[c.Namespace] = true
	}
	return p.Store.Claim(ctx, c)
}

func (p *pruner) Prune(ctx context.Context, q onerun.PruneRequest) (onerun.Pruned, error) {
	if p.ask != nil {
		p.ask(&q)
	}
	before, err := p.Store.Runs(ctx, onerun.Query{Namespace: q.Namespace})
	if err != nil {
		return onerun.Pruned{}, err
	}
	if p.newest && q.Oldest && q.Limit == 1 && len(before) > 0 {
		q.Job, q.Partition = before[0].Job, before[0].Partition
	}
	got, err := p.Store.Prune(ctx, q)
	for ns := range p.everywhere {
		if ns != q.Namespace && err == nil {
			q := q
			q.Namespace = ns
			_, _ = p.Store.Prune(ctx, q)
		}
	}
	if p.leaves && err == nil && got.Runs > 0 {
		p.back = before
	}
	if p.answer != nil {
		p.answer(&got)
	}
	return got, err
}

func (p *pruner) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	if p.query != nil {
		p.query(&q)
	}
	rs, err := p.Store.Runs(ctx, q)
	if q.Pruned || !q.Pruned && p.revives {
		rs = append(rs, p.back...)
	}
	if p.runs != nil {
		rs = p.runs(q, rs)
	}
	return rs, err
}

func (p *pruner) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	d, err := p.Store.Detail(ctx, namespace, runID)
	if p.detail != nil {
		p.detail(&d)
	}
	return d, err
}

func (p *pruner) Resolve(ctx context.Context, q onerun.Resolution) (onerun.Run, error) {
	r, err := p.Store.Resolve(ctx, q)
	if p.resolves && errors.Is(err, onerun.ErrState) {
		return r, nil
	}
	return r, err
}

func (p *pruner) Approve(ctx context.Context, q onerun.ApprovalRequest) (onerun.Approval, error) {
	a, err := p.Store.Approve(ctx, q)
	if p.revives && errors.Is(err, onerun.ErrState) {
		if d, derr := p.Store.Detail(ctx, q.Namespace, q.RunID); derr == nil && !d.Run.Pruned.IsZero() {
			p.back = []onerun.Run{d.Run}
		}
	}
	return a, err
}

func (p *pruner) Skips(ctx context.Context, namespace, job, partition string) ([]onerun.Skip, error) {
	got, err := p.Store.Skips(ctx, namespace, job, partition)
	if p.skips == nil {
		return got, err
	}
	if key := onerun.MakeKey(job, partition); len(got) > len(p.skips[key]) {
		p.skips[key] = got
		return got, err
	}
	return p.skips[onerun.MakeKey(job, partition)], err
}
