package onerun_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"pgregory.net/rapid"
)

func TestNextToken(t *testing.T) {
	ms := func(n int64) time.Time { return time.UnixMilli(n) }
	for _, c := range []struct {
		last int64
		now  time.Time
		want int64
	}{
		{0, ms(1000), 1000},
		{999, ms(1000), 1000},
		{1000, ms(1000), 1001}, // twice in a millisecond
		{5000, ms(1000), 5001}, // the store's clock went back
		{0, ms(1000).Add(999 * time.Microsecond), 1000},
	} {
		if got := onerun.NextToken(c.last, c.now); got != c.want {
			t.Errorf("after %d at %d: %d; want %d", c.last, c.now.UnixMilli(), got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "last")
		now := ms(rapid.Int64Range(0, 1<<48).Draw(t, "now"))
		if got := onerun.NextToken(last, now); got <= last || got < now.UnixMilli() {
			t.Fatalf("after %d at %d: %d", last, now.UnixMilli(), got)
		}
	})
}

func TestRunIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<48-2).Draw(t, "ms")
		earlier := onerun.NewRunID(time.UnixMilli(ms))
		later := onerun.NewRunID(time.UnixMilli(ms + rapid.Int64Range(1, 1<<48-1-ms).Draw(t, "more")))
		if earlier >= later {
			t.Fatalf("%s is made before %s, and sorts after it", earlier, later)
		}
		for _, id := range []string{earlier, later} {
			if !onerun.IsRunID(id) || id[14] != '7' || !strings.Contains("89ab", id[19:20]) {
				t.Fatalf("%s is no UUID of version 7", id)
			}
		}
	})
	seen := map[string]bool{}
	for range 1000 {
		seen[onerun.NewRunID(time.UnixMilli(1))] = true
		seen[onerun.NewID()] = true
	}
	if len(seen) != 2000 {
		t.Errorf("%d of 2000 ids are different", len(seen))
	}
}

func TestIsRunID(t *testing.T) {
	good := "01920000-0000-7000-8000-0123456789ab"
	if !onerun.IsRunID(good) {
		t.Errorf("%s is refused", good)
	}
	for _, bad := range []string{
		"", "daily:2026-09-15", good[1:], good + "0", strings.ToUpper(good), strings.ReplaceAll(good, "-", "0"),
		"g" + good[1:], " " + good[1:], good[:8] + "0" + good[9:13] + "-" + good[14:], good[:35] + "é",
	} {
		if onerun.IsRunID(bad) {
			t.Errorf("%q is taken for a run id", bad)
		}
	}
}
