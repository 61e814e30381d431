// Package metricshttp serves what package metrics counts. It is a package of its own so that a
// program without a web server doesn't link one.
package metricshttp

import (
	"net/http"

	"github.com/onerun-dev/onerun/observe/metrics"
)

// Handler answers every request with the metrics, for Prometheus to fetch.
func Handler(m *metrics.Metrics) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", metrics.ContentType)
		_, _ = m.WriteTo(w) // a client that went away has nothing more to be told
	})
}
