//go:build !linux

package onerun

import "time"

var start = time.Now()

// boottime falls back to Go's monotonic clock, which may stand still in a suspend.
func boottime() time.Duration { return time.Since(start) }
