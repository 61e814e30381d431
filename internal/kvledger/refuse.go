package kvledger

import (
	"context"

	"github.com/onerun-dev/onerun"
)

// refuse records a refusal, with what was settled on the way, and returns it.
func (t *tx) refuse(c onerun.Claim, v onerun.Verdict, taken []onerun.Run) error {
	ref := refusal(c, v, t)
	ref.Closed = taken
	asksAgain := c.Asking && (v.Reason == onerun.RefusedRunning || v.Reason == onerun.RefusedLocked)
	if c.Job == "" || asksAgain {
		if len(t.writes) > 0 {
			if _, err := t.commit("close what is dead"); err != nil {
				return err
			}
			return ref
		}
		if err := t.sure(); err != nil {
			return err
		}
		return ref
	}
	skip := onerun.Skip{
		Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Reason: v.Reason,
		Holder: v.Holder.ID(), Detail: v.Holder.String(), Count: 1, FirstAt: t.now, LastAt: t.now,
	}
	ks, kn := keySkip(skip, c.Partition), keySkips(c.Namespace, c.Job, c.Partition, skip.Holder)
	if err := t.read(ks, kn); err != nil {
		return err
	}
	old, err := load[onerun.Skip](t, ks)
	if err != nil {
		return err
	}
	if old != nil {
		skip.Count, skip.FirstAt = old.Count+1, old.FirstAt
		if old.LastAt.After(t.now) { // each claimant has its own reckoning of the server's clock
			skip.LastAt = old.LastAt
		}
	}
	n, err := load[countRecord](t, kn)
	if err != nil {
		return err
	}
	if n == nil {
		n = &countRecord{}
	}
	n.Count++
	t.put(ks, skip)
	t.put(kn, n)
	ref.Count = skip.Count
	if _, err := t.commit("record a refusal"); err != nil {
		return err
	}
	return ref
}

func refusal(c onerun.Claim, v onerun.Verdict, t *tx) *onerun.Refusal {
	return &onerun.Refusal{
		Reason: v.Reason, Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock,
		Holder: v.Holder, RetryAt: v.RetryAt, At: t.now,
	}
}

// Explain implements onerun.Ledger. What a claim would settle first (a dead owner
// under policy auto) is taken into account, and left as it is.
func (l *Ledger) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	return l.ExplainKnowing(ctx, c, onerun.HostKnowledge{})
}

// ExplainKnowing implements onerun.HostClaimer.
func (l *Ledger) ExplainKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (ref *onerun.Refusal, err error) {
	if c.Order != onerun.OrderAny {
		return nil, l.noOrder()
	}
	err = l.decide(ctx, "explain", nil, func(t *tx) error {
		ref = nil
		s, err := t.look(c, k)
		if err != nil {
			return err
		}
		if _, err := t.settle(&s); err != nil { // in this transaction alone, which is not committed
			return err
		}
		if v := onerun.Decide(s.facts()); v.Reason != "" {
			ref = refusal(c, v, t)
		}
		return t.sure()
	})
	return ref, err
}
