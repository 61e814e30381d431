package onerun_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// moments keeps moments in the order in which they are noted, and the lease of each.
type moments struct {
	mu     sync.Mutex
	at     []time.Duration
	leases []onerun.Lease
}

func (m *moments) note(l onerun.Lease, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.leases = append(m.at, at), append(m.leases, l)
}

func (m *moments) all() []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.at)
}

// last is the newest; zero: there is none.
func (m *moments) last() (onerun.Lease, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.at) == 0 {
		return onerun.Lease{}, 0
	}
	return m.leases[len(m.leases)-1], m.at[len(m.at)-1]
}

// Who is told hears of the grant and of each heartbeat that succeeded, in order, and of the
// moment before each was sent.
func TestRenewalsAreTold(t *testing.T) {
	const ttl = time.Minute // a heartbeat every 10 s
	inBed(t, func(t *testing.T, b *bed) {
		var told, sent moments
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			at := b.at()
			pass(ctx, 700*time.Millisecond) // on its way
			g, err := b.store.Store.Claim(ctx, c)
			sent.note(g.Lease, at)
			return g, err
		}
		beats := 0
		b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
			if beats++; beats%3 == 2 {
				return onerun.Beat{}, down()
			}
			at := b.at()
			pass(ctx, 300*time.Millisecond)
			beat, err := b.store.Store.Heartbeat(ctx, l)
			if err == nil {
				sent.note(l, at)
			}
			return beat, err
		}
		var attempts []onerun.Lease
		job := retried("p", 1)
		job.TTL = ttl
		err := b.do(job, func(ctx context.Context, o *onerun.Owner) error {
			attempts = append(attempts, o.Lease())
			if l, at := told.last(); l != o.Lease() || at != b.at()-700*time.Millisecond {
				t.Errorf("attempt %d begins; told last of attempt %d, sent at %s", len(attempts), l.Attempt, at)
			}
			pass(ctx, 2*ttl)
			return errBoom
		}, onerun.WithRenewal(told.note))
		if !errors.Is(err, errBoom) || len(attempts) != 2 {
			t.Fatalf("Do: %v; attempts: %v", err, attempts)
		}
		if !slices.Equal(told.at, sent.at) || !slices.Equal(told.leases, sent.leases) || len(told.at) < 20 {
			t.Errorf("told of %v\nwant    %v", told.at, sent.at)
		}
	})
}

// A grant that came too late is told all the same, before the heartbeat that makes it good.
func TestRenewalOfALateGrant(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			g, err := b.store.Store.Claim(ctx, c)
			pass(ctx, 5*time.Second) // on its way back
			return g, err
		}
		var told moments
		err := b.do(leased(6*time.Second), func(context.Context, *onerun.Owner) error {
			if at := told.all(); !slices.Equal(at, []time.Duration{0, 5 * time.Second}) {
				t.Errorf("told of %v before the start", at)
			}
			return nil
		}, onerun.WithRenewal(told.note))
		if err != nil {
			t.Error(err)
		}
	})
}

// Who blocks when it is told of a renewal keeps no work running: what was told counts already,
// and no more than that.
func TestRenewalThatBlocks(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, time.Minute} {
		inBed(t, func(t *testing.T, b *bed) {
			release := make(chan struct{})
			var told moments
			err := b.do(leased(ttl), func(ctx context.Context, _ *onerun.Owner) error {
				pass(ctx, 5*ttl)
				_, sent := told.last()
				within(t, "told to stop", b.at(), sent+onerun.TermAfter(ttl, onerun.DefaultGrace), onerun.LookEvery(ttl))
				return context.Cause(ctx)
			}, onerun.WithRenewal(func(l onerun.Lease, sent time.Duration) {
				if told.note(l, sent); len(told.all()) == 3 {
					<-release
				}
			}))
			if at := told.all(); !errors.Is(err, onerun.ErrLost) || len(at) != 3 {
				t.Errorf("Do: %v; told of %v", err, at)
			}
			close(release)
		})
	}
}

// Nobody is told of what comes after the end: another lease may be under way by then.
func TestNoRenewalAfterTheEnd(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		deaf := make(chan struct{})
		b.store.beat = func(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
			<-deaf
			return onerun.Beat{}, nil
		}
		var told moments
		err := b.do(leased(time.Minute), works(15*time.Second), onerun.WithRenewal(told.note))
		close(deaf)
		pass(t.Context(), time.Second)
		if at := told.all(); err != nil || !slices.Equal(at, []time.Duration{0}) {
			t.Errorf("Do: %v; told of %v, want of the grant alone", err, at)
		}
	})
}

// A lock that ends with its holder has no deadline to be told of.
func TestNoRenewalWithoutADeadline(t *testing.T) {
	inBed(t, func(t *testing.T, b *bed) {
		b.store.claim = func(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
			g, err := b.store.Store.Claim(ctx, c)
			g.Lease.TTL = 0
			return g, err
		}
		b.store.finish = func(context.Context, onerun.Lease, onerun.Outcome) error { return nil }
		err := b.do(nightly, works(time.Second), onerun.WithRenewal(func(l onerun.Lease, sent time.Duration) {
			t.Errorf("told of %+v, sent at %s", l, sent)
		}))
		if err != nil {
			t.Error(err)
		}
	})
}
