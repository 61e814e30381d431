package zookeeper

import (
	"context"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/storetest"
)

func harness(url string) storetest.Harness {
	return storetest.Harness{
		Open:    func(ctx context.Context) (onerun.Store, error) { return Open(ctx, url) },
		Leases:  true,
		Hosts:   true,
		Command: storetest.Self,
		URL:     url,
	}
}

// TestConformance runs the cases beside each other, all on one store.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range storetest.Cases(harness(freshURL(sharedServer(t).Addr()))) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
