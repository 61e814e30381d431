package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
	"github.com/onerun-dev/onerun/storetest"
)

// harness is a store for the suite. direct is the URL of a connection beside it.
func harness(t *testing.T, url, direct string) storetest.Harness {
	t.Helper()
	beside, err := pgxpool.New(soon(t), withoutSchema(direct))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(beside.Close)
	query := "SELECT count(*) FROM " + schemaOf(url) + ".onerun_waiter WHERE namespace = $1 AND lock = $2 AND fifo AND expires_at > clock_timestamp()"
	return storetest.Harness{
		Open:    func(ctx context.Context) (onerun.Store, error) { return postgres.Open(ctx, url) },
		Leases:  true,
		Hosts:   true,
		Turns:   true,
		Command: storetest.Self,
		URL:     url,
		Queued: func(ctx context.Context, namespace string, lock onerun.LockName) (n int, err error) {
			err = beside.QueryRow(ctx, query, namespace, string(lock)).Scan(&n)
			return n, err
		},
	}
}

// TestConformance runs the cases beside each other, all on one store.
func TestConformance(t *testing.T) {
	t.Parallel()
	url := sharedServer(t).URL("postgres", "schema", newSchema())
	for _, c := range storetest.Cases(harness(t, url, url)) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// behindProxy are the topics in which the session matters: the claim, its end, what is
// decided beside it, and many at once.
var behindProxy = []string{"rows", "order", "transitions", "replies", "leases", "hosts", "tokens", "locks", "line", "turns", "approvals", "delivery", "unclaimed", "items", "prune", "contention", "crash"}

// TestConformanceBehindProxy (B28): through a proxy that gives every transaction whichever session
// is free.
func TestConformanceBehindProxy(t *testing.T) {
	t.Parallel()
	proxy, err := bouncer()
	if err != nil {
		t.Fatal(err)
	}
	schema := newSchema()
	url, beside := proxy.URL("postgres", "schema", schema), sharedServer(t).URL("postgres", "schema", schema)
	for _, c := range storetest.Cases(harness(t, url, beside)) {
		if topic, _, _ := strings.Cut(c.Name, "/"); !slices.Contains(behindProxy, topic) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
