package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestWaitersTakeNoPlace: fires of a job that hangs wait in its line, where they keep no other job from running (B04).
func TestWaitersTakeNoPlace(t *testing.T) {
	for _, kind := range []OverlapKind{OverlapQueue, OverlapReplace} {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				b.takesOf["stuck"] = 100 * time.Hour
				stuck, ok := b.job("stuck", "* * * * *"), b.job("ok", "*/2 * * * *")
				stuck.Overlap.Kind = kind
				i := b.starts("a", 1, stuck, ok)
				i.SetLimits(2, nil)
				pass(10*time.Hour + time.Second)
				n := 0
				for _, r := range b.all() {
					if r.job == "ok" {
						n++
					}
				}
				if n != 300 {
					t.Errorf("the other job ran %d times of 300", n)
				}
				running, waiting := i.Counts()
				if kind == OverlapQueue && (running != 1 || waiting != 599) {
					t.Errorf("%d run and %d wait", running, waiting)
				}
				if kind == OverlapReplace && (running != 1 || waiting != 1) {
					t.Errorf("%d run and %d wait", running, waiting)
				}
			})
		})
	}
}

// TestQueueInOrder: what waits starts in the order of its slots, and nothing is lost or told as missed.
func TestQueueInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("j", "* * * * *")
		j.Overlap.Kind = OverlapQueue
		b.takes = 5 * time.Minute
		i := b.starts("a", 1, j)
		pass(30*time.Minute + 30*time.Second)
		b.mu.Lock()
		b.takes = 0
		b.mu.Unlock()
		pass(10 * time.Minute)
		i.quits()
		var slots []string
		for _, r := range b.all() {
			slots = append(slots, r.key)
		}
		if len(slots) != 40 || !slices.IsSorted(slots) || len(b.missed()) > 0 {
			t.Errorf("ran: %v; missed: %q", slots, b.missed())
		}
	})
}

// TestQueueBound: queue:N lets N wait, whoever started what runs.
func TestQueueBound(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		t.Run(fmt.Sprint("elsewhere ", elsewhere), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				j := b.job("j", "* * * * *")
				j.Overlap = Overlap{Kind: OverlapQueue, Queue: 2}
				b.takes = 100 * time.Hour
				if elsewhere {
					go func() {
						_ = onerun.NewRunner(b.mem).Do(t.Context(), onerun.Job{Name: "j", Partition: "by-hand", Policy: onerun.Policy{TTL: onerun.MaxTTL}}, func(ctx context.Context, _ *onerun.Owner) error {
							<-ctx.Done()
							return nil
						})
					}()
					synctest.Wait()
				}
				b.starts("a", 1, j)
				pass(10*time.Minute + time.Second)
				// Ten fires: one runs, unless another one does, two wait, the others are refused.
				want := int64(7)
				if elsewhere {
					want = 8
				}
				if n := b.skips("j"); n != want {
					t.Errorf("%d were refused, want %d", n, want)
				}
			})
		})
	}
}

// TestReplaceByTheNewest: of the fires that wait for what they replace only the newest starts, on whichever instance, and the others are told of.
func TestReplaceByTheNewest(t *testing.T) {
	for _, instances := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(instances), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				j := b.job("j", "* * * * *")
				j.Overlap.Kind = OverlapReplace
				b.takes = 10*time.Minute + 30*time.Second // it doesn't hear that it is to stop
				for n := range instances {
					b.starts(fmt.Sprint("i", n), 1, j)
				}
				pass(25 * time.Minute)
				var slots []string
				for _, r := range b.all() {
					slots = append(slots, strings.TrimPrefix(r.key, "j:2000-01-01T"))
				}
				// The first at 00:01 until 00:11:30; then that of 00:11, until 00:22; then that of 00:22 or the one before.
				if len(slots) != 3 || slots[0] != "00:01:00Z" || slots[1] != "00:11:00Z" || slots[2] != "00:22:00Z" && slots[2] != "00:21:00Z" {
					t.Errorf("ran: %v", slots)
				}
				if told := len(b.missed()); told < 20 || told > 21 { // one waits
					t.Errorf("%d were told as missed: %q", told, b.missed())
				}
			})
		})
	}
}

// TestLineOutlivesItsInstance: fires that have waited in line for long are not lost with the instance, killed or ended.
func TestLineOutlivesItsInstance(t *testing.T) {
	for _, killed := range []bool{true, false} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t)
				inner := b.store
				b.store = newGate(inner)
				j := b.job("j", "* * * * *")
				j.Overlap.Kind = OverlapQueue
				j.CatchUp.Policy = CatchUpAll
				b.takes = time.Hour
				i := b.starts("a", 1, j)
				pass(30*time.Minute + 30*time.Second)
				if killed {
					i.kill()
				} else {
					i.quits()
				}
				b.mu.Lock()
				b.takes = 0
				b.mu.Unlock()
				b.store = inner
				b.starts("b", 1, j)
				pass(2 * time.Hour)
				for m := 1; m <= 30; m++ {
					if key := "j:" + midnight().Add(time.Duration(m)*time.Minute).Format(time.RFC3339); b.keys()[key] != 1 {
						t.Errorf("%s ran %d times", key, b.keys()[key])
					}
				}
			})
		})
	}
}

// TestQueueBeside: fires of a job whose keys may run side by side don't wait for each other.
func TestQueueBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("j", "* * * * *")
		j.Overlap, j.Beside = Overlap{Kind: OverlapQueue, Queue: 1}, true
		b.takes = 100 * time.Hour
		i := b.starts("a", 1, j)
		pass(10*time.Minute + time.Second)
		if running, waiting := i.Counts(); running != 10 || waiting != 0 || b.skips("j") != 0 {
			t.Errorf("%d are under way, %d wait, %d were refused", running, waiting, b.skips("j"))
		}
	})
}
