package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// steps are those that a store took, as its hook told.
type steps struct {
	mu   sync.Mutex
	list []string
	more chan struct{} // closed at the next step
}

func (s *steps) hook(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, step)
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
}

func (s *steps) since(n int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list[n:])
}

// until returns when the steps since n are what is waited for, with how many there are then.
func (s *steps) until(t testing.TB, n int, what string, is func(since []string) bool) int {
	t.Helper()
	for ctx := soon(t); ; {
		s.mu.Lock()
		since, all := slices.Clone(s.list[n:]), len(s.list)
		if s.more == nil {
			s.more = make(chan struct{})
		}
		more := s.more
		s.mu.Unlock()
		if is(since) {
			return all
		}
		select {
		case <-more:
		case <-ctx.Done():
			t.Fatalf("%s: not yet, after a minute; steps: %q", what, since)
		}
	}
}

func times(n int, step string) func([]string) bool {
	return func(since []string) bool { return count(since, step) >= n }
}

func count(list []string, step string) (n int) {
	for _, s := range list {
		if s == step {
			n++
		}
	}
	return n
}

func fifo(c onerun.Claim) onerun.Claim {
	c.Order = onerun.OrderFIFO
	return c
}

func under(c onerun.Claim, lock onerun.LockName) onerun.Claim {
	c.Lock = lock
	return c
}

// aside does something beside the test, and gives its result when it is done.
func aside[T any](f func() (T, error)) func(t testing.TB) T {
	var v T
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		v, err = f()
	}()
	return func(t testing.TB) T {
		t.Helper()
		select {
		case <-done:
		case <-soon(t).Done():
			t.Fatal("what was to be done beside the test isn't, after a minute")
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// claims waits for a grant beside the test.
func claims(t testing.TB, s *postgres.Store, c onerun.Claim) func(t testing.TB) onerun.Grant {
	return aside(func() (onerun.Grant, error) { return s.ClaimWaiting(soon(t), c) })
}

// stands waits until so many stand in a line, or wait for a lock otherwise.
func stands(t testing.TB, url string, lock onerun.LockName, n int) {
	t.Helper()
	waitFor(t, url, fmt.Sprintf("%d that wait for %s", n, lock),
		fmt.Sprintf("SELECT count(*) = %d FROM %s.onerun_waiter WHERE lock = '%s' AND expires_at > clock_timestamp()", n, schemaOf(url), lock))
}

// TestWokenByNotification: who waits is woken by whoever frees the lock, and doesn't find out
// by asking.
func TestWokenByNotification(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	const rounds = 10
	woken := 0
	for i := range rounds {
		st := &steps{}
		waiter := open(t, url, postgres.WithHook(st.hook))
		g := granted(t, s, claimOf("settle", fmt.Sprint("p", i)))
		next := claims(t, waiter, claimOf("settle", fmt.Sprint("q", i)))
		n := st.until(t, 0, "the connection that listens", times(1, "listening"))
		// It has looked since, and asks less and less often.
		n = st.until(t, n, "some questions", times(4, "told to wait"))
		succeed(t, s, g)
		st.until(t, n, "the claim", times(1, "claimed"))
		since := st.since(n)
		// What it was that made it ask for the last time before it claimed.
		if i := slices.Index(since, "send the claim"); i >= 2 && since[i-2] == "woken" {
			woken++
		} else {
			t.Logf("round %d: %q", i, since)
		}
		succeed(t, waiter, next(t))
	}
	if woken < rounds-2 { // a question can fall into the moment before the notification
		t.Errorf("woken by a notification %d times of %d", woken, rounds)
	}
}

// TestWhatWakes: whatever frees a lock that somebody waits for tells them, and says nothing
// where nobody waits.
func TestWhatWakes(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	conn := direct(t, url)
	mustExec(t, conn, "SELECT set_config('search_path', $1, false)", schemaOf(url))
	var channel string
	if err := conn.QueryRow(soon(t), "SELECT onerun_channel()").Scan(&channel); err != nil {
		t.Fatal(err)
	}
	mustExec(t, conn, "LISTEN "+channel)
	told := func() (names []string) {
		t.Helper()
		mustExec(t, direct(t, url), "SELECT pg_notify($1, 'end')", channel)
		for {
			n, err := conn.WaitForNotification(soon(t))
			if err != nil {
				t.Fatal(err)
			}
			if n.Payload == "end" {
				return names
			}
			names = append(names, n.Payload)
		}
	}
	who := onerun.Who{By: "ann", Reason: "because"}
	for what, end := range map[string]func(g onerun.Grant, c onerun.Claim){
		"an end": func(g onerun.Grant, _ onerun.Claim) { succeed(t, s, g) },
		"an end that is delivered": func(g onerun.Grant, _ onerun.Claim) {
			if _, err := s.Deliver(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
				t.Fatal(err)
			}
		},
		"the word of a person": func(g onerun.Grant, _ onerun.Claim) {
			mustExec(t, conn, "UPDATE onerun_lock SET expires_at = clock_timestamp() WHERE lock = $1", string(g.Lease.Lock))
			run := detail(t, s, g.Lease.RunID).Run
			if _, err := s.Resolve(soon(t), onerun.Resolution{Namespace: run.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), As: onerun.Failed, Who: who}); err != nil {
				t.Fatal(err)
			}
		},
		"a takeover that is refused itself": func(g onerun.Grant, c onerun.Claim) {
			_, err := s.ClaimKnowing(soon(t), again(c), dead(g.Lease.Owner))
			isRefusal(t, err, onerun.RefusedFailed)
		},
		"a place that is left": func(g onerun.Grant, c onerun.Claim) {
			first := again(fifo(c))
			waitFor(t, url, "a place in line", fmt.Sprintf("SELECT (%s.onerun_await('%s')->>'result') = 'wait'", schemaOf(url), awaiting(first)))
			if err := s.LeaveLine(soon(t), first); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, waited := range []bool{false, true} {
			c := claimOf(strings.ReplaceAll(what, " ", "-"), fmt.Sprint(waited))
			g := granted(t, s, c)
			var want []string
			if waited {
				waitFor(t, url, "a waiter", fmt.Sprintf("SELECT (%s.onerun_await('%s')->>'result') = 'wait'", schemaOf(url), awaiting(again(c))))
				want = []string{c.Namespace + "/" + string(c.Lock)}
			}
			end(g, c)
			if got := told(); !slices.Equal(got, want) {
				t.Errorf("%s, with somebody waiting %v: notified %q, expected %q", what, waited, got, want)
			}
			_ = s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded})
			told()
		}
	}
}

// awaiting is a claim as the function takes it that is asked by who waits.
func awaiting(c onerun.Claim) string {
	text, err := postgres.Encode(map[string]any{
		"version": postgres.Steps, "namespace": c.Namespace, "job": c.Job, "key": c.Key(), "lock": c.Lock, "owner": c.Owner,
		"fifo": c.Order == onerun.OrderFIFO, "waited": false, "last": false,
	})
	if err != nil {
		panic(err)
	}
	return text
}

// TestLeaseRunsOutWhileWaiting: nobody tells that a lease is over; who waits for it knows when
// that will be.
func TestLeaseRunsOutWhileWaiting(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	late := make([]time.Duration, 9)
	var all sync.WaitGroup
	for i := range late {
		c := claimOf(fmt.Sprint("job-", i), "")
		c.TTL = 3*time.Second + time.Duration(i)*70*time.Millisecond
		g := granted(t, s, c)
		all.Go(func() {
			next, err := s.ClaimWaiting(soon(t), again(c))
			if err != nil {
				t.Error(err)
			}
			late[i] = next.At.Sub(g.At.Add(c.TTL))
		})
	}
	all.Wait()
	slices.Sort(late)
	if late[0] < 0 {
		t.Errorf("granted %s before the lease was over", -late[0])
	}
	if half := late[len(late)/2]; half > 400*time.Millisecond { // by looking now and then it would be half a second and more
		t.Errorf("granted %s after the lease was over, in the median; all: %v", half, late)
	}
}

// TestOneConnection: a pool of one connection has none to spare for listening, and what it has
// stays free for heartbeats; a larger one has one that listens, whoever waits.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	for size, listening := range map[string]int{"1": 0, "2": 1} {
		s, url := fresh(t)
		st := &steps{}
		small := open(t, url+"&pool_max_conns="+size+"&application_name=small"+size, postgres.WithHook(st.hook))
		own := granted(t, small, claimOf("mine", ""))
		g := granted(t, s, claimOf("settle", ""))
		var waits []func(testing.TB) onerun.Grant
		var done sync.WaitGroup
		for range 10 {
			waits = append(waits, claims(t, small, fifo(claimOf("settle", ""))))
		}
		stands(t, url, "job/settle", len(waits))
		if listening > 0 {
			st.until(t, 0, "the connection that listens", times(listening, "listening"))
		}
		st.until(t, 0, "some questions", times(40, "ask for the turn"))
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if _, err := small.Heartbeat(ctx, own.Lease); err != nil {
				t.Fatalf("%s connections: a heartbeat beside those that wait: %v", size, err)
			}
			cancel()
		}
		var sessions int
		err := direct(t, url).QueryRow(soon(t), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", "small"+size).Scan(&sessions)
		if err != nil || fmt.Sprint(sessions) > size {
			t.Errorf("%s connections: %d sessions, %v", size, sessions, err)
		}
		succeed(t, s, g)
		for _, next := range waits { // in whichever order they came
			done.Go(func() { succeed(t, small, next(t)) })
		}
		done.Wait()
		if got := count(st.since(0), "listening"); got != listening {
			t.Errorf("%s connections: it listened %d times, expected %d", size, got, listening)
		}
	}
}

// TestBehindProxyNobodyListens: through a proxy that pools a session that listened would be
// another client's in the next moment.
func TestBehindProxyNobodyListens(t *testing.T) {
	t.Parallel()
	proxy, err := bouncer()
	if err != nil {
		t.Fatal(err)
	}
	s, url := fresh(t)
	st := &steps{}
	waiter := open(t, pgbed.URLAs(proxy.Port, superuser, password, "postgres", "schema", schemaOf(url)), postgres.WithHook(st.hook))
	g := granted(t, s, claimOf("settle", ""))
	next := claims(t, waiter, claimOf("settle", ""))
	st.until(t, 0, "some questions", times(6, "ask for the turn"))
	succeed(t, s, g)
	succeed(t, waiter, next(t))
	if n := count(st.since(0), "listening"); n != 0 {
		t.Errorf("it listened %d times", n)
	}
}

// TestClosedWhileWaiting: closing a store ends the waits on it.
func TestClosedWhileWaiting(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	granted(t, s, claimOf("settle", ""))
	st := &steps{}
	waiter, err := postgres.Open(soon(t), url, postgres.WithHook(st.hook))
	if err != nil {
		t.Fatal(err)
	}
	next := aside(func() (error, error) {
		_, err := waiter.ClaimWaiting(soon(t), claimOf("settle", ""))
		return err, nil
	})
	st.until(t, 0, "the connection that listens", times(1, "listening"))
	n := st.until(t, 0, "a question", times(2, "ask for the turn"))
	if err := waiter.Close(); err != nil {
		t.Fatal(err)
	}
	if err := next(t); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("a wait on a store that was closed: %v", err)
	}
	if since := st.since(n); count(since, "ask for the turn") > 2 {
		t.Errorf("it went on asking: %q", since)
	}
}
