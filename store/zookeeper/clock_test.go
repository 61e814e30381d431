package zookeeper

import (
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/kvledger"
)

// TestClockIsTheServers (B24): what this host's clock shows plays no part, and the clock is never ahead of the server's.
func TestClockIsTheServers(t *testing.T) {
	t.Parallel()
	c := clock{begun: time.Now()}
	if _, _, ok := c.now(); ok {
		t.Fatal("it knows the time, and nobody has told it")
	}
	for _, skew := range []time.Duration{-3 * time.Minute, 0, 3 * time.Minute} { // a server whose clock is stepped
		// It was sent 20 milliseconds ago, and the server wrote it half of that ago.
		server, sent := time.Now().Add(skew-10*time.Millisecond), c.elapsed()-20*time.Millisecond
		c.tell(server.UnixMilli(), sent)
		now, age, ok := c.now()
		if off := now.Sub(time.Now().Add(skew)); !ok || off > 0 || off < -10*time.Second || age > 10*time.Second {
			t.Errorf("the server's clock is off by %s: this one by %s more, %s old", skew, off, age)
		}
	}
	// A later answer that took longer says less, and doesn't set the clock back.
	before, _, _ := c.now()
	sent := c.elapsed()
	c.tell(before.Add(-5*time.Millisecond).UnixMilli(), sent-20*time.Millisecond)
	if now, _, _ := c.now(); now.Before(before) {
		t.Errorf("set back by %s", before.Sub(now))
	}
	c.forget()
	if _, _, ok := c.now(); ok {
		t.Error("it goes on after another server may have taken over")
	}
}

// TestStamps: none is earlier than what was seen, if that can be; and there is none without the server's time.
func TestStamps(t *testing.T) {
	t.Parallel()
	c := clock{begun: time.Now()}
	now := time.Now()
	c.tell(now.UnixMilli(), c.elapsed())
	written := now.Add(500 * time.Millisecond)
	c.seen(written)
	if s, ok := c.stamp(enough); !ok || s.Before(written) {
		t.Errorf("stamped %s before what was read, %t", written.Sub(s), ok)
	}
	c.seen(now.Add(time.Hour)) // somebody's clock was wrong once
	if s, ok := c.stamp(enough); !ok || s.After(now.Add(time.Minute)) {
		t.Errorf("stamped %s ahead, %t", s.Sub(now), ok)
	}
	c.forget() // the connection is lost in just that moment
	if s, ok := c.stamp(enough); ok {
		t.Errorf("stamped %s by no clock", s)
	}
}

// TestStampsFollowWhatWasRead: who reads what another one wrote stamps later than that, by however little it knows the
// server's clock worse.
func TestStampsFollowWhatWasRead(t *testing.T) {
	t.Parallel()
	url := freshURL(sharedServer(t).Addr())
	a, b := openSpace(t, url), openSpace(t, url)
	key, listed := "run/0193f0a1-b2c3-7000-8000-000000000001", "time/default/01764540123456789/x"
	for what, look := range map[string]func() error{
		"a read": func() error { _, err := a.Read(soon(t), key); return err },
		"a list": func() error { _, err := a.Range(soon(t), "time/", "time0", 10); return err },
	} {
		if _, err := a.Now(soon(t)); err != nil {
			t.Fatal(err)
		}
		commits(t, b, kvledger.Txn{Writes: []kvledger.Write{put(key, what), put(listed, what)}})
		_, stat, err := direct(t, sharedServer(t).Addr()).Get(b.nodePath(key))
		if err != nil {
			t.Fatal(err)
		}
		a.clock.mu.Lock() // it has been told the time by answers that took long
		behind := a.clock.elapsed()
		a.clock.low, a.clock.high = time.UnixMilli(stat.Mtime-500).Add(-behind), time.UnixMilli(stat.Mtime-500).Add(-behind)
		a.clock.heard, a.clock.floor = behind, time.Time{}
		a.clock.mu.Unlock()
		if err := look(); err != nil {
			t.Fatal(err)
		}
		if now, err := a.Now(soon(t)); err != nil || now.Before(time.UnixMilli(stat.Mtime)) {
			t.Errorf("after %s: stamped %s before what was read, %v", what, time.UnixMilli(stat.Mtime).Sub(now), err)
		}
	}
}
