package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/bed"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/internal/redisbed"
)

// fakeClock steps the clock of one server, and of nothing else, by libfaketime. Not for etcd and
// ZooKeeper: what is written in Go, and Java's machine, ask the kernel by themselves.
type fakeClock struct {
	path    string
	offset  time.Duration
	forward time.Time // when it was last stepped so
}

// stepped starts the server again, with a clock that can be stepped; nil: it can't be.
func stepped(t *testing.T, s daemon) *fakeClock {
	t.Helper()
	var d *bed.Daemon
	preload := faketime(t)
	switch s := s.(type) {
	case *pgbed.Server:
		d = s.Daemon
	case *mariadbbed.Server:
		d = s.Daemon
	case *redisbed.Server:
		d = s.Daemon
		// Debian's brings jemalloc, which asks for the time as it starts, before libfaketime is ready
		// to allocate by it. The C library's own comes first, so.
		preload += ":" + one(t, "/lib/*-linux-gnu*/libc.so.6")
	default:
		return nil
	}
	c := &fakeClock{path: filepath.Join(d.Home, "clock")}
	if err := c.set(0); err != nil {
		t.Fatal(err)
	}
	d.Env = []string{
		"LD_PRELOAD=" + preload, "FAKETIME_TIMESTAMP_FILE=" + c.path, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", // by its old name and the new one
	}
	s.Stop(syscall.SIGTERM)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

func faketime(t *testing.T) string {
	t.Helper()
	return one(t, "/usr/lib/*/faketime/libfaketime.so.1")
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s is missing: make test-deps installs it (%v)", pattern, err)
	}
	return found[0]
}

// set takes effect at once: the file is read with each look at the clock.
func (c *fakeClock) set(offset time.Duration) error {
	c.offset = offset
	next := c.path + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+.6f\n", offset.Seconds()), 0o644); err != nil {
		return err
	}
	return os.Rename(next, c.path)
}

// step steps the clock: back by any time, forward by as much as the guarantees allow, and once
// within a lease.
func (c *fakeClock) step(w *world, r *rand.Rand) bool {
	if c == nil {
		return false
	}
	by := -time.Duration(r.IntN(3000)) * time.Millisecond
	if r.IntN(3) > 0 {
		if time.Since(c.forward) < w.ttl*3/2 {
			return false
		}
		by, c.forward = onerun.LeaseMargin(w.ttl)*3/4*9/10, time.Now()
	}
	if err := c.set(c.offset + by); err != nil {
		w.violate("machine", "step the clock: %v", err)
	}
	return true
}

// TestSteppedClock: the clock of a server really is stepped, and only by what the torture asks for.
func TestSteppedClock(t *testing.T) {
	t.Parallel()
	s := server(t)
	c := stepped(t, s)
	h := newHost(t, s.URL("postgres", "schema", "one"))
	for i, offset := range []time.Duration{0, -time.Hour} {
		if err := c.set(offset); err != nil {
			t.Fatal(err)
		}
		before := time.Now()
		h.run("run", fmt.Sprint("settle-", i), "--", "true").exits(t, 0)
		text, _ := h.only(fmt.Sprint("settle-", i))["started_at"].(string)
		at, err := time.Parse(time.RFC3339, strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		if off := at.Sub(before.Add(offset)); off < -time.Second || off > time.Minute {
			t.Errorf("by the server's clock, %s off, it started at %s, and it is %s", offset, at, before)
		}
	}
}
