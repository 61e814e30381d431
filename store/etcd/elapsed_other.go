//go:build !linux

package etcd

import "time"

// elapsed is the time of day: Go's own monotonic clock may stand still in a suspend, in which a
// lease goes on.
func elapsed() time.Duration { return time.Duration(time.Now().UnixNano()) }
