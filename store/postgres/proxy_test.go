package postgres_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun"
)

// proxy stands between a store and its server, and knows where an answer ends: with the
// message ReadyForQuery (the PostgreSQL manual, "Message Formats").
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	trips int    // answers so far, those to new connections included
	lose  int    // how many more answers are thrown away, and the connection with each
	then  func() // is called when one was
	conns map[net.Conn]bool
	muted map[net.Conn]bool // of their clients: they get no answers any more
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]bool{}, muted: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		serving.Wait()
	})
	return p
}

// url is one by way of the proxy.
func (p *proxy) url(url, target string) string {
	return strings.Replace(url, target, p.listener.Addr().String(), 1)
}

// cut ends every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// mute lets no answer through any more on the connections that there are.
func (p *proxy) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.muted[c] = true
	}
}

func (p *proxy) isMuted(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.muted[c]
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	end := func() {
		_ = client.Close()
		_ = server.Close()
	}
	defer end()
	go func() {
		_, _ = io.Copy(server, client)
		end()
	}()
	var answer []byte
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		answer = append(append(answer, head...), body...)
		if head[0] != 'Z' && (head[0] != 'R' || binary.BigEndian.Uint32(body) == 0) {
			continue // more is to come, but for a question about the password
		}
		if head[0] == 'Z' && p.lost() {
			return
		}
		if !p.isMuted(client) {
			if _, err := client.Write(answer); err != nil {
				return
			}
		}
		answer = nil
	}
}

// lost counts an answer, and says whether it is to be lost.
func (p *proxy) lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trips++
	if p.lose == 0 {
		return false
	}
	p.lose--
	if p.then != nil {
		p.then()
	}
	return true
}

func (p *proxy) loseNext(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = n
}

// during counts the round trips that f takes.
func (p *proxy) during(f func()) int {
	p.mu.Lock()
	before := p.trips
	p.mu.Unlock()
	f()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips - before
}

// TestRoundTrips: what the owner of a run asks is one round trip each, on a connection that
// is there.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	target := strings.Split(strings.Split(url, "@")[1], "/")[0]
	p := newProxy(t, target)
	s := open(t, p.url(url, target))
	succeed(t, s, granted(t, s, claimOf("warm-up", ""))) // connects
	c := claimOf("settle", "2026-09-15")
	var g onerun.Grant
	n := int64(7)
	for _, step := range []struct {
		what string
		do   func()
		want int
	}{
		{"a claim", func() { g = granted(t, s, c) }, 1},
		{"a refused claim", func() { refused(t, s, again(c), onerun.RefusedRunning) }, 1},
		{"a heartbeat", func() {
			if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
				t.Error(err)
			}
		}, 1},
		{"a report", func() {
			if err := s.Report(soon(t), g.Lease, onerun.Progress{Processed: &n}); err != nil {
				t.Error(err)
			}
		}, 1},
		{"a takeover by proof", func() {
			next, err := s.ClaimKnowing(soon(t), again(claimOf("settle", "2026-09-16")), dead(g.Lease.Owner))
			if err != nil {
				t.Fatal(err)
			}
			g = next
		}, 1},
		{"an end", func() { succeed(t, s, g) }, 1},
	} {
		if got := p.during(step.do); got != step.want {
			t.Errorf("%s took %d round trips, expected %d", step.what, got, step.want)
		}
	}
}

// TestLostReplies: the server does what it was asked, and its answer is lost with the
// connection.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	target := strings.Split(strings.Split(url, "@")[1], "/")[0]
	p := newProxy(t, target)
	s := open(t, p.url(url, target))
	for lost, what := range map[int]string{1: "once: the store asks again by itself", 2: "twice: its caller does"} {
		succeed(t, s, granted(t, s, claimOf("warm-up", "")))
		c := claimOf("settle", map[int]string{1: "once", 2: "twice"}[lost])
		p.loseNext(lost)
		g, err := s.Claim(soon(t), c)
		if lost == 2 {
			if !errors.Is(err, onerun.ErrUnavailable) {
				t.Fatalf("%s: a claim without an answer: %v", what, err)
			}
			g, err = s.Claim(soon(t), c)
		}
		if err != nil || !g.Adopted || g.Lease.RunID != c.RunID {
			t.Fatalf("%s: the claim: expected the earlier grant, got %+v, %v", what, g.Lease, err)
		}
		p.loseNext(lost)
		_, err = s.Heartbeat(soon(t), g.Lease)
		if lost == 2 {
			_, err = s.Heartbeat(soon(t), g.Lease)
		}
		if err != nil {
			t.Errorf("%s: the heartbeat: %v", what, err)
		}
		p.loseNext(lost)
		end := onerun.Outcome{Status: onerun.Succeeded}
		err = s.Finish(soon(t), g.Lease, end)
		if lost == 2 {
			if !errors.Is(err, onerun.ErrUnavailable) {
				t.Fatalf("%s: an end without an answer: %v", what, err)
			}
			err = s.Finish(soon(t), g.Lease, end)
		}
		if err != nil {
			t.Errorf("%s: the end: %v", what, err)
		}
		if d := detail(t, s, c.RunID); d.Run.Status != onerun.Succeeded || len(d.Attempts) != 1 {
			t.Errorf("%s: expected one attempt that SUCCEEDED, got %s, %d attempts", what, d.Run.Status, len(d.Attempts))
		}
		refused(t, s, again(c), onerun.RefusedSucceeded)
	}
}

// TestDeadConnections: connections of the pool that died while nobody used them are
// replaced, and nobody is told.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	_, url := fresh(t)
	target := strings.Split(strings.Split(url, "@")[1], "/")[0]
	p := newProxy(t, target)
	s := open(t, p.url(url, target))
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	p.cut()
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("a heartbeat: %v", err)
	}
	p.cut()
	if err := s.Pause(soon(t), onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: "settle", Who: onerun.Who{By: "ann", Reason: "look"}}); err != nil {
		t.Errorf("pause: %v", err)
	}
	p.cut()
	succeed(t, s, g)
}
