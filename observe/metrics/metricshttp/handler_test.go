package metricshttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/observe/metrics"
	"github.com/onerun-dev/onerun/observe/metrics/metricshttp"
)

func TestHandler(t *testing.T) {
	m := metrics.New()
	m.Observe(onerun.Observation{Event: onerun.EventLeaseLost})
	server := httptest.NewServer(metricshttp.Handler(m))
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != metrics.ContentType || !strings.Contains(string(body), "\nonerun_events_total{event=\"lease_lost\"} 1\n") {
		t.Errorf("%s %v\n%s", resp.Status, resp.Header, body)
	}
}
