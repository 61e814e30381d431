package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// letter is a request that somebody was told by.
type letter struct {
	path, query string
	header      http.Header
	body        []byte
}

// receiver is a server that keeps what it is told, and answers as it is made to.
type receiver struct {
	*httptest.Server
	got chan letter
}

func newReceiver(t testing.TB, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{got: make(chan letter, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body) // what was sent of it
		r.got <- letter{q.URL.Path, q.URL.RawQuery, q.Header, body}
		if answer != nil {
			answer(w, q)
		}
	}))
	t.Cleanup(func() { r.CloseClientConnections(); r.Close() })
	return r
}

// next waits for what is told next.
func (r *receiver) next(t testing.TB) letter {
	t.Helper()
	select {
	case l := <-r.got:
		return l
	case <-time.After(patience):
		t.Fatal("nothing is told")
		return letter{}
	}
}

// told is the next message, which is about an event.
func (r *receiver) told(t testing.TB, event string) map[string]any {
	t.Helper()
	m := r.next(t).message(t)
	if m["event"] != event {
		t.Fatalf("told of %v, not of %s: %v", m["event"], event, m)
	}
	return m
}

// silent says that nothing more was told: to be asked when onerun has ended, by when all is sent.
func (r *receiver) silent(t testing.TB) {
	t.Helper()
	select {
	case l := <-r.got:
		t.Errorf("it was told more: %s?%s %s", l.path, l.query, l.body)
	default:
	}
}

func (l letter) message(t testing.TB) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(l.body, &m); err != nil {
		t.Fatalf("%v in %q", err, l.body)
	}
	return m
}

// hangs accepts, and never answers: until whoever asked has gone.
func hangs(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }
