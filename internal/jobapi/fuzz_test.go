package jobapi

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/httpconn"
	"github.com/onerun-dev/onerun/store/memory"
)

// owned gives a run of a store in memory, while it is owned.
func owned(t testing.TB, f func(o *onerun.Owner, s onerun.Store)) {
	t.Helper()
	s := memory.New()
	err := onerun.NewRunner(s).Do(t.Context(), onerun.Job{Name: "pay"}, func(_ context.Context, o *onerun.Owner) error {
		f(o, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzRequest: whatever a job sends, it is answered in JSON with one of the documented statuses,
// and the counts stay counts.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `"x"`, `{"processed": 1}`, `{"processed": -1}`, `{"processed": 1e3}`, `{"processed": 9223372036854775808}`,
		`{"add": {"processed": 9223372036854775807}}`, `{"add": null}`, `{"skipped": true, "reason": "none"}`, `{"item": "order-1"}`,
		`{"item": "order-1", "payload": "x", "on_crash": "manual", "process": true}`, `{"item": "a\u0000b"}`, `{"item": "\ud800"}`,
		`{"item": "order-1", "owner": "x", "done": true, "exit_code": -1, "signal": "SIGTERM", "error": "\u0000"}`, "\x00\xff", `{"processed": 1}{`,
		strings.Repeat(`[`, 10_000), `{"processed": 1, "processed": 2}`,
	} {
		for path := range 3 {
			f.Add(path, body)
		}
	}
	f.Fuzz(func(t *testing.T, path int, body string) {
		owned(t, func(o *onerun.Owner, s onerun.Store) {
			x := &Server{Config: Config{Owner: o, Store: s, Timeout: time.Minute, Stopping: func() bool { return false }, Redact: onerun.Redact}}
			path := []string{PathReport, PathItemBegin, PathItemEnd}[uint(path)%3]
			for range 2 { // the second finds what the first has made
				a := x.handle(t.Context(), httpconn.Request{Method: "POST", Path: path, Body: []byte(body)})
				switch a.Status {
				case 200, 400, 409, 410:
				default:
					t.Errorf("%q: answered %d %s", body, a.Status, a.Body)
				}
				var answer map[string]any
				if err := json.Unmarshal(a.Body, &answer); err != nil {
					t.Errorf("%q: answered %q: %v", body, a.Body, err)
				}
				if a.Status != 200 && answer["error"] == "" {
					t.Errorf("%q: answered %d without a word of why", body, a.Status)
				}
			}
			for _, n := range []*int64{o.Progress().Processed, o.Progress().Failed} {
				if n != nil && *n < 0 {
					t.Errorf("%q: a count is %d", body, *n)
				}
			}
		})
	})
}
