package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

// contentionCases: many clients at once, each in a process of its own where there
// can be one. A witness that the store knows nothing of says who worked when.
func contentionCases() []check {
	return []check{
		{"contention/one key", func(t *trial) {
			clients, witness := t.clients(t.h.Clients), t.witness()
			for round := range t.h.Rounds {
				c := t.job("settle", partition(round))
				equal(t, t.lives(clients, witness, c), 1, "clients of %d that executed %s", len(clients), c.Key())
			}
			t.onceEach(t.question(witness, nil), t.h.Rounds)
		}},
		{"contention/many keys under one lock", func(t *trial) {
			clients, witness := t.clients(t.h.Clients), t.witness()
			var keys []onerun.Claim
			for i := range 2 * t.h.Rounds {
				c := t.job(fmt.Sprintf("job-%d", i%3), partition(i))
				c.Lock, c.Asking = onerun.NamedLock("db"), true
				keys = append(keys, c)
			}
			t.works(clients, witness, keys)
			t.onceEach(t.question(witness, nil), len(keys))
		}},
		{"contention/many keys, each under its own lock", func(t *trial) {
			clients, witness := t.clients(t.h.Clients), t.witness()
			var keys []onerun.Claim
			for i := range 2 * t.h.Rounds {
				c := t.job("settle", partition(i))
				c.Lock, c.Asking = onerun.KeyLock(c.Key()), true
				keys = append(keys, c)
			}
			t.works(clients, witness, keys)
			t.onceEach(t.question(witness, nil), len(keys))
		}},
		{"contention/an unkeyed job and a lock alone", func(t *trial) {
			clients, witness := t.clients(t.h.Clients), t.witness()
			won := 0
			for range t.h.Rounds {
				won += t.lives(clients, witness, under(t.job("sweep", ""), onerun.NamedLock("db")))
				won += t.lives(clients, witness, t.lockOnly("db"))
			}
			if won < 2*t.h.Rounds {
				t.failf("executions of %d rounds: expected at least one each, got %d", 2*t.h.Rounds, won)
			}
			saw := 0
			for _, s := range t.question(witness, nil) {
				equal(t, s.ended, s.begun, "work that ended of that which began")
				saw += s.begun
			}
			equal(t, saw, won, "work that the witness saw of what was granted")
		}},
		{"contention/a double click (B40)", func(t *trial) {
			// Twenty approvals and twenty starts at the same moment: one rerun.
			stores := t.opens(4)
			c := t.job("settle", day)
			r := t.ended(c, succeeded)
			granted := make([]bool, 20)
			t.together(40, func(i int) error {
				s := stores[i%len(stores)]
				if i%2 == 0 {
					if _, err := s.Approve(t.ctx, approval(r)); err != nil && !errors.Is(err, onerun.ErrState) {
						return fmt.Errorf("approve: %w", err)
					}
					return nil
				}
				g, err := s.Claim(t.ctx, again(c))
				var ref *onerun.Refusal
				if errors.As(err, &ref) {
					return nil
				}
				granted[i/2] = err == nil
				if err == nil {
					err = s.Finish(t.ctx, g.Lease, succeeded)
				}
				return err
			})
			n := 0
			for _, ok := range granted {
				if ok {
					n++
				}
			}
			if n == 0 { // all starts came before the approval
				n = len(t.contend(stores, t.h.Clients, c))
			}
			equal(t, n, 1, "reruns")
			equal(t, len(t.detail(r.RunID).Attempts), 2, "attempts")
		}},
		{"contention/many jobs through one client (B30)", func(t *trial) {
			t.together(50, func(i int) error {
				c := t.job(fmt.Sprintf("job-%d", i), day)
				g, err := t.s.Claim(t.ctx, c)
				if err != nil {
					return fmt.Errorf("claim: %s", said(err))
				}
				if _, err := t.s.Heartbeat(t.ctx, g.Lease); err != nil {
					return fmt.Errorf("heartbeat: %w", err)
				}
				return t.s.Finish(t.ctx, g.Lease, succeeded)
			})
			equal(t, len(t.runs(onerun.Query{Namespace: t.ns, Statuses: []onerun.Status{onerun.Succeeded}})), 50, "runs that SUCCEEDED")
		}},
		{"contention/starts, operators and readers", func(t *trial) { t.bustle() }},
		{"contention/clients in other time zones (B24)", func(t *trial) {
			for _, tz := range []string{"Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Amsterdam", "Asia/Kathmandu"} {
				from := t.now()
				c := t.job("settle", "in-"+tz[len(tz)-4:])
				c.Lock = onerun.KeyLock(c.Key())
				g := t.client(spawn{TZ: tz}).granted(c)
				to := t.now()
				r := t.run(g.Lease.RunID)
				if r.StartedAt.Before(from.Add(-time.Second)) || r.StartedAt.After(to.Add(time.Second)) {
					t.failf("start by a client in %s: expected from %s to %s, got %s", tz, from, to, r.StartedAt)
				}
				if t.h.Leases {
					t.near(r.LeaseExpiresAt, r.StartedAt.Add(c.TTL), 2*rounding, "LeaseExpiresAt by a client in %s", tz)
				}
			}
		}},
	}
}

// lives lets every client live the same claim at once. It gives how many executed
// it; the others were refused for a reason that fits.
func (t *trial) lives(clients []*client, witness string, c onerun.Claim) int {
	replies := t.order(clients, func() order {
		return order{Op: "live", Claims: []onerun.Claim{again(c)}, Witness: witness}
	})
	won := 0
	fits := []onerun.Reason{onerun.RefusedRunning, onerun.RefusedLocked, onerun.RefusedSucceeded}
	for _, r := range replies {
		switch {
		case r.Grant != nil:
			won++
		case r.Refusal == nil || !slices.Contains(fits, r.Refusal.Reason):
			t.failf("claim %s, %d at once: expected to be granted or refused %v, got %s", nameOf(c), len(clients), fits, said(r.err()))
		}
	}
	return won
}

// works lets every client work until all keys are done.
func (t *trial) works(clients []*client, witness string, keys []onerun.Claim) {
	won := 0
	for _, r := range t.order(clients, func() order { return order{Op: "work", Claims: keys, Witness: witness} }) {
		if err := r.err(); err != nil {
			t.failf("%d keys, %d clients: expected that all get done, got %s", len(keys), len(clients), said(err))
		}
		won += r.Won
	}
	equal(t, won, len(keys), "claims that were won")
}

// order gives every client an order at once. One that meets an error stops the
// others, which might wait for ever for what it left undone.
func (t *trial) order(clients []*client, o func() order) []reply {
	replies := make([]reply, len(clients))
	var once sync.Once
	var first error
	t.together(len(clients), func(i int) error {
		r, err := clients[i].do(o())
		if r.Err != "" {
			err = errors.New(r.Err)
		}
		if err != nil {
			once.Do(func() {
				first = err
				for _, c := range clients {
					c.stop()
				}
			})
		}
		replies[i] = r
		return nil
	})
	if first != nil {
		t.failf("%d clients at once: expected no error, got %w", len(clients), first)
	}
	return replies
}

func (t *trial) onceEach(saw map[string]seen, keys int) {
	equal(t, len(saw), keys, "keys that were executed")
	for name, s := range saw {
		equal(t, s, seen{1, 1}, "executions (begun, ended) of %s", name)
	}
}

// bustle does everything at once. Every answer must be one that the contract
// allows, and the ledger must hold together afterwards.
func (t *trial) bustle() {
	stores := t.opens(4)
	allowed := func(what string, err error) error {
		var ref *onerun.Refusal
		if err == nil || errors.As(err, &ref) || errors.Is(err, onerun.ErrState) || errors.Is(err, onerun.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	newest := func(s onerun.Store) (onerun.Run, error) {
		rs, err := s.Runs(t.ctx, onerun.Query{Namespace: t.ns, Job: "settle", Limit: 1})
		if err != nil || len(rs) == 0 {
			return onerun.Run{}, err
		}
		return rs[0], nil
	}
	start := func(s onerun.Store, i int) error {
		g, err := s.Claim(t.ctx, retrying(t.job("settle", partition(i%3)), 2, 0))
		if err != nil {
			return allowed("claim", err)
		}
		o := succeeded
		if i%2 == 0 {
			o = failed
		}
		return s.Finish(t.ctx, g.Lease, o)
	}
	decide := func(s onerun.Store, i int) error {
		r, err := newest(s)
		if err != nil || r.RunID == "" {
			return err
		}
		if i%2 == 0 {
			_, err = s.Approve(t.ctx, approval(r))
		} else {
			_, err = s.Resolve(t.ctx, resolution(r, onerun.Skipped))
		}
		return allowed("approve or resolve", err)
	}
	pause := func(s onerun.Store, i int) error {
		if i%2 == 0 {
			return allowed("pause", s.Pause(t.ctx, t.pauseOf("settle")))
		}
		return allowed("resume", s.Resume(t.ctx, t.pauseOf("settle")))
	}
	read := func(s onerun.Store, i int) error {
		r, err := newest(s)
		if err == nil && r.RunID != "" {
			_, err = s.Detail(t.ctx, t.ns, r.RunID)
		}
		if err == nil {
			_, err = s.Locks(t.ctx, t.ns)
		}
		if err == nil {
			_, err = s.Explain(t.ctx, t.job("settle", partition(i%3)))
		}
		return err
	}
	acts := []func(onerun.Store, int) error{start, start, start, decide, decide, pause, read, read}
	t.together(len(acts), func(i int) error {
		for n := range 2 * t.h.Rounds {
			if err := acts[i](stores[(i+n)%len(stores)], i+n); err != nil {
				return err
			}
		}
		return nil
	})
}
