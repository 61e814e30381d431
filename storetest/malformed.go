package storetest

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// malformedCases: a claim that says too little is refused as the caller's mistake,
// and leaves nothing behind.
func malformedCases() []check {
	return []check{
		{"malformed/claims", func(t *trial) {
			for what, change := range map[string]func(*onerun.Claim){
				"no lock":                 func(c *onerun.Claim) { c.Lock = "" },
				"no owner":                func(c *onerun.Claim) { c.Owner = "" },
				"no run id":               func(c *onerun.Claim) { c.RunID = "" },
				"no namespace":            func(c *onerun.Claim) { c.Namespace = "" },
				"an order that is none":   func(c *onerun.Claim) { c.Order = "lifo" },
				"a partition without job": func(c *onerun.Claim) { c.Job = "" },
			} {
				c := t.job("settle", day)
				change(&c)
				_, err := t.s.Claim(t.ctx, c)
				t.is(err, onerun.ErrUsage, "claim with %s", what)
			}
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns})), 0, "runs after malformed claims")
			equal(t, len(t.locks(t.ns)), 0, "locks after malformed claims")
			t.granted(t.job("settle", day))
		}},
		{"malformed/a lease out of range", func(t *trial) {
			for _, ttl := range []time.Duration{-time.Second, onerun.MaxTTL + time.Second} {
				c := t.job("settle", day)
				c.TTL = ttl
				g, err := t.s.Claim(t.ctx, c)
				if t.h.Leases {
					t.is(err, onerun.ErrUsage, "claim with a TTL of %s", ttl)
					continue
				}
				t.must(err, "claim with a TTL of %s on a store that has no use for it", ttl)
				t.must(t.s.Finish(t.ctx, g.Lease, failed), "finish")
				t.approve(t.run(g.Lease.RunID))
			}
		}},
		{"malformed/a run id that is taken", func(t *trial) {
			// It can only be a bug of the caller's; it must not cost the other run.
			g := t.granted(t.job("settle", day))
			before := t.look()
			for _, c := range []onerun.Claim{t.job("report", day), t.job("sweep", "")} {
				c.RunID = g.Lease.RunID
				if _, err := t.s.Claim(t.ctx, c); err == nil {
					t.failf("claim with another run's id: expected an error, got a grant")
				}
			}
			t.unchanged(before, t.look(), "a claim with another run's id")
			t.granted(t.job("report", day))
			t.granted(t.job("sweep", ""))
		}},
	}
}
