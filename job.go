package onerun

import (
	"errors"
	"fmt"
	"time"
)

// OnCrash says what may happen to a run whose owner is dead.
type OnCrash string

// The two policies.
const (
	CrashAuto   OnCrash = "auto"   // the next claim closes the dead attempt as FAILED
	CrashManual OnCrash = "manual" // the run stays RUNNING until a person resolves it
)

// LockMode says what the lock on this host is made of.
type LockMode string

// The two modes; see package filelock.
const (
	LockFlock  LockMode = "flock"
	LockCreate LockMode = "create"
)

// Order says who of those that wait for a lock gets it.
type Order string

// The two orders.
const (
	OrderAny  Order = ""     // whoever comes first when it is free
	OrderFIFO Order = "fifo" // first come, first served; see Claim.Order
)

// Defaults of a job's policies.
const (
	DefaultTTL        = 60 * time.Second
	MinTTL            = time.Second
	MaxTTL            = 24 * time.Hour
	DefaultGrace      = 10 * time.Second
	DefaultFinishWait = 30 * time.Second
	MinStaleAfter     = 10 * time.Minute // least default of StaleAfter
	DefaultNamespace  = "default"
)

// UsualRuns is how many of a job's last successes its default StaleAfter is reckoned from.
const UsualRuns = 50

// UsualStaleAfter is the default of StaleAfter: twice the longest of the job's last
// UsualRuns successes, and at least MinStaleAfter.
func UsualStaleAfter(longest time.Duration) time.Duration { return max(MinStaleAfter, 2*longest) }

// Forever as Job.Wait waits without end. Any other negative wait, such as the time
// until a moment that has passed, is none.
const Forever = time.Duration(-1)

// Policy is what the owner of a claim brings along. It is stored with the claim
// and judges its owner later on; a later caller's policy never does.
type Policy struct {
	TTL        time.Duration // lease; 0: DefaultTTL
	OnCrash    OnCrash       // "": auto
	StaleAfter time.Duration // 0: from history, see Run.Stale; only lists and alerts
	Retries    int           // executions after the first that known failures may have; see Runner.Do
	BackoffMin time.Duration // wait before the first retry; 0: retry at once
	BackoffMax time.Duration // bound of the wait, which doubles each time
	RetryLost  bool          // retry after lease_expired too
	TwoPeople  bool          // a rerun needs two people: one requests it, another approves
}

// Job is a named piece of scheduled work, as Runner.Do takes it.
type Job struct {
	Namespace    string   // "": DefaultNamespace
	Name         string   // "", with a Lock: that lock alone, and nothing is recorded
	Partition    string   // "": unkeyed
	BusinessDate string   // YYYY-MM-DD, or empty
	Lock         LockName // "": JobLock(Name)
	LockMode     LockMode // "": LockFlock
	Order        Order    // of those who wait for the lock
	ScheduledAt  time.Time
	Policy
	Grace        time.Duration // from asking the work to stop to ending it; 0: DefaultGrace
	Wait         time.Duration // how long to wait while running or locked; 0 or less: not at all; Forever
	FinishWait   time.Duration // how long to try recording the end; 0: DefaultFinishWait
	RetryLater   bool          // leave retries to later starts, instead of waiting for them here
	WorkerLabel  string
	VersionLabel string
	Labels       map[string]string
}

// check looks for what no store should be asked to do.
func (j Job) check() error {
	switch {
	case j.Partition != "" && j.Name == "":
		return errors.New("a partition needs a job")
	case j.LockMode != LockFlock && j.LockMode != LockCreate:
		return fmt.Errorf("lock mode %q is unknown; use %s or %s", j.LockMode, LockFlock, LockCreate)
	case j.Order != OrderAny && j.Order != OrderFIFO:
		return fmt.Errorf("order %q is unknown; use %s, or leave it empty", j.Order, OrderFIFO)
	case j.OnCrash != CrashAuto && j.OnCrash != CrashManual:
		return fmt.Errorf("crash policy %q is unknown; use %s or %s", j.OnCrash, CrashAuto, CrashManual)
	case j.TTL < MinTTL || j.TTL > MaxTTL:
		return fmt.Errorf("the lease of %s is out of range; use %s to %s", j.TTL, MinTTL, MaxTTL)
	case j.BusinessDate != "" && !isDate(j.BusinessDate):
		return fmt.Errorf("business date %s is none; write it as YYYY-MM-DD", quoteName(j.BusinessDate))
	case !j.ScheduledAt.IsZero() && (j.ScheduledAt.UTC().Year() < 1 || j.ScheduledAt.UTC().Year() > 9999):
		return fmt.Errorf("it is scheduled for the year %d, which no record has room for; use one of 1 to 9999", j.ScheduledAt.UTC().Year())
	case j.Retries < 0:
		return fmt.Errorf("%d retries are fewer than none", j.Retries)
	}
	for _, d := range []struct {
		what  string
		value time.Duration
	}{
		{"stale after", j.StaleAfter},
		{"least backoff", j.BackoffMin},
		{"greatest backoff", j.BackoffMax},
		{"grace", j.Grace},
		{"time to record the end", j.FinishWait},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s of %s is negative", d.what, d.value)
		}
	}
	return nil
}

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

// NextRetry says when the next execution after a failed one is due, and whether
// there is one. failures counts the attempts that failed so far and cost a retry,
// this one included. jitter is a random number in [0, 1): the wait is between the
// half and the whole of the doubled backoff, never under BackoffMin, never over
// BackoffMax (one under BackoffMin counts as BackoffMin), never negative, and the
// doubling stops before it could overflow.
func (p Policy) NextRetry(now time.Time, failures int, reason Reason, jitter float64) (time.Time, bool) {
	switch reason {
	case ReasonNotFound, ReasonNotExecutable, ReasonStopped, ReasonLeaseLost:
		return time.Time{}, false
	case ReasonLeaseExpired:
		if !p.RetryLost {
			return time.Time{}, false
		}
	}
	if failures < 1 || failures > p.Retries {
		return time.Time{}, false
	}
	least := max(p.BackoffMin, 0)
	limit := max(p.BackoffMax, least)
	wait := least
	for i := 1; i < failures && wait < limit; i++ {
		if wait > limit/2 {
			wait = limit
		} else {
			wait *= 2
		}
	}
	wait = max(least, wait/2+time.Duration(jitter*float64(wait/2)))
	return now.Add(min(wait, limit)), true
}
