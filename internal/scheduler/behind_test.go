package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestOutageInOneRow: what was due while the store was away is dealt with as what was missed while nobody looked: the newest
// runs, and one row tells of the others, however many instances wait for the store.
func TestOutageInOneRow(t *testing.T) {
	for _, instances := range []int{1, 3} {
		for _, policy := range []CatchUpPolicy{CatchUpNone, CatchUpLatest, CatchUpAll} {
			t.Run(fmt.Sprint(instances, policy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBed(t)
					away := &countingStore{Store: b.store}
					b.store = away
					j := b.job("j", "* * * * *")
					j.CatchUp.Policy = policy
					j.CatchUp.Spread = 0
					for n := range instances {
						b.starts(fmt.Sprint("i", n), 1, j)
					}
					pass(2*time.Minute + 30*time.Second)
					away.fail(true)
					pass(time.Hour)
					away.fail(false)
					pass(10 * time.Minute)
					var slots []string
					for _, r := range b.all() {
						slots = append(slots, strings.TrimPrefix(r.key, "j:2000-01-01T"))
					}
					if !slices.IsSorted(slots) || len(slots) != len(b.keys()) {
						t.Errorf("out of order, or twice: %v", slots)
					}
					if slots[0] != "00:01:00Z" || slots[1] != "00:02:00Z" || slots[len(slots)-1] != "01:12:00Z" {
						t.Errorf("ran: %v", slots)
					}
					switch told := b.missed(); {
					case policy == CatchUpAll:
						if len(slots) != 72 || len(told) > 0 {
							t.Errorf("%d ran; missed: %q", len(slots), told)
						}
					case len(told) != 1 || !strings.Contains(told[0], " fires from 2000-01-01T00:03:00Z to 2000-01-01T01:0"):
						t.Errorf("ran: %v; missed: %q", slots, told)
					}
				})
			})
		}
	}
}

// TestOutageIsNobodysDeath: an instance that could not say that it lives, since the store was away, is not taken for dead by one
// for which the store was away too.
func TestOutageIsNobodysDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("j", "* * * * *")
		j.Overlap.Kind = OverlapQueue // the ledger doesn't know of those that wait
		b.takes = time.Hour
		var away []*countingStore
		for n := range 2 {
			s := &countingStore{Store: b.mem}
			b.store, away = s, append(away, s)
			b.starts(fmt.Sprint("i", n), 1, j)
			pass(3*time.Minute + 30*time.Second)
		}
		for _, s := range away {
			s.fail(true)
		}
		pass(3 * time.Minute)
		away[1].fail(false)
		pass(20 * time.Second)
		away[0].fail(false)
		pass(2 * time.Minute)
		if n := b.count(Rescued); n > 0 {
			t.Errorf("%d were rescued", n)
		}
	})
}

// TestCatchUpAllInOrder: several instances catch up with what one of them takes, oldest first.
func TestCatchUpAllInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("j", "*/10 * * * *")
		j.CatchUp = CatchUp{Policy: CatchUpAll, Window: 24 * time.Hour, Cap: 100}
		first := b.starts("a", 1, j)
		pass(time.Minute)
		first.quits()
		pass(10 * time.Hour)
		b.takes = time.Second
		for n := range 3 {
			b.starts(fmt.Sprint("i", n), 1, j)
		}
		pass(5 * time.Minute)
		var slots []string
		for _, r := range b.all() {
			slots = append(slots, r.key)
		}
		if len(slots) != 60 || !slices.IsSorted(slots) {
			t.Errorf("%d ran: %v", len(slots), slots)
		}
	})
}

// lossy writes notes and loses the answers, and answers no question, while it is told to.
type lossy struct {
	Store
	lose atomic.Bool
}

func (l *lossy) SetNote(ctx context.Context, ns, name string, version int64, text string) (onerun.Note, error) {
	n, err := l.Store.SetNote(ctx, ns, name, version, text)
	if l.lose.Load() {
		return onerun.Note{}, failing()
	}
	return n, err
}

func (l *lossy) Note(ctx context.Context, ns, name string) (onerun.Note, error) {
	if l.lose.Load() {
		return onerun.Note{}, failing()
	}
	return l.Store.Note(ctx, ns, name)
}

// TestTakenUnknowingly: an instance that ends without knowing whether it has taken a slot leaves it to the others.
func TestTakenUnknowingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		store := &lossy{Store: b.store}
		b.store = store
		j := b.job("hourly", "0 * * * *")
		pass(time.Second) // so that it doesn't say that it lives while answers get lost
		i := b.starts("a", 1, j)
		pass(59*time.Minute + 57*time.Second)
		store.lose.Store(true)
		pass(2*time.Second + 100*time.Millisecond)
		store.lose.Store(false)
		i.quits()
		b.starts("b", 1, j)
		pass(2 * time.Minute)
		if b.keys()["hourly:2000-01-01T01:00:00Z"] != 1 {
			t.Errorf("ran: %v; missed: %q", b.all(), b.missed())
		}
	})
}
