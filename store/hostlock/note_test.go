package hostlock_test

import (
	"context"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/storetest"
)

// TestNotes: notes are the remote store's, and are there wherever it is asked through a host's locks.
func TestNotes(t *testing.T) {
	t.Parallel()
	url, _, _ := strings.Cut(placeOf(t, oneHost), " ")
	dir := t.TempDir()
	for _, c := range storetest.Cases(storetest.Harness{
		Open:    func(context.Context) (onerun.Store, error) { return openOn(url, dir, func(string) {}) },
		Leases:  true,
		Command: storetest.Self,
		URL:     url + oneHost + dir,
	}) {
		if strings.HasPrefix(c.Name, "notes/") {
			t.Run(c.Name, func(t *testing.T) {
				if err := c.Run(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
