package onerun_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// What Do can't work with is a mistake of the caller's, found before anything is claimed.
func TestMistakes(t *testing.T) {
	ctx, s := t.Context(), memory.New()
	nothing := func(context.Context, *onerun.Owner) error { return nil }
	r := onerun.NewRunner(s)
	for what, err := range map[string]error{
		"no function":              r.Do(ctx, daily("p"), nil),
		"no function under a lock": onerun.WithLock(ctx, s, "db", nil),
		"no store":                 onerun.NewRunner(nil).Do(ctx, daily("p"), nothing),
		"no store for a lock":      onerun.WithLock(ctx, nil, "db", func(context.Context) error { return nil }),
		"no Runner":                new(onerun.Runner).Do(ctx, daily("p"), nothing),
		"a date that is none":      r.Do(ctx, onerun.Job{Name: "daily", BusinessDate: "yesterday"}, nothing),
		"a year without end":       r.Do(ctx, onerun.Job{Name: "daily", ScheduledAt: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)}, nothing),
		"a year before all":        r.Do(ctx, onerun.Job{Name: "daily", ScheduledAt: time.Date(-4000, 1, 1, 0, 0, 0, 0, time.UTC)}, nothing),
		"a day that is none":       r.Do(ctx, onerun.Job{Name: "daily", BusinessDate: "2026-02-30"}, nothing),
	} {
		if !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("%s: %v; want ErrUsage", what, err)
		}
	}
	if runs, err := s.Runs(ctx, onerun.Query{Namespace: onerun.DefaultNamespace}); err != nil || len(runs) != 0 {
		t.Errorf("runs: %+v, %v; want none", runs, err)
	}
	for what, opt := range map[string]onerun.Option{
		"no option": nil, "no observer": onerun.WithObserver(nil), "no clock": onerun.WithClock(nil),
		"no redaction": onerun.WithRedaction(nil), "no time": onerun.WithStoreTimeout(0), "less than no time": onerun.WithStoreTimeout(-1),
	} {
		if err := onerun.NewRunner(s, opt).Do(ctx, onerun.Job{Name: "daily"}, nothing); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
