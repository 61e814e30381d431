package storetest_test

import (
	"context"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

func hostBugs() []bug {
	// forgets is a store that loses a part of what it is told.
	forgets := func(lose func(k *onerun.HostKnowledge)) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store { return forgetful{s, s.(onerun.HostClaimer), lose} }
	}
	dead := func(change func(d *onerun.DeadOwner)) func(k *onerun.HostKnowledge) {
		return func(k *onerun.HostKnowledge) {
			for i := range k.Dead {
				change(&k.Dead[i])
			}
		}
	}
	return []bug{
		{name: "who stands in the way is passed by", caught: "hosts/nothing is granted where somebody stands in the way", disguise: forgets(func(k *onerun.HostKnowledge) { k.Held = nil })},
		{name: "a stale one is waited for", caught: "hosts/nothing is granted where somebody stands in the way", disguise: forgets(func(k *onerun.HostKnowledge) { k.HeldStale = false })},
		{name: "who stands in the way comes before the table", caught: "hosts/the table comes first", disguise: func(s onerun.Store) onerun.Store { return hostFirst{s, s.(onerun.HostClaimer)} }},
		{name: "the host's word hides the owner", caught: "hosts/who has the lock in the store comes first", disguise: func(s onerun.Store) onerun.Store { return hostFirst{s, s.(onerun.HostClaimer)} }},
		{name: "a living owner is closed", caught: "hosts/an owner that lives keeps what it has", disguise: forgets(func(k *onerun.HostKnowledge) { k.HeldOwner = "" })},
		{name: "the dead are left", caught: "hosts/who is proven dead is closed", disguise: forgets(func(k *onerun.HostKnowledge) { k.Dead = nil })},
		{name: "one death proves them all", caught: "hosts/who is proven dead is closed", rules: memory.Rules{Dead: func(onerun.Lease) bool { return true }}},
		{name: "the evidence is lost", caught: "hosts/who is proven dead is closed", disguise: forgets(dead(func(d *onerun.DeadOwner) { d.Evidence = "" }))},
		{name: "proof outdoes manual", caught: "hosts/manual is left to a person", disguise: forgets(dead(func(d *onerun.DeadOwner) { d.Void = true }))},
		{name: "nothing costs a retry", caught: "hosts/a start that came to nothing", disguise: forgets(dead(func(d *onerun.DeadOwner) { d.Void = false }))},
		{name: "a lost reply comes past who is in the way", caught: "hosts/a lost reply, and somebody in the way", disguise: func(s onerun.Store) onerun.Store { return adopts{s, s.(onerun.HostClaimer)} }},
		{name: "a host isn't heard", caught: "hosts/who is proven dead is closed", disguise: func(s onerun.Store) onerun.Store { return struct{ onerun.Store }{s} }},
	}
}

type forgetful struct {
	onerun.Store
	onerun.HostClaimer
	lose func(k *onerun.HostKnowledge)
}

func (f forgetful) ClaimKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	f.lose(&k)
	return f.HostClaimer.ClaimKnowing(ctx, c, k)
}

// hostFirst refuses whatever it is asked while somebody stands in the way.
type hostFirst struct {
	onerun.Store
	onerun.HostClaimer
}

func (h hostFirst) ClaimKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	if k.Held == nil {
		return h.HostClaimer.ClaimKnowing(ctx, c, k)
	}
	ref := &onerun.Refusal{Reason: onerun.RefusedLocked, Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock, Holder: *k.Held}
	if k.HeldStale {
		ref.Reason = onerun.RefusedStale
	}
	return onerun.Grant{}, ref
}

// adopts gives an owner its grant back, whoever is in the way.
type adopts struct {
	onerun.Store
	onerun.HostClaimer
}

func (a adopts) ClaimKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	if g, err := a.Claim(ctx, c); err == nil {
		return g, nil
	}
	return a.HostClaimer.ClaimKnowing(ctx, c, k)
}
