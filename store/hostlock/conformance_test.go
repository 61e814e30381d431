package hostlock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/storetest"
)

// onHosts are the topics in which a lock file has its say. In the others everything goes on to
// the store, whose own test has them.
var onHosts = []string{
	"contention", "crash", "crash policy", "delivery", "leases", "line", "locks", "order", "replies", "rows", "stop", "tokens", "transitions", "turns",
}

func conformance(t *testing.T, place string, leases bool) {
	t.Helper()
	url, _, _ := strings.Cut(place, " ")
	queued := queuedAt(t, url)
	// Each case has a host of its own, or hosts: else a start of another case delivers what this one
	// has left to wait, whenever it likes.
	cases := func(dir string) []storetest.Case {
		place := place[:strings.LastIndex(place, " ")+1] + dir
		return storetest.Cases(storetest.Harness{
			Open:    func(ctx context.Context) (onerun.Store, error) { return openPlace(ctx, place, func(string) {}) },
			Leases:  leases,
			Command: storetest.Self,
			URL:     place,
			Queued:  queued,
		})
	}
	for i, c := range cases("") {
		if topic, _, _ := strings.Cut(c.Name, "/"); !slices.Contains(onHosts, topic) || leases && topic == "crash" {
			continue // where leases alone speak, a crash is the store's own
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := cases(t.TempDir())[i].Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// queuedAt counts those who stand in line in a store, on a connection beside it.
func queuedAt(t *testing.T, url string) func(context.Context, string, onerun.LockName) (int, error) {
	t.Helper()
	base, schema, _ := strings.Cut(url, "schema=")
	schema, rest, _ := strings.Cut(schema, "&")
	beside, err := pgxpool.New(soon(t), base+rest)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(beside.Close)
	query := "SELECT count(*) FROM " + schema + ".onerun_waiter WHERE namespace = $1 AND lock = $2 AND fifo AND expires_at > clock_timestamp()"
	return func(ctx context.Context, namespace string, lock onerun.LockName) (n int, err error) {
		err = beside.QueryRow(ctx, query, namespace, string(lock)).Scan(&n)
		return n, err
	}
}

// TestConformance: each acquisition on a host of its own, where leases alone tell who is dead.
func TestConformance(t *testing.T) {
	t.Parallel()
	conformance(t, placeOf(t, manyHosts), true)
}

// TestConformanceOneHost: on one host it is as good as a store that knows no leases: whoever
// has died is known at once, and whoever lives is left alone.
func TestConformanceOneHost(t *testing.T) {
	t.Parallel()
	conformance(t, placeOf(t, oneHost), false)
}

// leaseless hides that there are leases, which nobody waits for here. They last an hour.
type leaseless struct {
	onerun.Store
	onerun.WaitingClaimer
	onerun.Noter
	onerun.EndNoter
	onerun.StopWatcher
	onerun.Spooler
}

func (s leaseless) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	c.TTL = time.Hour
	g, err := s.Store.Claim(ctx, c)
	return hidden(g), err
}

func (s leaseless) ClaimWaiting(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	c.TTL = time.Hour
	g, err := s.WaitingClaimer.ClaimWaiting(ctx, c)
	return hidden(g), err
}

func hidden(g onerun.Grant) onerun.Grant {
	g.Lease.TTL, g.Run.LeaseExpiresAt = 0, time.Time{}
	for i := range g.TakenOver {
		g.TakenOver[i].LeaseExpiresAt = time.Time{}
	}
	return g
}

func shown(l onerun.Lease) onerun.Lease {
	l.TTL = time.Hour
	return l
}

func (s leaseless) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	return s.Store.Heartbeat(ctx, shown(l))
}

func (s leaseless) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	return s.Store.Finish(ctx, shown(l), o)
}

func (s leaseless) Deliver(ctx context.Context, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	return s.Store.Deliver(ctx, shown(l), o)
}

func (s leaseless) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	runs, err := s.Store.Runs(ctx, q)
	for i := range runs {
		runs[i].LeaseExpiresAt = time.Time{}
	}
	return runs, err
}

func (s leaseless) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	d, err := s.Store.Detail(ctx, namespace, runID)
	d.Run.LeaseExpiresAt = time.Time{}
	for i := range d.Attempts {
		d.Attempts[i].LeaseExpiresAt = time.Time{}
	}
	return d, err
}
