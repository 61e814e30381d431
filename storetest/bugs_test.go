package storetest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
	"github.com/onerun-dev/onerun/storetest"
)

// bug is a store that breaks one promise, and the case that has to notice it.
type bug struct {
	name     string
	caught   string
	rules    memory.Rules
	disguise func(onerun.Store) onerun.Store
	handle   func(onerun.Store) onerun.Store // disguises each client
}

// TestSeededBugs: a suite that passes on everything proves nothing. Here each
// promise is broken once, and the case that is about it has to fail.
func TestSeededBugs(t *testing.T) {
	seen := map[string]bool{}
	for _, b := range slices.Concat(raceBugs(), ownerBugs(), tableBugs(), nameBugs(), operatorBugs(), ledgerBugs(), stopBugs(),
		deliveryBugs(), outputBugs(), progressBugs(), itemBugs(), noteBugs(), pruneBugs(), twoPeopleBugs(), staleBugs(), lineBugs(), hostBugs(), unclaimedBugs()) {
		if seen[b.name] {
			t.Errorf("two bugs are called %q", b.name)
		}
		seen[b.name] = true
		t.Run(b.name, func(t *testing.T) {
			h := inMemory(b.rules, b.disguise)
			if open := h.Open; b.handle != nil {
				h.Open = func(ctx context.Context) (onerun.Store, error) {
					s, err := open(ctx)
					return b.handle(s), err
				}
			}
			caughtBy(t, storetest.Cases(h), b.caught)
		})
	}
}

// caughtBy runs the one case, which has to fail.
func caughtBy(t *testing.T, cases []storetest.Case, name string) {
	t.Helper()
	i := slices.IndexFunc(cases, func(c storetest.Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case is called %q", name)
	}
	err := cases[i].Run(t.Context())
	for try := 1; err == nil && try < 5; try++ { // a race is met by chance
		err = cases[i].Run(t.Context())
	}
	if err == nil {
		t.Fatalf("case %q didn't notice", name)
	}
	if msg := err.Error(); !strings.Contains(msg, "expected") && !strings.Contains(msg, "must change nothing") {
		t.Errorf("case %q says neither what it expected nor what came: %v", name, err)
	}
	t.Logf("%s: %v", name, err)
}

// rendezvous makes a store that checks and then acts: in between, whoever decides
// waits a moment for another one to decide too.
func rendezvous() func(sync.Locker) {
	var inside atomic.Int64
	return func(mu sync.Locker) {
		inside.Add(1)
		mu.Unlock()
		for i := 0; i < 2000 && inside.Load() < 2; i++ {
			runtime.Gosched()
		}
		mu.Lock()
		inside.Add(-1)
	}
}

func raceBugs() []bug {
	return []bug{
		{name: "check, then act", caught: "contention/one key", rules: memory.Rules{Gap: rendezvous()}},
		{name: "check, then act: locks", caught: "contention/many keys under one lock", rules: memory.Rules{Gap: rendezvous()}},
		{name: "check, then act: approvals", caught: "approvals/spent by exactly one of many claims", rules: memory.Rules{Gap: rendezvous()}},
		{name: "check, then act: retries", caught: "retries/any start takes the due attempt, and only one", rules: memory.Rules{Gap: rendezvous()}},
		{name: "check, then act: a pause", caught: "pause/many at once", disguise: func(s onerun.Store) onerun.Store { return &hastyPause{Store: s} }},
	}
}

// hastyPause looks whether a job is paused, and then pauses it.
type hastyPause struct{ onerun.Store }

func (h *hastyPause) Pause(ctx context.Context, p onerun.PauseRequest) error {
	js, err := h.Jobs(ctx, p.Namespace)
	if err != nil {
		return err
	}
	for _, j := range js {
		if j.Job == p.Job {
			return &onerun.StateError{Why: "paused already"}
		}
	}
	for range 200 {
		runtime.Gosched()
	}
	_ = h.Store.Pause(ctx, p)
	return nil
}

func ownerBugs() []bug {
	always := func(_, _ onerun.Lease) bool { return true }
	sameOwner := func(held, lease onerun.Lease) bool { return held.Owner == lease.Owner }
	return []bug{
		{name: "finish without compare-and-set", caught: "transitions/a late finish after a takeover", rules: memory.Rules{FinishOwns: always}},
		{name: "finish by owner alone", caught: "transitions/a lease that differs", rules: memory.Rules{FinishOwns: sameOwner}},
		{name: "release of another's lock", caught: "transitions/release of a lock that is another's (B26)", rules: memory.Rules{FinishOwns: always}},
		{name: "heartbeat without compare-and-set", caught: "transitions/a late finish after a takeover", rules: memory.Rules{BeatOwns: always}},
		{name: "heartbeat re-creates", caught: "transitions/a heartbeat never re-creates", rules: memory.Rules{BeatOwns: always}},
		{name: "heartbeat by owner alone", caught: "transitions/a lease that differs", rules: memory.Rules{BeatOwns: sameOwner}},
		{name: "heartbeats add up", caught: "leases/a heartbeat extends from now", rules: memory.Rules{Expires: func(_, was time.Time, ttl time.Duration) time.Time { return was.Add(ttl) }}},
		{name: "heartbeats extend nothing", caught: "leases/many short ones make a long run", rules: memory.Rules{Expires: func(now, was time.Time, ttl time.Duration) time.Time {
			if was.After(now) {
				return was
			}
			return now.Add(ttl)
		}}},
		{name: "a lease a little too short", caught: "leases/nobody before T, somebody after", rules: memory.Rules{Expires: func(now, _ time.Time, ttl time.Duration) time.Time { return now.Add(ttl - 10*time.Millisecond) }}},
		{name: "a lease that never ends", caught: "leases/nobody before T, somebody after", rules: memory.Rules{Expires: func(now, _ time.Time, ttl time.Duration) time.Time { return now.Add(2 * ttl) }}},
		{name: "expiry by the caller's clock", caught: "leases/nobody before T, somebody after", rules: memory.Rules{ExpiryClock: func(time.Time) time.Time { return time.Now() }}},
		{name: "expiry by a clock that is ahead", caught: "leases/nobody before T, somebody after", rules: memory.Rules{ExpiryClock: func(t time.Time) time.Time { return t.Add(3 * time.Second) }}},
		{name: "the caller's policy judges", caught: "crash policy/the holder's, not the caller's", rules: memory.Rules{Judge: func(_, caller onerun.Policy) onerun.Policy { return caller }}},
		{name: "manual is closed too", caught: "crash policy/manual leaves it to a person", rules: memory.Rules{Judge: func(_, _ onerun.Policy) onerun.Policy { return onerun.Policy{OnCrash: onerun.CrashAuto} }}},
		{name: "auto is left too", caught: "crash policy/auto closes a keyed run, and doesn't execute it again", rules: memory.Rules{Judge: func(_, _ onerun.Policy) onerun.Policy { return onerun.Policy{OnCrash: onerun.CrashManual} }}},
		{name: "lease_expired is retried", caught: "crash policy/an unknown outcome is no ordinary failure", rules: memory.Rules{Retry: func(p onerun.Policy, now time.Time, n int, r onerun.Reason) (time.Time, bool) {
			p.RetryLost = true
			return p.NextRetry(now, n, r, 0)
		}}},
		{name: "retry-lost is forgotten", caught: "crash policy/retry-lost executes it again", rules: memory.Rules{Retry: func(p onerun.Policy, now time.Time, n int, r onerun.Reason) (time.Time, bool) {
			p.RetryLost = false
			return p.NextRetry(now, n, r, 0)
		}}},
		{name: "stopped is retried", caught: "retries/never after some ends", rules: memory.Rules{Retry: func(p onerun.Policy, now time.Time, n int, _ onerun.Reason) (time.Time, bool) {
			return p.NextRetry(now, n, onerun.ReasonExit, 0)
		}}},
		{name: "one retry too many", caught: "retries/the budget ends in failed", rules: memory.Rules{Retry: func(p onerun.Policy, now time.Time, n int, r onerun.Reason) (time.Time, bool) {
			p.Retries++
			return p.NextRetry(now, n, r, 0)
		}}},
		{name: "the backoff overflows", caught: "retries/the wait grows, within its bounds (B42)", rules: memory.Rules{Retry: func(p onerun.Policy, now time.Time, n int, _ onerun.Reason) (time.Time, bool) {
			return now.Add(p.BackoffMin << n), n <= p.Retries
		}}},
		{name: "the worker's clock decides a retry", caught: "leases/a client's clock decides nothing", disguise: func(s onerun.Store) onerun.Store { return &workersClock{Store: s} }},
		{name: "any owner is adopted", caught: "replies/another owner is not taken for the first", rules: memory.Rules{Adopt: func(_, _ string) bool { return true }}},
		{name: "no owner is adopted", caught: "replies/a claim repeated is the same grant", rules: memory.Rules{Adopt: func(_, _ string) bool { return false }}},
		{name: "tokens start again", caught: "tokens/grow across runs, jobs and attempts", rules: memory.Rules{ReleaseToken: func(int64) int64 { return 0 }}},
		{name: "tokens are the clock's", caught: "tokens/grow when the clock goes back", rules: memory.Rules{NextToken: func(_ int64, now time.Time) int64 { return now.UnixMilli() }}},
		{name: "tokens are a counter", caught: "tokens/not under the store's time", rules: memory.Rules{NextToken: func(last int64, _ time.Time) int64 { return last + 1 }}},
		{name: "a late finish is swallowed", caught: "transitions/a late finish after a takeover", disguise: func(s onerun.Store) onerun.Store { return swallows{s} }},
		{name: "a finish can't be repeated", caught: "replies/a finish repeated", disguise: func(s onerun.Store) onerun.Store { return &finishesOnce{Store: s} }},
		{name: "a closed handle frees its locks", caught: "crash policy/a handle that was closed is not a dead owner", handle: func(s onerun.Store) onerun.Store { return &tidy{Store: s} }},
		{name: "the default lease is none", caught: "leases/the default TTL", disguise: func(s onerun.Store) onerun.Store { return shortDefault{s} }},
	}
}

// workersClock reckons the next retry from the worker's own time of the end.
type workersClock struct {
	onerun.Store
	mu   sync.Mutex
	skew time.Duration
}

func (w *workersClock) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if !o.FinishedAt.IsZero() {
		w.mu.Lock()
		w.skew = time.Since(o.FinishedAt)
		w.mu.Unlock()
	}
	return w.Store.Finish(ctx, l, o)
}

func (w *workersClock) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	g, err := w.Store.Claim(ctx, c)
	var ref *onerun.Refusal
	if errors.As(err, &ref) && !ref.RetryAt.IsZero() {
		w.mu.Lock()
		defer w.mu.Unlock()
		ref.RetryAt = ref.RetryAt.Add(-w.skew)
	}
	return g, err
}

// swallows says yes to every finish.
type swallows struct{ onerun.Store }

func (s swallows) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if err := s.Store.Finish(ctx, l, o); err != nil && !errors.Is(err, onerun.ErrLost) {
		return err
	}
	return nil
}

// finishesOnce takes a finish whose reply was lost for one that comes too late.
type finishesOnce struct {
	onerun.Store
	mu   sync.Mutex
	done map[string]bool
}

func (f *finishesOnce) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done[l.Owner] {
		return onerun.ErrLost
	}
	err := f.Store.Finish(ctx, l, o)
	if err == nil {
		if f.done == nil {
			f.done = map[string]bool{}
		}
		f.done[l.Owner] = true
	}
	return err
}

// tidy gives everything up when it is closed.
type tidy struct {
	onerun.Store
	mu     sync.Mutex
	leases []onerun.Lease
}

func (t *tidy) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	g, err := t.Store.Claim(ctx, c)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.leases = append(t.leases, g.Lease)
	}
	return g, err
}

func (t *tidy) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.leases {
		_ = t.Finish(context.Background(), l, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonCanceled})
	}
	return t.Store.Close()
}

// shortDefault takes a TTL that isn't given for the least one.
type shortDefault struct{ onerun.Store }

func (s shortDefault) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	if c.TTL == 0 {
		c.TTL = onerun.MinTTL
	}
	return s.Store.Claim(ctx, c)
}
