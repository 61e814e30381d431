package metricshttp_test

import (
	"net/http"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/observe/metrics"
	"github.com/onerun-dev/onerun/observe/metrics/metricshttp"
	"github.com/onerun-dev/onerun/store/memory"
)

func ExampleHandler() {
	m := metrics.New()
	runner := onerun.NewRunner(memory.New(), onerun.WithObserver(m))
	http.Handle("/metrics", metricshttp.Handler(m))
	_ = runner // and so on: runner.Do, http.ListenAndServe

	// Output:
}
