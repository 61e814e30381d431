package sqlledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// shelf is a store of successes of one job, in their order, and of tombstones.
type shelf struct {
	runs, keys []string
	skips      []onerun.Skip
	told       []string
	cuts       int
}

func (s *shelf) Now() time.Time { return time.Unix(1, 0) }

func (s *shelf) Event(e onerun.Event, _ onerun.Run) error {
	s.told = append(s.told, e.Name)
	return nil
}

func (s *shelf) JobNames(string) ([]string, error) { return []string{"j"}, nil }

func (s *shelf) CutOf(_, _ string, keep int) (Cut, bool, error) {
	s.cuts++
	if keep >= len(s.runs) {
		return Cut{}, false, nil
	}
	return Cut{ID: s.runs[len(s.runs)-1-keep]}, true, nil
}

func (s *shelf) Prunable(q onerun.PruneRequest, at *Cursor) (found []Chosen, err error) {
	for _, id := range s.runs {
		if c := (Chosen{ID: id}); id > at.ID && at.Cuts["j"].Includes(c) && len(found) <= q.Limit {
			found = append(found, c)
		}
	}
	return found, nil
}

func (s *shelf) Remove(found []Chosen, forget bool, p *onerun.Pruned) error {
	for _, c := range found {
		s.runs = slices.DeleteFunc(s.runs, func(id string) bool { return id == c.ID })
		p.Runs++
	}
	return nil
}

func (s *shelf) Refused(q onerun.PruneRequest) ([]onerun.Skip, error) {
	return s.skips[:min(len(s.skips), q.Limit+1)], nil
}

func (s *shelf) RemoveRefused(_ onerun.PruneRequest, found []onerun.Skip) (int64, error) {
	s.skips = s.skips[len(found):]
	return int64(len(found)), nil
}

func (s *shelf) Forgettable(q onerun.PruneRequest) ([]string, error) {
	return s.keys[:min(len(s.keys), q.Limit+1)], nil
}

func (s *shelf) Forget(_ string, keys []string) error {
	s.keys = slices.Clone(s.keys[len(keys):])
	return nil
}

// TestPruneSteps: each step goes on where the one before it ended, looks for what stays once only, and never removes
// more than its limit; the first one that finds something is told of.
func TestPruneSteps(t *testing.T) {
	s := &shelf{skips: make([]onerun.Skip, 7)}
	for i := range 12 {
		s.runs = append(s.runs, fmt.Sprintf("r%02d", i))
	}
	do := func(_ context.Context, _ string, f func(*shelf) error) error { return f(s) }
	q := onerun.PruneRequest{Namespace: "default", Job: "j", Keep: 3, Limit: 4, Who: onerun.Who{By: "ann"}}
	var steps, refusals []int64
	for more := true; more; {
		p, err := Prune(t.Context(), do, do, q)
		if err != nil {
			t.Fatal(err)
		}
		steps, refusals, more, q.Cursor = append(steps, p.Runs), append(refusals, p.Refusals), p.More, p.Cursor
		q.Before = time.Unix(1, 0) // refusals go by a time alone, and once no run is left
	}
	if !slices.Equal(steps, []int64{4, 4, 1, 0}) || !slices.Equal(refusals, []int64{0, 0, 4, 3}) || strings.Join(s.runs, " ") != "r09 r10 r11" || s.cuts != 1 || len(s.told) != 1 {
		t.Errorf("steps of %v and %v; %v stay; cut %d times; told of %v", steps, refusals, s.runs, s.cuts, s.told)
	}
}

// TestForgetAfterRuns: tombstones go once no run is left, and a number to keep says nothing of them.
func TestForgetAfterRuns(t *testing.T) {
	forgotten := func(q onerun.PruneRequest, more bool) (int64, bool) {
		s := &shelf{keys: []string{"a", "b", "c"}}
		p, err := Choice{More: more}.Remove(s, q)
		if err != nil {
			t.Fatal(err)
		}
		return p.Forgotten, p.More
	}
	q := onerun.PruneRequest{Namespace: "default", Oldest: true, ForgetKeys: true, Limit: 2}
	if n, more := forgotten(q, true); n != 0 || !more {
		t.Errorf("runs are left: %d forgotten, more %v", n, more)
	}
	if n, more := forgotten(q, false); n != 2 || !more {
		t.Errorf("no run is left: %d forgotten, more %v", n, more)
	}
	q.Limit = 3
	if n, more := forgotten(q, false); n != 3 || more {
		t.Errorf("the last: %d forgotten, more %v", n, more)
	}
	q.Oldest, q.Keep = false, 1
	if n, more := forgotten(q, false); n != 0 || more {
		t.Errorf("a number to keep: %d forgotten, more %v", n, more)
	}
}

func TestCursor(t *testing.T) {
	c, err := DecodeCursor("", -5)
	if err != nil || c.Started != -5 {
		t.Fatal(c, err)
	}
	if _, err := DecodeCursor("{", 0); !errors.Is(err, onerun.ErrUsage) {
		t.Errorf("a broken cursor: %v", err)
	}
	c.Cuts = map[string]Cut{"j": {Started: 7, ID: "r"}}
	before := int64(9)
	if a, b := c.Last(nil, -5), c.Last(&before, -5); a != 7 || b != 9 {
		t.Error(a, b)
	}
	if back, err := DecodeCursor(c.encode(), 0); err != nil || back.Started != -5 || back.Cuts["j"] != c.Cuts["j"] {
		t.Error(back, err)
	}
}
