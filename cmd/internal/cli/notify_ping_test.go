package cli

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// pinged waits for a ping.
func (r *receiver) pinged(t testing.TB, path, rid string) letter {
	t.Helper()
	l := r.next(t)
	if l.path != path || rid != "" && !strings.HasSuffix("&"+l.query, "&rid="+rid) || !strings.Contains("&"+l.query, "&rid=") {
		t.Fatalf("pinged %s?%s, want %s with the run %s", l.path, l.query, path, rid)
	}
	return l
}

// TestPing: start, then success or fail, in this order, each with the run's id; a skip pings nothing.
func TestPing(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	run := func(code int, partition string, more ...string) string {
		b.run(append([]string{"run", "settle", "--partition", partition, "--ping", r.URL + "/id?z=1"}, more...)...).exits(t, code)
		return b.object(t, "show", "settle:"+partition)["run_id"].(string)
	}
	id := run(0, "p", "--", "echo", "all is well")
	if l := r.pinged(t, "/id/start", id); !strings.HasPrefix(l.query, "z=1&") {
		t.Errorf("its query is %s", l.query)
	}
	if l := r.pinged(t, "/id", id); !strings.Contains(string(l.body), "all is well") {
		t.Errorf("it says %s", l.body)
	}
	id = run(3, "q", "--", "sh", "-c", "head -c 60000 /dev/zero | tr '\\0' x; echo token=c4n4ry; exit 3")
	r.pinged(t, "/id/start", id)
	l := r.pinged(t, "/id/fail", id)
	if body := string(l.body); !strings.HasPrefix(body, "FAILED, exit code 3\n") || !strings.HasSuffix(body, "xxtoken=***\n") && !strings.HasSuffix(body, "token=***\n") || len(body) > 10_000 || len(body) < 9_000 {
		t.Errorf("%d bytes: %.60q … %q", len(body), body, body[max(0, len(body)-60):])
	}
	run(79, "q", "--", "true")
	run(0, "p", "--", "true")
	r.silent(t)

	// Each attempt, of one run; and what never started has only failed.
	id = run(0, "r", "--retries", "1", "--backoff", "10ms", "--", "sh", "-c", "test $ONERUN_ATTEMPT -gt 1")
	for _, path := range []string{"/id/start", "/id/fail", "/id/start", "/id"} {
		r.pinged(t, path, id)
	}
	id = run(127, "s", "--", "./no-such-command")
	r.pinged(t, "/id/fail", id)
	r.silent(t)
}

// TestPingWaitsForStart: a slow start ping delays neither the job nor its record, and the end is pinged when the
// start has been, or was given up.
func TestPingWaitsForStart(t *testing.T) {
	t.Parallel()
	for _, answers := range []bool{true, false} {
		b := newBed(t)
		release := make(chan struct{})
		var others atomic.Int32
		r := newReceiver(t, func(_ http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, "/start") {
				select {
				case <-release:
				case <-q.Context().Done():
				}
			} else {
				others.Add(1)
			}
		})
		p := b.start("run", "settle", "--partition", "p", "--ping", r.URL, "--", "echo", "the job runs")
		r.pinged(t, "/start", "")
		p.says("the job runs")
		if !eventually(func() bool { return b.object(t, "show", "settle:p")["status"] == "SUCCEEDED" }) {
			t.Fatal("the end isn't recorded")
		}
		if n := others.Load(); n != 0 {
			t.Errorf("%d pings overtook the start", n)
		}
		if answers {
			release <- struct{}{}
		}
		r.pinged(t, "/", "")
		if code := p.wait(); code != 0 {
			t.Errorf("exit status %d", code)
		}
		if line := p.err.String(); answers == strings.Contains(line, "ping/start to http://") {
			t.Errorf("it says %q", line)
		}
		r.silent(t)
	}
}
