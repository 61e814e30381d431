package onerun

import "time"

// The lease arithmetic. With TTL T, nobody else is granted the lock before T has
// passed on the store's clock since the owner's last successful heartbeat; and the
// owner has stopped its work before T has passed on its own clock since it *sent*
// that heartbeat. Sending comes before the store's reckoning, so the owner always
// stops first, as long as the two clocks run at rates that differ by less than three
// quarters of the margin within T: the last one is what a guard takes to act, where the
// owner can't. No decision compares two hosts' clocks.
//
//	sent              a heartbeat (or the claim) goes out
//	sent + T/6        the next one goes out; each try lasts at most T/6
//	sent + T - m - g  no answer since: the work is asked to stop (SIGTERM)
//	sent + T - m      the work is ended (SIGKILL)
//	sent + T          the earliest grant to another owner

// LeaseMargin is m, the reserve for clocks that run apart: max(200 ms, T/10).
func LeaseMargin(ttl time.Duration) time.Duration { return max(200*time.Millisecond, ttl/10) }

// LeaseGrace is g, the time that lost work gets to stop by itself: min(grace, T/3).
func LeaseGrace(ttl, grace time.Duration) time.Duration { return min(grace, ttl/3) }

// TermAfter is how long after sending the last successful heartbeat the work is
// asked to stop.
func TermAfter(ttl, grace time.Duration) time.Duration {
	return ttl - LeaseMargin(ttl) - LeaseGrace(ttl, grace)
}

// KillAfter is how long after sending the last successful heartbeat the work is
// ended.
func KillAfter(ttl time.Duration) time.Duration { return ttl - LeaseMargin(ttl) }

// HeartbeatEvery is the time between heartbeats, and the bound of each.
func HeartbeatEvery(ttl time.Duration) time.Duration { return ttl / 6 }

// LookEvery is how often the clock is looked at: a timer alone would sleep through
// a suspend.
func LookEvery(ttl time.Duration) time.Duration { return min(time.Second, LeaseMargin(ttl)/2) }
