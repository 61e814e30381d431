package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
)

// itemCases: an item is done once ever for a namespace and job, whichever run comes to it.
func itemCases() []check {
	return []check{
		{"items/done once", func(t *trial) {
			g := t.granted(t.job("settle", day))
			it := t.begun(g, "order-1")
			equal(t, it.State, onerun.ItemStarted, "State")
			equal(t, it.Tries, 1, "Tries")
			equal(t, it.RunID, g.Lease.RunID, "RunID")
			equal(t, it.Job, "settle", "Job")
			t.itemEnds(it, onerun.ItemDone)
			t.itemRefused(g, "order-1", onerun.RefusedDone)
			t.begun(g, "order-2") // another is another
			t.finish(g, succeeded)
			next := t.granted(t.job("settle", "2026-09-16"))
			t.itemRefused(next, "order-1", onerun.RefusedDone)
			equal(t, t.item("settle", "order-1").Tries, 1, "Tries after two refusals")
		}},
		{"items/of each job and namespace", func(t *trial) {
			g := t.granted(t.job("settle", day))
			t.itemEnds(t.begun(g, "order-1"), onerun.ItemDone)
			t.begun(t.granted(t.job("report", day)), "order-1")
			t.begun(t.granted(t.inside(1).job("settle", day)), "order-1")
		}},
		{"items/by bytes", func(t *trial) {
			g := t.granted(t.job("settle", day))
			names := []string{"order-1", "Order-1", "order-10", "order 1", "주문-1", "a/b:c@d.e?f=%&'\"; --", strings.Repeat("x", onerun.MaxItem), strings.Repeat("x", onerun.MaxItem-1)}
			for _, name := range names {
				t.itemEnds(t.begun(g, name), onerun.ItemDone)
				t.itemRefused(g, name, onerun.RefusedDone)
				equal(t, t.item("settle", name).Name, name, "Name")
			}
			equal(t, len(t.itemsOf(onerun.ItemQuery{Job: "settle"})), len(names), "items")
		}},
		{"items/failed is begun again", func(t *trial) {
			g := t.granted(t.job("settle", day))
			it := t.begun(g, "order-1")
			code := 3
			e := ending(it, onerun.ItemFailed)
			e.ExitCode, e.Signal, e.Error = &code, "SIGTERM", "no such order\x00"
			t.must(t.s.EndItem(t.ctx, e), "end an item")
			seen := t.item("settle", "order-1")
			equal(t, seen.State, onerun.ItemFailed, "State")
			equal(t, *seen.ExitCode, 3, "ExitCode")
			equal(t, seen.Signal, "SIGTERM", "Signal")
			equal(t, seen.Error, onerun.CutError(e.Error), "Error")
			equal(t, seen.FinishedAt.IsZero(), false, "whether FinishedAt is empty")
			it = t.begun(g, "order-1")
			equal(t, it.Tries, 2, "Tries")
			equal(t, it.ExitCode == nil && it.Error+it.Signal == "" && it.FinishedAt.IsZero(), true, "whether the last try's end is gone")
			t.itemEnds(it, onerun.ItemDone)
			t.itemRefused(g, "order-1", onerun.RefusedDone)
		}},
		{"items/one at a time", func(t *trial) {
			g := t.granted(t.job("settle", day))
			it := t.begun(g, "order-1")
			busy := t.itemRefused(g, "order-1", onerun.RefusedRunning)
			equal(t, busy.Owner, it.Owner, "the owner that stands in the way")
			other := t.granted(keyScope(t.job("settle", "2026-09-16")))
			t.itemRefused(other, "order-1", onerun.RefusedRunning)

			stores := t.opens(t.h.Clients)
			var begun int
			errs := make([]error, len(stores))
			t.together(len(stores), func(i int) error {
				_, errs[i] = stores[i].BeginItem(t.ctx, part(g, "order-2"))
				return nil
			})
			for _, err := range errs {
				var refusal *onerun.ItemRefusal
				switch {
				case err == nil:
					begun++
				case !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedRunning:
					t.failf("of several that begin one item: expected a refusal %s, got: %w", onerun.RefusedRunning, err)
				}
			}
			equal(t, begun, 1, "how many have begun it")
		}},
		{"items/a lost reply", func(t *trial) {
			g := t.granted(t.job("settle", day))
			c := part(g, "order-1")
			first, err := t.s.BeginItem(t.ctx, c)
			t.must(err, "begin")
			second, err := t.s.BeginItem(t.ctx, c)
			t.must(err, "begin again with the same owner id")
			equal(t, second.Tries, first.Tries, "Tries")
			t.itemEnds(first, onerun.ItemDone)
			t.itemEnds(first, onerun.ItemDone)
			t.is(t.s.EndItem(t.ctx, ending(first, onerun.ItemFailed)), onerun.ErrLost, "another end")
			t.itemRefused(g, "order-1", onerun.RefusedDone)
		}},
		{"items/its owner's alone", func(t *trial) {
			g := t.granted(t.job("settle", day))
			it := t.begun(g, "order-1")
			for name, change := range map[string]func(*onerun.ItemEnd){
				"owner":     func(e *onerun.ItemEnd) { e.Owner = onerun.NewID() },
				"name":      func(e *onerun.ItemEnd) { e.Name = "order-2" },
				"job":       func(e *onerun.ItemEnd) { e.Job = "report" },
				"namespace": func(e *onerun.ItemEnd) { e.Namespace += "x" },
			} {
				e := ending(it, onerun.ItemDone)
				change(&e)
				t.is(t.s.EndItem(t.ctx, e), onerun.ErrLost, "the end of an item with another %s", name)
			}
			equal(t, t.item("settle", "order-1").State, onerun.ItemStarted, "State")
			t.is(t.s.EndItem(t.ctx, ending(it, "maybe")), onerun.ErrUsage, "an end that there isn't")
		}},
		{"items/under the run's lease alone", func(t *trial) {
			g := t.granted(t.job("settle", day))
			for name, change := range map[string]func(*onerun.Lease){
				"token":     func(l *onerun.Lease) { l.Token++ },
				"owner":     func(l *onerun.Lease) { l.Owner = onerun.NewID() },
				"attempt":   func(l *onerun.Lease) { l.Attempt++ },
				"run":       func(l *onerun.Lease) { l.RunID = onerun.NewRunID(t.now()) },
				"namespace": func(l *onerun.Lease) { l.Namespace += "x" },
			} {
				c := part(g, "order-1")
				change(&c.Lease)
				_, err := t.s.BeginItem(t.ctx, c)
				t.is(err, onerun.ErrLost, "an item under a lease with another %s", name)
			}
			t.finish(g, succeeded)
			_, err := t.s.BeginItem(t.ctx, part(g, "order-1"))
			t.is(err, onerun.ErrLost, "an item after the run's end")
			late, _ := t.takenOver(t.job("report", day))
			_, err = t.s.BeginItem(t.ctx, part(late, "order-1"))
			t.is(err, onerun.ErrLost, "an item of an owner that was taken over")
			equal(t, len(t.itemsOf(onerun.ItemQuery{})), 0, "items")
		}},
		{"items/another payload", func(t *trial) {
			g := t.granted(t.job("settle", day))
			c := part(g, "order-1")
			c.Payload = "sha256:aa"
			it, err := t.s.BeginItem(t.ctx, c)
			t.must(err, "begin")
			equal(t, it.Payload, "sha256:aa", "Payload")
			other := part(g, "order-1")
			other.Payload = "sha256:bb"
			for _, state := range []onerun.ItemState{onerun.ItemStarted, onerun.ItemFailed, onerun.ItemDone} {
				if state != onerun.ItemStarted {
					t.itemEnds(it, state)
				}
				t.itemRefusal(other, onerun.RefusedConflict)
				if state == onerun.ItemFailed { // without one it is taken for the same
					it = t.begun(g, "order-1")
					equal(t, it.Payload, "sha256:aa", "Payload of the second try")
				}
			}
			t.itemRefused(g, "order-1", onerun.RefusedDone)
		}},
		{"items/the longest payload", func(t *trial) {
			g := t.granted(t.job("settle", day))
			c := part(g, "order-1")
			c.Payload = strings.Repeat("\xff", onerun.MaxPayload)
			it, err := t.s.BeginItem(t.ctx, c)
			t.must(err, "begin, with the longest payload")
			equal(t, it.Payload == c.Payload, true, "the payload is kept")
			longer := part(g, "order-2")
			longer.Payload = c.Payload + "x"
			_, err = t.s.BeginItem(t.ctx, longer)
			t.is(err, onerun.ErrUsage, "begin, with a longer one")
			again := part(g, "order-1")
			again.Payload = c.Payload
			t.itemEnds(it, onerun.ItemDone)
			t.itemRefusal(again, onerun.RefusedDone)
		}},
		{"items/a payload of bytes", func(t *trial) {
			g := t.granted(t.job("settle", day))
			for i, payload := range []string{"\xff\xfe", "\xff\xfd", "a\x00b", "text", "text ", "\\xff", "é"} {
				c := part(g, fmt.Sprint("order-", i))
				c.Payload = payload
				it, err := t.s.BeginItem(t.ctx, c)
				t.must(err, "begin")
				equal(t, it.Payload, payload, "Payload")
				t.itemEnds(it, onerun.ItemFailed)
				other := part(g, c.Name)
				other.Payload = "\xff\xfc"
				t.itemRefusal(other, onerun.RefusedConflict)
				again := part(g, c.Name)
				again.Payload = payload
				it, err = t.s.BeginItem(t.ctx, again)
				t.must(err, "begin again, with the same payload")
				equal(t, it.Payload, payload, "Payload of the second try")
				t.itemEnds(it, onerun.ItemDone)
			}
		}},
		{"items/an owner that died", func(t *trial) {
			c := retrying(t.job("settle", day), 5, 0)
			c.RetryLost = true
			g := t.orphan(c)
			auto, byHand := part(g, "order-1"), part(g, "order-2")
			byHand.OnCrash = onerun.CrashManual
			for _, c := range []onerun.ItemClaim{auto, byHand} {
				_, err := t.s.BeginItem(t.ctx, c)
				t.must(err, "begin")
			}
			done := t.begun(g, "order-3")
			t.itemEnds(done, onerun.ItemDone)
			next := t.granted(again(c)) // from now on the first attempt is known to have ended
			it := t.begun(next, "order-1")
			equal(t, it.Tries, 2, "Tries of an item that was taken over")
			equal(t, it.Attempt, 2, "Attempt")
			mine := part(next, "order-2") // the dead owner's policy counts, not the caller's
			mine.OnCrash = onerun.CrashAuto
			stale := t.itemRefusal(mine, onerun.RefusedStale)
			equal(t, stale.Liveness, onerun.Dead, "Liveness")
			t.itemRefused(next, "order-3", onerun.RefusedDone)
			first := ending(it, onerun.ItemDone)
			first.Owner = auto.Owner
			t.is(t.s.EndItem(t.ctx, first), onerun.ErrLost, "the end that its dead owner had to tell")
			t.itemEnds(it, onerun.ItemDone)
		}},
		{"items/an end after the run's", func(t *trial) {
			g := t.granted(t.job("settle", day))
			it := t.begun(g, "order-1")
			t.finish(g, succeeded)
			t.itemEnds(it, onerun.ItemDone)
			equal(t, t.item("settle", "order-1").State, onerun.ItemDone, "State")
		}},
		{"items/decided by a person", func(t *trial) {
			g := t.granted(t.job("settle", day))
			it := t.begun(g, "order-1")
			t.is(t.decide(it, onerun.ItemDone), onerun.ErrState, "a decision about an item at work")
			t.itemEnds(it, onerun.ItemFailed)
			it = t.item("settle", "order-1")
			t.must(t.decide(it, onerun.ItemDone), "decide that a failed item is done")
			t.itemRefused(g, "order-1", onerun.RefusedDone)
			it = t.item("settle", "order-1")
			equal(t, it.State, onerun.ItemDone, "State")
			t.is(t.decide(it, onerun.ItemDone), onerun.ErrState, "the same decision again")
			old := it
			old.State = onerun.ItemFailed
			t.is(t.decide(old, onerun.ItemDone), onerun.ErrState, "a decision about a state that is past")
			old = it
			old.Tries++
			t.is(t.decide(old, onerun.ItemFailed), onerun.ErrState, "a decision about another try")
			t.must(t.decide(it, onerun.ItemFailed), "decide that it is to be done again")
			equal(t, t.begun(g, "order-1").Tries, 2, "Tries")
			missing := it
			missing.Name = "order-9"
			t.is(t.decide(missing, onerun.ItemDone), onerun.ErrNotFound, "a decision about no item")
			events, err := t.s.Decisions(t.ctx, t.ns, "settle")
			t.must(err, "read the decisions")
			equal(t, len(events), 2, "decisions")
			for _, e := range events {
				equal(t, e.Name, onerun.EventItemResolved, "event")
				equal(t, e.By, operator, "By")
				equal(t, strings.Contains(e.Detail, "order-1"), true, "whether the event %q names the item", e.Detail)
			}
			bad := decision(it, onerun.ItemDone)
			bad.Reason = ""
			_, err = t.s.DecideItem(t.ctx, bad)
			t.is(err, onerun.ErrUsage, "a decision without a reason")
		}},
		{"items/a dead owner's, decided by a person", func(t *trial) {
			c := retrying(manual(t.job("settle", day)), 1, 0)
			g := t.orphan(c)
			claim := part(g, "order-1")
			claim.OnCrash = onerun.CrashManual
			_, err := t.s.BeginItem(t.ctx, claim)
			t.must(err, "begin")
			t.resolve(t.run(g.Lease.RunID), onerun.Failed)
			it := t.item("settle", "order-1")
			equal(t, it.Liveness, onerun.Dead, "Liveness after the run was resolved")
			t.must(t.decide(it, onerun.ItemFailed), "decide")
			t.rerunItem(c, g, "order-1")
		}},
		{"items/listings", func(t *trial) {
			g := t.granted(t.job("settle", day))
			other := t.granted(t.job("report", day))
			for i := range 6 {
				it := t.begun(g, fmt.Sprint("order-", i))
				t.tick()
				if state := []onerun.ItemState{onerun.ItemDone, onerun.ItemFailed, ""}[i%3]; state != "" {
					t.itemEnds(it, state)
				}
			}
			t.begun(other, "page-1")
			names := func(q onerun.ItemQuery) string {
				var out []string
				for _, it := range t.itemsOf(q) {
					out = append(out, it.Name)
				}
				return strings.Join(out, " ")
			}
			equal(t, names(onerun.ItemQuery{}), "page-1 order-5 order-4 order-3 order-2 order-1 order-0", "all")
			equal(t, names(onerun.ItemQuery{Job: "settle"}), "order-5 order-4 order-3 order-2 order-1 order-0", "of a job")
			equal(t, names(onerun.ItemQuery{Job: "settle", States: []onerun.ItemState{onerun.ItemDone}}), "order-3 order-0", "done")
			equal(t, names(onerun.ItemQuery{States: []onerun.ItemState{onerun.ItemFailed, onerun.ItemStarted}}), "page-1 order-5 order-4 order-2 order-1", "not done")
			equal(t, names(onerun.ItemQuery{Job: "settle", Limit: 2}), "order-5 order-4", "the last two")
			equal(t, names(onerun.ItemQuery{Job: "settle", Name: "order-3"}), "order-3", "one")
			equal(t, t.item("settle", "order-5").Liveness, onerun.Alive, "Liveness of an item at work")
		}},
		{"items/malformed", func(t *trial) {
			g := t.granted(t.job("settle", day))
			for _, name := range []string{"", " x", "x ", "a\nb", "a\x00b", "\xff", strings.Repeat("x", onerun.MaxItem+1), "e\u0301"} { // the last one isn't in NFC
				_, err := t.s.BeginItem(t.ctx, part(g, name))
				t.is(err, onerun.ErrUsage, "an item with the name %q", name)
			}
			c := part(g, "order-1")
			c.Owner = ""
			_, err := t.s.BeginItem(t.ctx, c)
			t.is(err, onerun.ErrUsage, "an item without an owner")
			c = part(g, "order-1")
			c.OnCrash = "perhaps"
			_, err = t.s.BeginItem(t.ctx, c)
			t.is(err, onerun.ErrUsage, "an item with a policy that there isn't")
			alone := t.granted(t.lockOnly("db"))
			_, err = t.s.BeginItem(t.ctx, part(alone, "order-1"))
			t.is(err, onerun.ErrUsage, "an item of a lock alone")
		}},
		{"items/outlive their run", func(t *trial) {
			c := t.job("settle", day)
			g := t.granted(c)
			t.itemEnds(t.begun(g, "order-1"), onerun.ItemDone)
			t.finish(g, succeeded)
			t.pruned(onerun.PruneRequest{Oldest: true}, g.Lease.RunID)
			t.itemRefused(t.granted(t.job("settle", "2026-09-16")), "order-1", onerun.RefusedDone)
			equal(t, t.item("settle", "order-1").State, onerun.ItemDone, "State")
		}},
	}
}

func keyScope(c onerun.Claim) onerun.Claim {
	c.Lock = onerun.KeyLock(c.Key())
	return c
}

// part is the claim of an item under a grant, for a new owner.
func part(g onerun.Grant, name string) onerun.ItemClaim {
	return onerun.ItemClaim{Lease: g.Lease, Name: name, Owner: onerun.NewID()}
}

func (t *trial) begun(g onerun.Grant, name string) onerun.Item {
	it, err := t.s.BeginItem(t.ctx, part(g, name))
	t.must(err, "begin item %s", name)
	return it
}

func ending(it onerun.Item, state onerun.ItemState) onerun.ItemEnd {
	return onerun.ItemEnd{Namespace: it.Namespace, Job: it.Job, Name: it.Name, Owner: it.Owner, State: state}
}

func (t *trial) itemEnds(it onerun.Item, state onerun.ItemState) {
	t.must(t.s.EndItem(t.ctx, ending(it, state)), "end item %s as %s", it.Name, state)
}

// itemRefused begins an item in vain, and gives it as it is.
func (t *trial) itemRefused(g onerun.Grant, name string, want onerun.Reason) onerun.Item {
	return t.itemRefusal(part(g, name), want)
}

func (t *trial) itemRefusal(c onerun.ItemClaim, want onerun.Reason) onerun.Item {
	_, err := t.s.BeginItem(t.ctx, c)
	var refusal *onerun.ItemRefusal
	if !errors.As(err, &refusal) || refusal.Reason != want {
		t.failf("item %s: expected a refusal %s, got: %v", c.Name, want, err)
	}
	return refusal.Item
}

func (t *trial) itemsOf(q onerun.ItemQuery) []onerun.Item {
	q.Namespace = t.ns
	items, err := t.s.Items(t.ctx, q)
	t.must(err, "list items")
	return items
}

func (t *trial) item(job, name string) onerun.Item {
	items := t.itemsOf(onerun.ItemQuery{Job: job})
	i := slices.IndexFunc(items, func(it onerun.Item) bool { return it.Name == name })
	if i < 0 {
		t.failf("item %s of job %s: expected it in the listing, got %v", name, job, items)
	}
	return items[i]
}

func decision(it onerun.Item, as onerun.ItemState) onerun.ItemDecision {
	return onerun.ItemDecision{
		Namespace: it.Namespace, Job: it.Job, Name: it.Name, Expect: it.State, Tries: it.Tries, As: as,
		Who: onerun.Who{By: operator, Reason: because},
	}
}

func (t *trial) decide(it onerun.Item, as onerun.ItemState) error {
	_, err := t.s.DecideItem(t.ctx, decision(it, as))
	return err
}

// rerunItem approves another run of a claim, in which an item is done.
func (t *trial) rerunItem(c onerun.Claim, g onerun.Grant, name string) {
	t.approve(t.run(g.Lease.RunID))
	next := t.granted(again(c))
	t.itemEnds(t.begun(next, name), onerun.ItemDone)
	t.itemRefused(next, name, onerun.RefusedDone)
}
