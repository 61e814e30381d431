package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/text/unicode/norm"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

func nameBugs() []bug {
	named := func(fold func(string) string) memory.Rules { return memory.Rules{Name: fold} }
	return []bug{
		{name: "names in lower case", caught: "names/jobs that differ", rules: named(strings.ToLower)},
		{name: "unkeyed names in lower case", caught: "names/unkeyed jobs that differ", rules: named(strings.ToLower)},
		{name: "names by a collation", caught: "names/partitions that differ", rules: named(func(s string) string {
			return strings.Map(func(r rune) rune {
				if r >= 0x300 && r < 0x370 {
					return -1
				}
				return r
			}, norm.NFD.String(s))
		})},
		{name: "names in compatibility form", caught: "names/jobs that differ", rules: named(norm.NFKC.String)},
		{name: "names with ss for sharp s", caught: "names/locks that differ", rules: named(func(s string) string { return strings.ReplaceAll(s, "ß", "ss") })},
		{name: "names cut at 64 bytes", caught: "names/jobs that differ", rules: named(cut(64))},
		{name: "names cut at 255 bytes", caught: "names/jobs that differ", rules: named(cut(255))},
		{name: "names without their last dot", caught: "names/jobs that differ", rules: named(func(s string) string { return strings.TrimSuffix(s, ".") })},
		{name: "names as a file system takes them", caught: "names/locks that differ", rules: named(strings.NewReplacer(".", "_", "-", "_").Replace)},
		{name: "namespaces in lower case", caught: "names/namespaces that differ", rules: memory.Rules{Namespace: strings.ToLower}},
		{name: "namespaces cut at 64 bytes", caught: "names/namespaces that differ", rules: memory.Rules{Namespace: cut(64)}},
		{name: "namespaces are ignored", caught: "namespaces/the same job in two", rules: memory.Rules{Namespace: func(string) string { return "" }}},
		{name: "the kind of a lock is ignored", caught: "locks/three kinds of one name", rules: named(func(s string) string {
			if _, n, ok := strings.Cut(s, "/"); ok {
				return n
			}
			return s
		})},
		{name: "every lock is the job's", caught: "locks/one shared by two jobs", disguise: func(s onerun.Store) onerun.Store { return jobLocks{s} }},
	}
}

func cut(n int) func(string) string {
	return func(s string) string { return s[:min(len(s), n)] }
}

// jobLocks takes no notice of the lock that a job asks for.
type jobLocks struct{ onerun.Store }

func (j jobLocks) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	lock := c.Lock
	if c.Job != "" {
		c.Lock = onerun.JobLock(c.Job)
	}
	g, err := j.Store.Claim(ctx, c)
	var ref *onerun.Refusal
	if errors.As(err, &ref) {
		ref.Lock = lock
	}
	g.Lease.Lock, g.Run.Lock = lock, lock
	return g, err
}

func operatorBugs() []bug {
	return []bug{
		{name: "a live run may be resolved", caught: "resolve/a live run is left alone", rules: memory.Rules{Resolve: func(r *onerun.Run, as onerun.Status, _ bool) error { return onerun.ResolveAllowed(r, as, true) }}},
		{name: "anything may be resolved", caught: "resolve/the whole matrix", rules: memory.Rules{Resolve: func(*onerun.Run, onerun.Status, bool) error { return nil }}},
		{name: "a dead run can't be resolved", caught: "resolve/the whole matrix", rules: memory.Rules{Resolve: func(r *onerun.Run, as onerun.Status, _ bool) error { return onerun.ResolveAllowed(r, as, false) }}},
		{name: "the expectation is ignored", caught: "transitions/resolve with an outdated expectation", rules: memory.Rules{Expected: func(onerun.Run, onerun.Expect) bool { return true }}},
		{name: "the expectation is the status alone", caught: "approvals/an outdated expectation", rules: memory.Rules{Expected: func(r onerun.Run, e onerun.Expect) bool { return r.Status == e.Status }}},
		{name: "a job can be paused twice", caught: "pause/twice", disguise: func(s onerun.Store) onerun.Store { return pausesTwice{s} }},
		{name: "who and why are lost", caught: "resolve/who and why are kept", disguise: func(s onerun.Store) onerun.Store { return anonymous{s} }},
		{name: "a run can be approved twice", caught: "approvals/one open at a time", disguise: func(s onerun.Store) onerun.Store { return approvesTwice{s} }},
		{name: "operators act in every namespace", caught: "namespaces/nothing is decided across", disguise: func(s onerun.Store) onerun.Store { return &everywhere{Store: s} }},
	}
}

type pausesTwice struct{ onerun.Store }

func (p pausesTwice) Pause(ctx context.Context, q onerun.PauseRequest) error {
	_ = p.Store.Pause(ctx, q)
	return nil
}

type anonymous struct{ onerun.Store }

func (a anonymous) Resolve(ctx context.Context, q onerun.Resolution) (onerun.Run, error) {
	q.By, q.Reason = "", ""
	return a.Store.Resolve(ctx, q)
}

type approvesTwice struct{ onerun.Store }

func (a approvesTwice) Approve(ctx context.Context, q onerun.ApprovalRequest) (onerun.Approval, error) {
	got, err := a.Store.Approve(ctx, q)
	if errors.Is(err, onerun.ErrState) {
		d, derr := a.Detail(ctx, q.Namespace, q.RunID)
		if derr == nil && len(d.Approvals) > 0 {
			return d.Approvals[len(d.Approvals)-1], nil
		}
	}
	return got, err
}

// everywhere finds a run by its id, whatever the namespace.
type everywhere struct {
	onerun.Store
	home atomic.Value
}

func (e *everywhere) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	e.home.Store(c.Namespace)
	return e.Store.Claim(ctx, c)
}

func (e *everywhere) Approve(ctx context.Context, q onerun.ApprovalRequest) (onerun.Approval, error) {
	q.Namespace, _ = e.home.Load().(string)
	return e.Store.Approve(ctx, q)
}

func ledgerBugs() []bug {
	n := int64(0)
	as := func(f func(b broken) broken) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store { return f(broken{Store: s}) }
	}
	return []bug{
		{name: "a refusal creates a run", caught: "skips/a refused start creates nothing", rules: memory.Rules{RefusalCreates: func(onerun.Claim) bool { return true }}},
		{name: "equal refusals aren't one row", caught: "skips/counted in one row", rules: memory.Rules{SkipKey: func(s onerun.Skip) onerun.Skip {
			n++
			s.Count = n
			return s
		}}},
		{name: "refusals are one row whoever holds", caught: "skips/by key, reason and holder", rules: memory.Rules{SkipKey: func(s onerun.Skip) onerun.Skip {
			return onerun.Skip{Namespace: s.Namespace, Job: s.Job, Key: s.Key, Reason: s.Reason}
		}}},
		{name: "whoever asks is recorded", caught: "skips/asking records neither running nor locked", disguise: as(func(b broken) broken {
			b.claim = func(c *onerun.Claim) { c.Asking = false }
			return b
		})},
		{name: "nobody is recorded", caught: "skips/asking records neither running nor locked", disguise: as(func(b broken) broken {
			b.refusal = func(r *onerun.Refusal) { r.Count = 0 }
			return b
		})},
		{name: "Explain claims", caught: "rows/8 claimed", disguise: as(func(b broken) broken { b.explain = 1; return b })},
		{name: "Explain records", caught: "rows/2 succeeded", disguise: as(func(b broken) broken { b.explain = 2; return b })},
		{name: "Explain says yes", caught: "rows/7 locked", disguise: as(func(b broken) broken { b.explain = 3; return b })},
		{name: "the oldest first", caught: "reads/runs, newest first, by every filter", disguise: as(func(b broken) broken {
			b.runs = func(rs []onerun.Run) []onerun.Run { slices.Reverse(rs); return rs }
			return b
		})},
		{name: "the limit before the filter", caught: "reads/runs, newest first, by every filter", disguise: as(func(b broken) broken {
			b.runs = func(rs []onerun.Run) []onerun.Run { return rs[:max(0, len(rs)-1)] }
			return b
		})},
		{name: "skips are missing", caught: "reads/a run in full", disguise: as(func(b broken) broken {
			b.detail = func(d *onerun.Detail) { d.Skips = nil }
			return b
		})},
		{name: "attempts are missing", caught: "rows/2 succeeded", disguise: as(func(b broken) broken {
			b.detail = func(d *onerun.Detail) { d.Attempts = nil }
			return b
		})},
		{name: "a resolution rewrites the attempt", caught: "resolve/what the attempt recorded stays", disguise: as(func(b broken) broken {
			b.detail = func(d *onerun.Detail) {
				for i := range d.Attempts {
					d.Attempts[i].Status = d.Run.Status
				}
			}
			return b
		})},
		{name: "stale is never shown", caught: "leases/age alone is no proof", disguise: as(func(b broken) broken {
			b.detail = func(d *onerun.Detail) { d.Run.Stale = false }
			return b
		})},
		{name: "a repeated grant has a new token", caught: "replies/a claim repeated is the same grant", disguise: as(func(b broken) broken {
			b.grant = func(g *onerun.Grant) {
				if g.Adopted {
					g.Lease.Token++
					g.Run.Token++
				}
			}
			return b
		})},
		{name: "labels are lost", caught: "kept/what the claim said", disguise: as(func(b broken) broken {
			b.claim = func(c *onerun.Claim) { c.Labels = nil }
			return b
		})},
		{name: "times in whole seconds of another zone", caught: "kept/what the claim said", disguise: as(func(b broken) broken {
			b.claim = func(c *onerun.Claim) { c.ScheduledAt = c.ScheduledAt.Add(9 * time.Hour) }
			return b
		})},
		{name: "text that the store can't hold is an error", caught: "kept/the status, whatever the text (B35)", disguise: as(func(b broken) broken {
			b.outcome = func(o *onerun.Outcome) error {
				if strings.ContainsRune(o.Error, 0) {
					return &onerun.StoreError{Kind: onerun.ErrIO, What: "invalid byte sequence"}
				}
				return nil
			}
			return b
		})},
		{name: "a job that never started costs a retry", caught: "retries/none is spent by a job that was never started", disguise: as(func(b broken) broken {
			b.outcome = func(o *onerun.Outcome) error { o.Void = false; return nil }
			return b
		})},
		{name: "a cancelled context is no matter", caught: "reads/a cancelled context", disguise: as(func(b broken) broken { b.deaf = true; return b })},
		{name: "locks aren't listed", caught: "locks/are listed with their holders", disguise: as(func(b broken) broken { b.nolocks = true; return b })},
		{name: "a refusal hides its holder", caught: "rows/1 running", disguise: as(func(b broken) broken {
			b.refusal = func(r *onerun.Refusal) { r.Holder = onerun.Holder{} }
			return b
		})},
		{name: "who was taken over is not said", caught: "crash policy/an unkeyed job starts its next run", disguise: as(func(b broken) broken {
			b.grant = func(g *onerun.Grant) { g.TakenOver = nil }
			return b
		})},
	}
}

// broken answers a little wrong.
type broken struct {
	onerun.Store
	claim   func(*onerun.Claim)
	grant   func(*onerun.Grant)
	refusal func(*onerun.Refusal)
	outcome func(*onerun.Outcome) error
	runs    func([]onerun.Run) []onerun.Run
	detail  func(*onerun.Detail)
	explain int // 1: claims; 2: records; 3: says yes
	deaf    bool
	nolocks bool
}

func (b broken) hear(ctx context.Context) context.Context {
	if b.deaf {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (b broken) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	if b.claim != nil {
		b.claim(&c)
	}
	g, err := b.Store.Claim(b.hear(ctx), c)
	var ref *onerun.Refusal
	if errors.As(err, &ref) && b.refusal != nil {
		b.refusal(ref)
	}
	if err == nil && b.grant != nil {
		b.grant(&g)
	}
	return g, err
}

func (b broken) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if b.outcome != nil {
		if err := b.outcome(&o); err != nil {
			return err
		}
	}
	return b.Store.Finish(b.hear(ctx), l, o)
}

func (b broken) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	switch b.explain {
	case 1, 2:
		g, err := b.Store.Claim(ctx, c)
		var ref *onerun.Refusal
		if errors.As(err, &ref) {
			if b.explain == 2 {
				ref.Count = 0
			}
			return ref, nil
		}
		if b.explain == 2 && err == nil { // give it back
			_ = b.Store.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Skipped})
		}
		return nil, err
	case 3:
		return nil, nil
	}
	return b.Store.Explain(ctx, c)
}

func (b broken) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	rs, err := b.Store.Runs(ctx, q)
	if b.runs != nil {
		rs = b.runs(rs)
	}
	return rs, err
}

func (b broken) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	d, err := b.Store.Detail(ctx, namespace, runID)
	if b.detail != nil {
		b.detail(&d)
	}
	return d, err
}

func (b broken) Locks(ctx context.Context, namespace string) ([]onerun.LockState, error) {
	if b.nolocks {
		return nil, nil
	}
	return b.Store.Locks(ctx, namespace)
}
