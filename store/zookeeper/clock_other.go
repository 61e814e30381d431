//go:build !linux

package zookeeper

import "time"

// elapsed is a clock that never steps; it may stand still in a suspend.
func (c *clock) elapsed() time.Duration { return time.Since(c.begun) }
