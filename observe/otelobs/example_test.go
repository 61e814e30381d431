package otelobs_test

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/observe/otelobs"
	"github.com/onerun-dev/onerun/store/memory"
)

func ExampleNew() {
	obs, err := otelobs.New(otel.GetTracerProvider(), otel.GetMeterProvider())
	if err != nil {
		fmt.Println(err)
		return
	}
	runner := onerun.NewRunner(memory.New(), onerun.WithObserver(obs))
	err = runner.Do(context.Background(), onerun.Job{Name: "report"}, func(ctx context.Context, _ *onerun.Owner) error {
		return ctx.Err() // ctx holds the attempt's span: what is asked with it stands below
	})
	fmt.Println(err)

	// Output:
	// <nil>
}
