package slogobs_test

import (
	"context"
	"log/slog"
	"os"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/observe/slogobs"
	"github.com/onerun-dev/onerun/store/memory"
)

func ExampleNew() {
	opts := &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: slogobs.ReplaceAttr}
	log := slog.New(slog.NewJSONHandler(os.Stderr, opts)).With("store", "postgres://db/onerun")
	runner := onerun.NewRunner(memory.New(), onerun.WithObserver(slogobs.New(log)))

	_ = runner.Do(context.Background(), onerun.Job{Name: "report"}, func(context.Context, *onerun.Owner) error { return nil })
	// {"time":"2026-09-15T01:00:00.004711+09:00","level":"info","event":"claimed","store":"postgres://db/onerun","namespace":"default","job":"report",…

	// Output:
}
