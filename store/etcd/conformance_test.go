package etcd_test

import (
	"context"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/etcd"
	"github.com/onerun-dev/onerun/storetest"
)

// TestConformance runs the cases beside each other, all on one store.
func TestConformance(t *testing.T) {
	t.Parallel()
	url := sharedServer(t).URL("conformance")
	for _, c := range storetest.Cases(storetest.Harness{
		Open:    func(ctx context.Context) (onerun.Store, error) { return etcd.Open(ctx, url) },
		Leases:  true,
		Hosts:   true,
		Command: storetest.Self,
		URL:     url,
	}) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := c.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
