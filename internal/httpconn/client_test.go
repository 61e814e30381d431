package httpconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestExchange: net/http's server gets the request as it is, and its answer comes back.
func TestExchange(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Host != "host.example" || r.URL.String() != "/path?q=1" || r.Header.Get("X-One") != "1" || string(body) != "hello" || r.Method != "POST" {
			t.Errorf("got %s %s %s %v %q, %v", r.Method, r.Host, r.URL, r.Header, body, err)
		}
		w.WriteHeader(http.StatusProcessing) // and then the answer
		w.WriteHeader(http.StatusTeapot)
		for range 100 { // in chunks
			_, _ = w.Write([]byte("0123456789"))
			w.(http.Flusher).Flush()
		}
	}))
	defer s.Close()
	status, body, err := exchange(t.Context(), s.Listener.Addr().String())
	if status != http.StatusTeapot || len(body) != 1000 || err != nil {
		t.Errorf("answered %d, %d bytes, %v", status, len(body), err)
	}
	bad := Sent{Method: "GET", Host: "x", Target: "/", Fields: map[string]string{"X": "a\r\nY: b"}}
	if _, _, err := Exchange(t.Context(), "tcp", s.Listener.Addr().String(), bad); err == nil {
		t.Error("a field with an end of line in it was sent")
	}
}

func exchange(ctx context.Context, address string) (int, []byte, error) {
	return Exchange(ctx, "tcp", address, Sent{
		Method: "POST", Host: "host.example", Target: "/path?q=1", Fields: map[string]string{"X-One": "1"}, Body: []byte("hello"),
	})
}

// TestExchangeHangs: a server that says nothing, or never ends, holds nobody longer than the
// context does.
func TestExchangeHangs(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{"nothing": "", "half a head": "HTTP/1.1 200 OK\r\nX", "half a body": "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nx"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := answering(t, func(c net.Conn) {
				_, _ = io.WriteString(c, says)
				_, _ = io.Copy(io.Discard, c)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, _, err := exchange(ctx, address); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
	for name, c := range map[string]struct {
		says   string
		status int
	}{
		"a head without end": {"HTTP/1.1 200 OK\r\n", 0},
		"a body without end": {"HTTP/1.1 200 OK\r\n\r\n", 200},
		"a long body":        {"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := answering(t, func(conn net.Conn) {
				_, err := io.WriteString(conn, c.says)
				for err == nil {
					_, err = io.WriteString(conn, strings.Repeat("X: y\r\n", 1000))
				}
			})
			status, body, err := exchange(t.Context(), address)
			if status != c.status || (err == nil) != (c.status != 0) || len(body) > maxBody {
				t.Errorf("answered %d, %d bytes, %v", status, len(body), err)
			}
		})
	}
}

// answering is a server that does the same to everybody.
func answering(t *testing.T, do func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer func() { _ = c.Close() }(); do(c) }()
		}
	}()
	return l.Addr().String()
}

// FuzzAnswer: what this package takes for an answer, net/http takes for the same one.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.0 500 x\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		status, body, err := newReader(bytes.NewReader(said)).answer()
		if err != nil {
			return
		}
		r := bufio.NewReader(bytes.NewReader(bytes.TrimLeft(said, "\r\n")))
		for {
			want, err := http.ReadResponse(r, nil)
			if err != nil {
				return // it looks closer
			}
			if want.StatusCode < 200 && want.StatusCode != 101 {
				continue
			}
			all, err := io.ReadAll(want.Body)
			if err == nil && (status != want.StatusCode || !bytes.Equal(body, all)) {
				t.Fatalf("%q: taken for %d %q, and by net/http for %d %q", said, status, body, want.StatusCode, all)
			}
			return
		}
	})
}
