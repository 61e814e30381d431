package cli

import (
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// hanging is a store that doesn't come back from being closed.
type hanging struct {
	onerun.Store
	begun, let chan struct{}
}

func (h hanging) Close() error { close(h.begun); <-h.let; return nil }

// TestShut: a store that hangs keeps no scheduler from ending.
func TestShut(t *testing.T) {
	t.Parallel()
	h := hanging{begun: make(chan struct{}), let: make(chan struct{})}
	t.Cleanup(func() { close(h.let) })
	over := make(chan struct{})
	go func() { shut(h); close(over) }()
	select {
	case <-over:
	case <-time.After(patience):
		t.Fatal("it waits for the store")
	}
	<-h.begun
}
