package gocronlock

import "time"

// WithNow replaces the clock of the fires.
func WithNow(now func() time.Time) Option { return func(o *options) { o.now = now } }
