package httpconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// echo answers with what it was asked.
func echo(_ context.Context, r Request) Answer {
	return Answer{Status: 200, Body: fmt.Appendf(nil, "%s %s %s", r.Method, r.Path, r.Body)}
}

func refuse(status int, why string) Answer { return Answer{Status: status, Body: []byte(why)} }

func serving(t *testing.T, handle func(context.Context, Request) Answer) (address string, s *Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = Serve(l, handle, refuse)
	t.Cleanup(func() { s.Close(t.Context(), func() {}) })
	return l.Addr().String(), s
}

// TestServesNetHTTP: net/http's client gets its answers, whichever way it sends.
func TestServesNetHTTP(t *testing.T) {
	t.Parallel()
	address, _ := serving(t, echo)
	c := http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, ExpectContinueTimeout: time.Minute}}
	for _, send := range []struct {
		method, path, body string
		chunked, expect    bool
	}{
		{"GET", "/a", "", false, false},
		{"POST", "/b", "hello", false, false},
		{"POST", "/c", strings.Repeat("x", 50<<10), true, false},
		{"POST", "/d", "waits", false, true},
		{"PUT", "/e", "", true, false},
		{"POST", "/f", strings.Repeat("y", maxBody), false, false},
	} {
		var body io.Reader = strings.NewReader(send.body)
		if send.chunked {
			body = io.MultiReader(body) // of unknown length
		}
		req, err := http.NewRequestWithContext(t.Context(), send.method, "http://"+address+send.path+"?query=1", body)
		if err != nil {
			t.Fatal(err)
		}
		if send.expect {
			req.Header.Set("Expect", "100-continue")
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", send.path, err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want := send.method + " " + send.path + " " + send.body; err != nil || string(got) != want || resp.Close {
			t.Errorf("%s: answered %.100q, %v; close %v", send.path, got, err, resp.Close)
		}
	}
}

// TestRefuses: what is no request, or too much of one, is answered and ends the connection.
func TestRefuses(t *testing.T) {
	t.Parallel()
	address, _ := serving(t, echo)
	for _, c := range []struct {
		sent   string
		status int
	}{
		{"hello\r\n\r\n", 505},
		{"GET / HTTP/2.0\r\n\r\n", 505},
		{"GET / HTTP/1.1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		{"GET  HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", 413},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 413},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffff0\r\n", 413},
		{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("8000\r\n"+strings.Repeat("x", 0x8000)+"\r\n", 3), 413},
		{"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2*maxHead) + "\r\n\r\n", 431},
		{"GET /" + strings.Repeat("x", 2*maxHead) + " HTTP/1.1\r\nHost: a\r\n\r\n", 431},
		{"GET / HTTP/1.1\r\nHost: a\r\n no name\r\n: x\r\n\r\n", 400},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		go func() { _, _ = io.WriteString(conn, c.sent) }() // the server may stop reading
		r := bufio.NewReader(conn)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("%.80q: %v", c.sent, err)
		}
		why, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != c.status || len(why) == 0 {
			t.Errorf("%.80q: answered %d %s, want %d", c.sent, resp.StatusCode, why, c.status)
		}
		if _, err := r.ReadByte(); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%.80q: the connection goes on", c.sent)
		}
		_ = conn.Close()
	}
}

// TestClose: what is being answered is answered, what waits is cut off, and nothing is left.
func TestClose(t *testing.T) {
	t.Parallel()
	inside, goOn := make(chan struct{}), make(chan struct{})
	address, s := serving(t, func(ctx context.Context, r Request) Answer {
		if r.Path == "/slow" {
			inside <- struct{}{}
			select {
			case <-goOn:
			case <-ctx.Done():
				return Answer{Status: 503}
			}
		}
		return echo(ctx, r)
	})
	idle, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 2)
	ask := func() {
		status, _, err := Exchange(t.Context(), "tcp", address, Sent{Method: "GET", Host: "a", Target: "/slow"})
		if err != nil {
			status = -1
		}
		answered <- status
	}
	go ask()
	<-inside
	closed, late := make(chan struct{}), false
	go func() { s.Close(t.Context(), func() { late = true }); close(closed) }()
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection that waited got %v", err)
	}
	close(goOn)
	if status := <-answered; status != 200 {
		t.Errorf("what was being answered got %d", status)
	}
	if <-closed; !late {
		t.Error("that it waits for an answer wasn't said")
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("it still takes connections")
	}

	goOn = make(chan struct{})
	address, s = serving(t, func(ctx context.Context, _ Request) Answer {
		inside <- struct{}{}
		<-ctx.Done()
		return Answer{Status: 503}
	})
	go ask()
	<-inside
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Close(ctx, func() {}) // returns although the answer would never have come
	<-answered
}

// FuzzRequest: what this package takes for a request, net/http takes for the same one.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabcdef",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n",
		"POST / HTTP/1.0\r\n\r\nabc", "\r\nGET / HTTP/1.1\nHost: x\n\n", "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		r := newReader(bytes.NewReader(sent))
		q, _, err := r.request(io.Discard)
		if err != nil {
			return
		}
		want, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(bytes.TrimLeft(sent, "\r\n"))))
		if err != nil {
			if strings.Contains(err.Error(), "malformed") || strings.Contains(err.Error(), "invalid") {
				return // net/http looks closer at methods, hosts and escapes, which nobody here goes by
			}
			t.Fatalf("%q: taken for %+v, and by net/http for %v", sent, q, err)
		}
		body, err := io.ReadAll(want.Body)
		if err != nil || q.Method != want.Method || !bytes.Equal(body, q.Body) {
			t.Fatalf("%q: taken for %+v, and by net/http for %s with %q, %v", sent, q, want.Method, body, err)
		}
	})
}
