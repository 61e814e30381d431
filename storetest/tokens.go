package storetest

import (
	"time"

	"github.com/onerun-dev/onerun"
)

// tokenCases: a fencing token is larger for every later claim under the same lock,
// for ever: whoever writes with it can be told from whoever came later.
func tokenCases() []check {
	return []check{
		{"tokens/grow across runs, jobs and attempts", func(t *trial) {
			db := onerun.NamedLock("db")
			seen := &tokens{t: t}
			for i := range 4 {
				// Under one lock: a key's attempts, another key, another job, an
				// unkeyed job, and the lock alone.
				c := under(retrying(t.job("settle", partition(i)), 1, 0), db)
				t.finish(seen.claim(c), failed)
				t.finish(seen.claim(again(c)), succeeded)
				t.finish(seen.claim(under(t.job("report", partition(i)), db)), succeeded)
				t.finish(seen.claim(under(t.job("sweep", ""), db)), failed)
				t.finish(seen.claim(t.lockOnly("db")), succeeded)
			}
		}},
		{"tokens/grow across clients", func(t *trial) {
			seen := &tokens{t: t}
			for _, s := range t.opens(4) {
				g := t.grantedBy(s, t.job("sweep", ""))
				seen.see(g)
				t.must(s.Finish(t.ctx, g.Lease, succeeded), "finish")
			}
		}},
		{"tokens/grow across a takeover", func(t *trial) {
			late, next := t.takenOver(t.job("settle", day))
			seen := &tokens{t: t}
			seen.see(late)
			seen.see(next)
			equal(t, t.attempt(next.Lease.RunID, 1).Token, late.Lease.Token, "token that is kept with attempt 1")
			equal(t, t.attempt(next.Lease.RunID, 2).Token, next.Lease.Token, "token that is kept with attempt 2")
		}},
		{"tokens/grow across a lock that nobody held for long", func(t *trial) {
			seen := &tokens{t: t}
			c := t.lockOnly("db")
			for range 20 { // faster than the clock's milliseconds: ahead of it
				t.finish(seen.claim(again(c)), succeeded)
			}
			t.pass(t.scale(24*time.Hour, 50*time.Millisecond))
			seen.claim(again(c))
		}},
		{"tokens/grow when the clock goes back", func(t *trial) {
			seen := &tokens{t: t}
			c := t.lockOnly("db")
			t.finish(seen.claim(c), succeeded)
			if t.h.Advance != nil { // only a clock that can be moved goes back on purpose
				t.pass(-time.Hour)
				defer t.pass(time.Hour)
			}
			g := seen.claim(again(c))
			if l, ok := t.locked(c.Lock); !ok || l.Token != g.Lease.Token {
				t.failf("the listing of locks: expected %s with token %d, got %v %d", c.Lock, g.Lease.Token, ok, l.Token)
			}
		}},
		{"tokens/not under the store's time", func(t *trial) {
			// A lock whose history was lost goes on above it. Every grant of the suite
			// is checked for it; here is a lock that never was.
			t.pass(t.scale(time.Hour, time.Millisecond))
			g := t.granted(t.lockOnly("never-was"))
			if ms := g.At.UnixMilli(); g.Lease.Token < ms {
				t.failf("token of a new lock: expected at least %d, got %d", ms, g.Lease.Token)
			}
		}},
	}
}

// tokens checks that each one is larger than the one before.
type tokens struct {
	t    *trial
	last int64
}

func (k *tokens) claim(c onerun.Claim) onerun.Grant {
	g := k.t.granted(c)
	k.see(g)
	return g
}

func (k *tokens) see(g onerun.Grant) {
	if g.Lease.Token <= k.last {
		k.t.failf("token under %s: expected more than %d, got %d", g.Lease.Lock, k.last, g.Lease.Token)
	}
	k.last = g.Lease.Token
}
