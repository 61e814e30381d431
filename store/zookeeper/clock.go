package zookeeper

import (
	"sync"
	"time"
)

// clock is the server's, as far as this client knows it. A server tells its time with everything that it writes, in the
// node's Stat, and never without. Between two of those this host's clock that counts suspend and never steps goes on from
// there: its rate is used, never what it shows.
type clock struct {
	begun time.Time // by this host, for where it has no clock that counts suspend

	mu    sync.Mutex
	heard time.Duration // when the server was heard last, by this host
	// Between these the server's time was when this host's clock was 0. zero: it isn't known.
	low, high time.Time
	floor     time.Time // what was given out for a record, or seen in one
}

// tell takes what the server said with a write that was asked for when this host's clock showed sent. It was true at
// some moment since.
func (c *clock) tell(mtime int64, sent time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := time.UnixMilli(mtime)
	c.heard = c.elapsed()
	low, high := told.Add(-c.heard), told.Add(time.Millisecond-sent)
	if c.low.IsZero() || low.After(c.high) || high.Before(c.low) { // the server's clock was set, or goes at another rate
		c.low, c.high = low, high
		return
	}
	if low.After(c.low) {
		c.low = low
	}
	if high.Before(c.high) {
		c.high = high
	}
}

// now gives the time, which is not later than the server's, and how long ago the server was heard; ok is false when it never was.
func (c *clock) now() (now time.Time, age time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.low.IsZero() {
		return time.Time{}, 0, false
	}
	at := c.elapsed()
	return c.low.Add(at), at - c.heard, true
}

// jitter bounds by how much two clients can know the same clock differently.
const jitter = time.Second

// stamp gives a time for a record: the likeliest, and no earlier than what this client has seen of others, who may know the
// clock better. ok is false when the server wasn't heard for longer than that.
func (c *clock) stamp(since time.Duration) (now time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.elapsed()
	if c.low.IsZero() || at-c.heard >= since {
		return time.Time{}, false
	}
	now = c.low.Add(c.high.Sub(c.low)/2 + at)
	if ahead := c.floor.Sub(now); ahead > 0 && ahead < jitter {
		return c.floor, true
	}
	c.floor = now
	return now, true
}

// seen takes the time at which something was written that this client has read.
func (c *clock) seen(written time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if written.After(c.floor) {
		c.floor = written
	}
}

// forget makes the next who asks ask the server: another one may answer now, with a clock of its own.
func (c *clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.low, c.high = time.Time{}, time.Time{}
}
