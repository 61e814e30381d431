package etcd

import (
	"time"

	"github.com/onerun-dev/onerun/internal/kvledger"
)

// WithNow gives the host another clock.
func WithNow(now func() time.Time) Option {
	return func(s *space, _ *kvledger.Options) { s.now = now }
}
