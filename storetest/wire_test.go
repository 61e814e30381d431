package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
	"github.com/onerun-dev/onerun/storetest"
)

// The store of this file is in the memory of the test's process, and other
// processes reach it over a socket. With it the suite's other half is tested: the
// clients that are processes, that are killed, and (with holding) the promises of
// stores whose exclusion ends with the holder.

func TestMain(m *testing.M) {
	storetest.Child(func(_ context.Context, url string, hook func(string)) (onerun.Store, error) {
		conn, err := net.Dial("unix", url)
		if err != nil {
			return nil, err
		}
		r := &remote{conn: conn, enc: json.NewEncoder(conn), dec: json.NewDecoder(conn), hook: hook}
		return r, r.enc.Encode(os.Getpid())
	})
	os.Exit(m.Run())
}

// message is a request or its answer.
type message struct {
	Claim   *onerun.Claim   `json:",omitempty"`
	Lease   *onerun.Lease   `json:",omitempty"`
	Outcome *onerun.Outcome `json:",omitempty"`
	Grant   *onerun.Grant   `json:",omitempty"`
	Refusal *onerun.Refusal `json:",omitempty"`
	Err     string          `json:",omitempty"`
}

// remote is the store in another process, as far as the suite's clients ask it.
type remote struct {
	onerun.Store
	conn net.Conn
	enc  *json.Encoder
	dec  *json.Decoder
	hook func(string)
}

func (r *remote) ask(what string, q message) (message, error) {
	r.hook("send " + what)
	if err := r.enc.Encode(q); err != nil {
		return message{}, err
	}
	var a message
	if err := r.dec.Decode(&a); err != nil {
		return message{}, err
	}
	r.hook(what + " answered")
	switch {
	case a.Refusal != nil:
		return a, a.Refusal
	case a.Err != "":
		return a, errors.New(a.Err)
	}
	return a, nil
}

func (r *remote) Claim(_ context.Context, c onerun.Claim) (onerun.Grant, error) {
	a, err := r.ask("claim", message{Claim: &c})
	if err != nil {
		return onerun.Grant{}, err
	}
	return *a.Grant, nil
}

func (r *remote) Finish(_ context.Context, l onerun.Lease, o onerun.Outcome) error {
	_, err := r.ask("finish", message{Lease: &l, Outcome: &o})
	return err
}

func (r *remote) Close() error {
	r.hook("close")
	return r.conn.Close()
}

// server serves a store to other processes, and knows which of them are dead.
type server struct {
	store onerun.Store
	mu    sync.Mutex
	pids  map[string]int // by owner
	conns sync.WaitGroup
}

// dead reports whether a holder's process is gone. This one's own never is.
func (s *server) dead(l onerun.Lease) bool {
	s.mu.Lock()
	pid, ok := s.pids[l.Owner]
	s.mu.Unlock()
	if !ok {
		return false
	}
	p, err := os.FindProcess(pid)
	return err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

func (s *server) serve(ctx context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s.conns.Go(func() {
			defer func() { _ = conn.Close() }()
			s.answer(ctx, json.NewDecoder(conn), json.NewEncoder(conn))
		})
	}
}

func (s *server) answer(ctx context.Context, dec *json.Decoder, enc *json.Encoder) {
	var pid int
	if dec.Decode(&pid) != nil {
		return
	}
	for {
		var q, a message
		if dec.Decode(&q) != nil {
			return
		}
		var err error
		if q.Claim != nil {
			s.mu.Lock()
			s.pids[q.Claim.Owner] = pid
			s.mu.Unlock()
			var g onerun.Grant
			g, err = s.store.Claim(ctx, *q.Claim)
			a.Grant = &g
		} else {
			err = s.store.Finish(ctx, *q.Lease, *q.Outcome)
		}
		if err != nil && !errors.As(err, &a.Refusal) {
			a.Err = err.Error()
		}
		if enc.Encode(a) != nil {
			return
		}
	}
}

// overWire makes a store that other processes can reach. Without leases, exclusion
// ends with the holder's process.
func overWire(t *testing.T, rules memory.Rules, leases bool) storetest.Harness {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire") // a socket's path has at most 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &server{pids: map[string]int{}}
	clock := newClock()
	if !leases {
		if rules.Dead == nil {
			rules.Dead = srv.dead
		}
		rules.Expires = func(now, _ time.Time, _ time.Duration) time.Time { return now.AddDate(100, 0, 0) }
	}
	srv.store = memory.New(memory.WithNow(clock.Now), memory.WithRules(rules))
	if !leases {
		srv.store = holding{srv.store, srv}
	}
	done := make(chan struct{})
	go func() { defer close(done); srv.serve(t.Context(), l) }()
	t.Cleanup(func() { _ = l.Close(); <-done; srv.conns.Wait() })
	return storetest.Harness{
		Open:    func(context.Context) (onerun.Store, error) { return srv.store, nil },
		Leases:  leases,
		Hosts:   leases,
		Advance: clock.Advance,
		Command: storetest.Self,
		URL:     path,
	}
}

// holding shows a store with leases as one without.
type holding struct {
	onerun.Store
	srv *server
}

func (h holding) Unwrap() onerun.Store { return h.Store }

func (h holding) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	c.TTL = time.Minute
	g, err := h.Store.Claim(ctx, c)
	g.Lease.TTL, g.Run.LeaseExpiresAt = 0, time.Time{}
	return g, err
}

func (h holding) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	c.TTL = time.Minute
	return h.Store.Explain(ctx, c)
}

func (h holding) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	if h.srv.dead(l) {
		return onerun.Beat{}, fmt.Errorf("%w: that process is dead", onerun.ErrLost)
	}
	l.TTL = time.Minute
	return h.Store.Heartbeat(ctx, l)
}

func (h holding) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	l.TTL = time.Minute
	return h.Store.Finish(ctx, l, o)
}

func (h holding) Report(ctx context.Context, l onerun.Lease, p onerun.Progress) error {
	l.TTL = time.Minute
	return h.Store.Report(ctx, l, p)
}

func (h holding) BeginItem(ctx context.Context, c onerun.ItemClaim) (onerun.Item, error) {
	c.Lease.TTL = time.Minute
	return h.Store.BeginItem(ctx, c)
}

func (h holding) Deliver(ctx context.Context, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	d, err := h.Store.Deliver(ctx, l, o)
	d.Run.LeaseExpiresAt = time.Time{}
	return d, err
}

func (h holding) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	rs, err := h.Store.Runs(ctx, q)
	for i := range rs {
		rs[i].LeaseExpiresAt = time.Time{}
	}
	return rs, err
}

func (h holding) Detail(ctx context.Context, namespace, runID string) (onerun.Detail, error) {
	d, err := h.Store.Detail(ctx, namespace, runID)
	d.Run.LeaseExpiresAt = time.Time{}
	for i := range d.Attempts {
		d.Attempts[i].LeaseExpiresAt = time.Time{}
	}
	return d, err
}

// TestSeededBugsOverWire breaks what only shows when processes work, and die.
func TestSeededBugsOverWire(t *testing.T) {
	everybody := func(onerun.Lease) bool { return true }
	nobody := func(onerun.Lease) bool { return false }
	never := func(time.Time) time.Time { return time.Time{} }
	for _, b := range []struct {
		name   string
		leases bool
		rules  memory.Rules
		caught string
	}{
		{"a holder that works is taken for dead", false, memory.Rules{Dead: everybody}, "contention/one key"},
		{"a holder that works is taken for dead: locks", false, memory.Rules{Dead: everybody}, "contention/many keys under one lock"},
		{"check, then act", false, memory.Rules{Gap: rendezvous()}, "contention/one key"},
		{"a dead holder is never noticed", false, memory.Rules{Dead: nobody}, "crash/a first start"},
		{"a dead holder's lock alone is never noticed", false, memory.Rules{Dead: nobody}, "crash/a lock alone"},
		{"manual is closed too", false, memory.Rules{Judge: func(_, _ onerun.Policy) onerun.Policy { return onerun.Policy{} }}, "crash/by hand"},
		{"a lease never ends", true, memory.Rules{ExpiryClock: never}, "crash/a first start"},
		{"a recorded run is executed again", true, memory.Rules{Facts: func(_ onerun.Claim, f *onerun.Facts) {
			if f.Run != nil && f.Run.Status == onerun.Succeeded {
				f.Run.Status, f.Run.NextRetryAt = onerun.Failed, f.Now
			}
		}}, "crash/a first start"},
	} {
		t.Run(b.name, func(t *testing.T) {
			caughtBy(t, storetest.Cases(overWire(t, b.rules, b.leases)), b.caught)
		})
	}
}

// topics runs some cases: those that TestMemory hasn't seen from this side.
func topics(t *testing.T, h storetest.Harness, wanted func(topic string) bool) {
	t.Helper()
	for _, c := range storetest.Cases(h) {
		if topic, _, _ := strings.Cut(c.Name, "/"); wanted(topic) {
			t.Run(c.Name, func(t *testing.T) {
				if err := c.Run(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestOverWireWithLeases(t *testing.T) {
	topics(t, overWire(t, memory.Rules{}, true), func(topic string) bool {
		return topic == "contention" || topic == "crash"
	})
}

func TestOverWireWithHolders(t *testing.T) {
	topics(t, overWire(t, memory.Rules{}, false), func(topic string) bool {
		return topic != "names" && topic != "kept"
	})
}
