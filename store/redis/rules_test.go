package redis_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/redis"
)

// TestSHA256: the server's own Lua reckons the same hashes as everybody else.
func TestSHA256(t *testing.T) {
	t.Parallel()
	c := direct(t, sharedServer(t))
	for n := range 200 {
		text := strings.Repeat("a\x00é\xff", n)[:n]
		want := sha256.Sum256([]byte(text))
		got, err := c.Eval(soon(t), redis.LuaSHA256+"return sha256(ARGV[1])", nil, text).Text()
		if err != nil || got != hex.EncodeToString(want[:]) {
			t.Fatalf("of %d bytes: %s, %v", n, got, err)
		}
	}
}

// TestNextRetry: a script reckons the same time as Policy.NextRetry does.
func TestNextRetry(t *testing.T) {
	t.Parallel()
	c := direct(t, sharedServer(t))
	const jitter = 0.25
	reasons := []onerun.Reason{
		onerun.ReasonExit, onerun.ReasonOwnerDied, onerun.ReasonLeaseExpired, onerun.ReasonStopped, onerun.ReasonLeaseLost, onerun.ReasonNotFound, onerun.ReasonNotExecutable,
	}
	for _, p := range []onerun.Policy{
		{},
		{Retries: 3},
		{Retries: 3, BackoffMin: time.Second},
		{Retries: 100, BackoffMin: time.Second, BackoffMax: time.Hour},
		{Retries: 100, BackoffMin: time.Minute, BackoffMax: time.Second, RetryLost: true},
		{Retries: 100, BackoffMin: 3 * time.Microsecond, BackoffMax: 1 << 60},
		{Retries: math.MaxInt32, BackoffMin: 1 << 55, BackoffMax: math.MaxInt64, RetryLost: true},
	} {
		for _, reason := range reasons {
			for _, failures := range []int{1, 2, 3, 4, 40, 100} {
				got, err := c.Eval(soon(t), redis.LuaRules+`local at = next_retry(ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]))
					return at and num(at - now) or ''`, nil, "x", redis.PolicyOf(p), failures, string(reason), jitter).Text()
				now := time.Unix(1e9, 0)
				want := ""
				if at, ok := p.NextRetry(now, failures, reason, jitter); ok {
					want = fmt.Sprint(at.Sub(now).Microseconds())
				}
				if err != nil || !near(got, want) {
					t.Errorf("%+v, %s, %d failures: expected %q, got %q, %v", p, reason, failures, want, got, err)
				}
			}
		}
	}
}

// near compares two spans in microseconds: halves are rounded otherwise, and a script's numbers
// have 53 bits, so that what is longer than thirty years ends at 142 of them.
func near(a, b string) bool {
	if a == "" || b == "" {
		return a == b
	}
	var x, y float64
	_, err := fmt.Sscan(a+" "+b, &x, &y)
	return err == nil && (math.Abs(x-y) <= 1+y*1e-9 || x > 1e15 && y > 1e15)
}

// TestChains: what machines and people decide follows from what was decided before, and
// whatever is changed shows.
func TestChains(t *testing.T) {
	t.Parallel()
	s, prefix := fresh(t)
	c := claimOf("settle", "p")
	c.TTL, c.Retries, c.RetryLost = time.Second, 5, true
	g := granted(t, s, c)
	for range 2 { // taken over twice: the script goes on with its own chain
		waitUntil(t, "the lease is over", func() bool {
			next, err := s.Claim(soon(t), again(c))
			if err == nil {
				g = next
			}
			return err == nil
		})
	}
	if _, err := s.Deliver(soon(t), onerun.Lease{Namespace: c.Namespace, RunID: g.Run.RunID, Attempt: 1, Owner: c.Owner}, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
		t.Fatal(err)
	}
	who := onerun.Who{By: "ana", Reason: "holidays"}
	for range 2 {
		if err := errors.Join(s.Pause(soon(t), onerun.PauseRequest{Namespace: c.Namespace, Job: "settle", Who: who}),
			s.Resume(soon(t), onerun.PauseRequest{Namespace: c.Namespace, Job: "settle", Who: who})); err != nil {
			t.Fatal(err)
		}
	}
	if f := finding(t, s, "event-chain"); f.Status != onerun.FindingOK || !strings.HasPrefix(f.Evidence, "7 events in 2 chains") {
		t.Fatalf("event-chain: %+v", f)
	}
	admin := direct(t, sharedServer(t))
	ops := prefix + ":{default}:ops"
	text, err := admin.LIndex(soon(t), ops, 1).Result()
	if err != nil {
		t.Fatal(err)
	}
	admin.LSet(soon(t), ops, 1, strings.Replace(text, "ana", "kim", 1))
	if f := finding(t, s, "event-chain"); f.Status != onerun.FindingDanger || !strings.Contains(f.Evidence, "event 1 of "+ops) {
		t.Errorf("event-chain after a change: %+v", f)
	}
	admin.LSet(soon(t), ops, 1, text)
	admin.LPop(soon(t), prefix+":{default}:ev:"+g.Run.RunID)
	if f := finding(t, s, "event-chain"); f.Status != onerun.FindingDanger {
		t.Errorf("event-chain after a removal: %+v", f)
	}
}

// TestNames (B22): whatever bytes a name has, it is not taken for another.
func TestNames(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	long := strings.Repeat("x", 250)
	names := []string{
		strings.Repeat("日", 90), strings.Repeat("a", 200), long + "1", long + "2", "settle", "Settle", "settle ", "{settle}", "}settle{", "a:b", "a", "a%3Ab", "%", "\xff", "\x00", "é", "e\u0301",
	}
	ns := map[string]bool{}
	for i, name := range names {
		c := claimOf("j", "p")
		c.Namespace, c.Job, c.Partition, c.Lock = name, name, name, onerun.LockName("name/"+name)
		g := granted(t, s, c)
		if g.Run.Job != name && name != "\xff" {
			t.Errorf("job %q became %q", name, g.Run.Job)
		}
		isRefused(t, s, again(c), onerun.RefusedRunning)
		shared := claimOf("j", "")
		shared.Job, shared.Lock = fmt.Sprint("job-", i), onerun.LockName("name/"+name)
		granted(t, s, shared) // in one namespace: every name has a lock of its own
		key := redis.KeyOf(s, name, "dir")
		if ns[key] {
			t.Errorf("namespace %q shares %s", name, key)
		}
		ns[key] = true
	}
}

// TestClientClock (B24): a client's clock decides nothing. A start that lies about its times,
// as a host whose clock is wrong does, gets the lease that it would get anyway.
func TestClientClock(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	for _, skew := range []time.Duration{-3 * time.Minute, 3 * time.Minute, -24 * time.Hour} {
		c := claimOf("settle", skew.String())
		c.RunID, c.ScheduledAt = onerun.NewRunID(time.Now().Add(skew)), time.Now().Add(skew)
		g := granted(t, s, c)
		left := g.Run.LeaseExpiresAt.Sub(g.At)
		if left != time.Minute || time.Since(g.At).Abs() > 10*time.Second {
			t.Errorf("skew %s: granted at %s for %s", skew, g.At, left)
		}
		isRefused(t, s, claimOf("settle", "other"), onerun.RefusedLocked)
		if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded, FinishedAt: time.Now().Add(skew)}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDurability: doctor says what a crash would lose.
func TestDurability(t *testing.T) {
	t.Parallel()
	server := newServer(t, "--appendonly", "yes")
	s, admin := open(t, server.URL()), direct(t, server)
	for _, c := range []struct {
		name, v string
		check   string
		want    onerun.FindingStatus
	}{
		{"appendfsync", "always", "durability", onerun.FindingOK},
		{"appendfsync", "everysec", "durability", onerun.FindingWarning},
		{"appendfsync", "no", "durability", onerun.FindingDanger},
		{"appendonly", "no", "durability", onerun.FindingDanger},
		{"maxmemory-policy", "noeviction", "eviction", onerun.FindingOK},
		{"maxmemory-policy", "volatile-lru", "eviction", onerun.FindingWarning},
		{"maxmemory-policy", "allkeys-lru", "eviction", onerun.FindingWarning},
		{"maxmemory", "1gb", "eviction", onerun.FindingDanger},
	} {
		if err := admin.ConfigSet(soon(t), c.name, c.v).Err(); err != nil {
			t.Fatal(err)
		}
		if f := finding(t, s, c.check); f.Status != c.want {
			t.Errorf("%s %s: %+v", c.name, c.v, f)
		}
	}
	for _, check := range []string{"connection", "encryption", "clock", "server", "primary", "replicas", "commands", "permissions", "event-chain"} {
		if f := finding(t, s, check); f.Status != onerun.FindingOK {
			t.Errorf("%s: %+v", check, f)
		}
	}
}

// TestURL: what is no URL of a store is said, and what one means.
func TestURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis:", "http://h", "redis://", "redis://h:port", "redis://h:0", "redis://h/x", "redis://h/-1", "redis://h1,h2", "redis://h?sentinel=m&cluster=true", "redis://h/1?cluster=true",
		"redis://h?cluster=maybe", "redis://h?prefix=a:b", "redis://h?prefix=", "redis://h?pool_size=0", "redis://h?ca_file=x", "rediss://h?cert_file=x", "redis://h?ttl=1", "redis://u:p%@h",
		"redis://h?connect_timeout=-1s", "redis://h,,h?cluster=true",
	} {
		if _, err := redis.Open(soon(t), url); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for url, name := range map[string]string{
		"redis://h": "redis://h:6379/0", "rediss://u:p@h:1/2": "rediss://h:1/2", "redis://[::1]:7/3?prefix=x": "redis://[::1]:7/3?prefix=x", "redis://[::1]": "redis://[::1]:6379/0",
		"redis://h1,h2:1/4?sentinel=m": "redis://h1:26379,h2:1/4?sentinel=m", "redis://h1,h2?cluster=true&prefix=x": "redis://h1:6379,h2:6379/0?prefix=x",
	} {
		s := open(t, url)
		if s.Name() != name {
			t.Errorf("%s: %s", url, s.Name())
		}
	}
	for _, url := range []string{"redis://h?password_file=/nonexistent", "rediss://h?ca_file=/nonexistent"} {
		if _, err := redis.Open(soon(t), url); !errors.Is(err, onerun.ErrConfig) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
