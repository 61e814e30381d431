package postgres_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

// waiterEnv makes this test binary a process that waits for a lock.
const waiterEnv = "ONERUN_POSTGRES_WAITER"

type waiterOrder struct {
	URL   string
	Claim onerun.Claim
}

func waitIfChild() {
	text, ok := os.LookupEnv(waiterEnv)
	if !ok {
		return
	}
	err := func() error {
		var o waiterOrder
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return err
		}
		ctx := context.Background()
		s, err := postgres.Open(ctx, o.URL)
		if err != nil {
			return err
		}
		g, err := s.ClaimWaiting(ctx, o.Claim)
		if err != nil {
			return err
		}
		if err := json.NewEncoder(os.Stdout).Encode(g); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // works until it is told to end
		if err := s.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded}); err != nil {
			return err
		}
		return s.Close()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// waiterProcess is another process that waits for a lock.
type waiterProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
	said  strings.Builder
}

func startWaiter(t testing.TB, url string, c onerun.Claim) *waiterProcess {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	order, err := json.Marshal(waiterOrder{url, c})
	if err != nil {
		t.Fatal(err)
	}
	p := &waiterProcess{cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), waiterEnv+"="+string(order), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = &p.said
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin, p.out = stdin, bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

// granted waits for the process's grant.
func (p *waiterProcess) granted() (g onerun.Grant, err error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return g, fmt.Errorf("a process that waits: %w; %s", err, p.said.String())
	}
	return g, json.Unmarshal([]byte(line), &g)
}

func (p *waiterProcess) end(t testing.TB) {
	t.Helper()
	_ = p.stdin.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("a process that waited: %v; %s", err, p.said.String())
	}
}

// TestLineOfProcesses: processes with connections of their own get the lock in the order in
// which they came. A claim without an order is refused while the lock is held, whoever it is
// that stands in line.
func TestLineOfProcesses(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := onerun.NamedLock("db")
	g := granted(t, s, under(claimOf("settle", ""), db))
	var line []*waiterProcess
	for i := range 3 {
		line = append(line, startWaiter(t, url, under(fifo(claimOf(fmt.Sprint("job-", i), "")), db)))
		stands(t, url, db, i+1)
	}
	refused(t, s, under(claimOf("hasty", ""), db), onerun.RefusedLocked)
	succeed(t, s, g)
	for i, p := range line {
		g := aside(p.granted)(t)
		if g.Run.Job != fmt.Sprint("job-", i) {
			t.Errorf("number %d in line was served as %d", i, i)
		}
		refused(t, s, under(claimOf("hasty", ""), db), onerun.RefusedLocked)
		ref := refusal(t, s, under(fifo(claimOf("late", "")), db), onerun.RefusedLocked)
		if ref.Holder.RunID != g.Run.RunID {
			t.Errorf("refused because of %s, expected the run that holds the lock", ref.Holder)
		}
		stands(t, url, db, 2-i)
		p.end(t)
	}
	granted(t, s, under(fifo(claimOf("late", "")), db))
}

// TestFreeLockInLine: who stands in the line for a lock that is free keeps those behind it
// waiting, and those who ask for no order never.
func TestFreeLockInLine(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t, "pool_max_conns", "8")
	db := onerun.NamedLock("db")
	first, second := under(fifo(claimOf("first", "p")), db), under(fifo(claimOf("second", "p")), db)
	if err := s.AwaitTurn(soon(t), first); err != nil {
		t.Fatal(err)
	}
	behind := func(c onerun.Claim, n int) {
		t.Helper()
		foretold, err := s.Explain(soon(t), c)
		if err != nil || foretold == nil {
			t.Fatalf("explain a claim that isn't first in line: %v, %v", foretold, err)
		}
		ref := refusal(t, s, c, onerun.RefusedLocked)
		words := "waits in line before this one"
		if n > 1 {
			words = fmt.Sprint(n, " starts with --order fifo wait in line before this one")
		}
		if ref.Holder.Name != "first:p" || !strings.Contains(ref.Holder.Detail, words) || ref.Holder.Worker.PID != os.Getpid() {
			t.Errorf("refused because of %s, expected the first in line, and %q", ref.Holder, words)
		}
		if foretold.Reason != ref.Reason || foretold.Holder.String() != ref.Holder.String() {
			t.Errorf("foretold %s, refused %s", foretold, ref)
		}
	}
	behind(second, 1)
	turn := aside(func() (struct{}, error) { return struct{}{}, s.AwaitTurn(soon(t), second) })
	waitTwo := aside(func() (struct{}, error) {
		for ctx := soon(t); ; { // until it has its place, too
			ref, err := s.Explain(ctx, under(fifo(claimOf("third", "")), db))
			if err != nil || strings.Contains(ref.Holder.Detail, "2 starts") {
				return struct{}{}, err
			}
		}
	})
	waitTwo(t)
	behind(second, 1)
	behind(under(fifo(claimOf("third", "")), db), 2)
	// The claim table comes first.
	done := claimOf("done", "p")
	succeed(t, s, granted(t, s, done))
	refused(t, s, under(fifo(again(done)), db), onerun.RefusedSucceeded)
	// No order, no line.
	succeed(t, s, granted(t, s, under(claimOf("hasty", ""), db)))
	g := granted(t, s, first)
	turn(t) // it has waited for a while, or hears of its turn: it is no promise
	succeed(t, s, g)
	g = granted(t, s, second)
	succeed(t, s, g)
	granted(t, s, under(fifo(claimOf("third", "")), db))
}

// silence is how long the guide says that a dead waiter keeps others waiting.
const silence = 15 * time.Second

// TestKilledInLine: a waiter that was killed keeps those behind it waiting for as long as the
// guide says, and no longer.
func TestKilledInLine(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	db := onerun.NamedLock("db")
	g := granted(t, s, under(claimOf("settle", ""), db))
	first := startWaiter(t, url, under(fifo(claimOf("first", "")), db))
	stands(t, url, db, 1)
	second := startWaiter(t, url, under(fifo(claimOf("second", "")), db))
	stands(t, url, db, 2)
	_ = first.cmd.Process.Signal(syscall.SIGKILL)
	_ = first.cmd.Wait()
	var killed int64
	if err := direct(t, url).QueryRow(soon(t), "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint").Scan(&killed); err != nil {
		t.Fatal(err)
	}
	succeed(t, s, g)
	refused(t, s, under(fifo(claimOf("late", "")), db), onerun.RefusedLocked)
	g = aside(second.granted)(t)
	if after := g.At.Sub(time.UnixMilli(killed)); after > silence+time.Second || after < silence/2-time.Second {
		t.Errorf("the one behind it was served %s after it was killed, expected at most %s", after, silence)
	}
	second.end(t)
}

// TestServerKilledWhileWaiting: who waits bears it that the server is gone for a moment, and
// has its place when it is back.
func TestServerKilledWhileWaiting(t *testing.T) {
	t.Parallel()
	server, err := newServer("-c", "synchronous_commit=off", "-c", "wal_writer_delay=10s", "-c", "wal_writer_flush_after=0")
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL("postgres", "schema", "onerun")
	s := open(t, url)
	db := onerun.NamedLock("db")
	c := under(claimOf("settle", ""), db)
	g := granted(t, s, c)
	var waits []func(testing.TB) onerun.Grant
	var heard []*steps
	for i := range 3 {
		st := &steps{}
		heard = append(heard, st)
		waits = append(waits, claims(t, open(t, url, postgres.WithHook(st.hook)), under(fifo(claimOf(fmt.Sprint("job-", i), "")), db)))
		stands(t, url, db, i+1)
		st.until(t, 0, "the connection that listens", times(1, "listening"))
	}
	server.Stop(syscall.SIGQUIT)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	for _, st := range heard {
		st.until(t, 0, "the connection that listens, once more", times(2, "listening"))
	}
	stands(t, url, db, 3)
	succeed(t, s, g)
	for i, next := range waits {
		g := next(t)
		if g.Run.Job != fmt.Sprint("job-", i) {
			t.Errorf("number %d in line was served as %d", i, i)
		}
		succeed(t, s, g)
	}
}

// TestDeadSilently: the network takes in what is sent and brings nothing back, on every
// connection that there is. Who waits asks on new ones, and listens on a new one.
func TestDeadSilently(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	target := strings.Split(strings.Split(url, "@")[1], "/")[0]
	p := newProxy(t, target)
	st := &steps{}
	waiter := open(t, p.url(url, target), postgres.WithHook(st.hook))
	g := granted(t, s, claimOf("settle", ""))
	next := claims(t, waiter, fifo(claimOf("settle", "")))
	n := st.until(t, 0, "the connection that listens", times(1, "listening"))
	n = st.until(t, n, "questions on another one", times(2, "told to wait"))
	p.mute()
	st.until(t, n, "the connection that listens, once more", times(1, "listening"))
	succeed(t, s, g)
	succeed(t, waiter, next(t))
}

// TestWaitEndsWithTheServer: a server that stays away is told about, before long.
func TestWaitEndsWithTheServer(t *testing.T) {
	t.Parallel()
	server, err := newServer("-c", "fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	url := server.URL("postgres", "schema", "onerun")
	st := &steps{}
	s := open(t, url, postgres.WithHook(st.hook))
	granted(t, s, claimOf("settle", ""))
	next := aside(func() (error, error) {
		return s.AwaitTurn(soon(t), fifo(claimOf("settle", ""))), nil
	})
	wait := aside(func() (error, error) {
		_, err := s.ClaimWaiting(soon(t), fifo(claimOf("settle", "")))
		return err, nil
	})
	st.until(t, 0, "both wait", times(4, "told to wait"))
	server.Stop(syscall.SIGQUIT)
	for what, err := range map[string]error{"await": next(t), "claim": wait(t)} {
		if err != nil || what == "claim" { // the other may have waited for its while
			told(t, what, err, onerun.ErrUnavailable, "is the server up")
		}
	}
}

// TestElsewhere: one whose key runs under another lock can't use the lock that it waits for,
// and is passed by; but it keeps its place, and is woken by the end of that run.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	s, url := fresh(t, "pool_max_conns", "8")
	for try := range 5 {
		if wokenElsewhere(t, s, url, try) {
			return
		}
	}
	t.Error("the end of its key's run has woken nobody")
}

// wokenElsewhere reports whether the one who waits was woken. It isn't when the end comes just
// as it gives its caller the word: then it needs no waking.
func wokenElsewhere(t *testing.T, s *postgres.Store, url string, try int) (woken bool) {
	t.Helper()
	db, books := onerun.NamedLock(fmt.Sprint("db", try)), onerun.NamedLock(fmt.Sprint("books", try))
	key := claimOf("settle", fmt.Sprint("2026-09-1", try))
	key.Retries = 1
	running := granted(t, s, under(key, books))
	st := &steps{}
	first := claims(t, open(t, url, postgres.WithHook(st.hook)), under(fifo(again(key)), db))
	stands(t, url, db, 1)
	stands(t, url, books, 1)
	st.until(t, 0, "the connection that listens", times(1, "listening"))
	second, err := s.ClaimWaiting(soon(t), under(fifo(claimOf("second", "")), db))
	if err != nil {
		t.Fatal(err)
	}
	third := claims(t, s, under(fifo(claimOf("third", "")), db))
	stands(t, url, db, 2)
	n := len(st.since(0))
	if err := s.Finish(soon(t), running.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}); err != nil {
		t.Fatal(err)
	}
	n = st.until(t, n, "to see the end of its key's run", func(since []string) bool {
		woken = slices.Contains(since, "woken")
		return woken || count(since, "told to wait") > 2
	})
	st.until(t, n, "to wait for the lock alone", times(1, "told to wait"))
	succeed(t, s, second)
	g := first(t)
	if g.Lease.Attempt != 2 || g.Run.Lock != db {
		t.Errorf("expected attempt 2 under %s, got %d under %s", db, g.Lease.Attempt, g.Run.Lock)
	}
	succeed(t, s, g)
	succeed(t, s, third(t))
	return woken
}

// TestFinalAnswerWhileWaiting: who can't get it any more is told so, and not only when the lock
// is free.
func TestFinalAnswerWhileWaiting(t *testing.T) {
	t.Parallel()
	s, url := fresh(t, "pool_max_conns", "8")
	who := onerun.Who{By: "ann", Reason: "because"}
	granted(t, s, under(claimOf("holder", ""), onerun.NamedLock("db")))
	for want, decide := range map[onerun.Reason]func(c onerun.Claim) error{
		onerun.RefusedSkipped: func(c onerun.Claim) error {
			_, err := s.Resolve(soon(t), onerun.Resolution{Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, As: onerun.Skipped, Who: who})
			return err
		},
		onerun.RefusedPaused: func(c onerun.Claim) error {
			return s.Pause(soon(t), onerun.PauseRequest{Namespace: c.Namespace, Job: c.Job, Who: who})
		},
	} {
		c := under(fifo(claimOf(string(want), "p")), onerun.NamedLock("db"))
		st := &steps{}
		waiter := open(t, url, postgres.WithHook(st.hook))
		next := aside(func() (error, error) {
			_, err := waiter.ClaimWaiting(soon(t), c)
			return err, nil
		})
		stands(t, url, c.Lock, 1)
		n := st.until(t, 0, "a question", times(1, "told to wait"))
		if err := decide(c); err != nil {
			t.Fatal(err)
		}
		isRefusal(t, next(t), want)
		if since := st.since(n); count(since, "told to wait") > 2 { // those that were under way
			t.Errorf("%s: it heard of it after %q", want, since)
		}
		stands(t, url, c.Lock, 0)
	}
}

// TestManyInLines: many wait in the lines of a few locks, with and without an order, for keys
// that run under one lock and another. No two have a lock at once, nobody is left behind, and
// no two wait crosswise.
func TestManyInLines(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	mustExec(t, direct(t, server.URL("postgres")), "CREATE DATABASE lines")
	url := server.URL("lines", "schema", newSchema(), "pool_max_conns", "8")
	s := open(t, url)
	var inside [3]atomic.Int64
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			for n := range 4 {
				at := (i + n) % len(inside)
				c := claimOf("settle", fmt.Sprint("p", i/2)) // two for each key
				if i%3 == 0 {
					c = claimOf("sweep", "")
				}
				if c.Lock = onerun.NamedLock(fmt.Sprint("lock-", at)); i%4 != 0 {
					c.Order = onerun.OrderFIFO
				}
				c.Retries = 100
				g, err := s.ClaimWaiting(soon(t), c)
				if err != nil {
					t.Error(err)
					return
				}
				if inside[at].Add(1) != 1 {
					t.Errorf("two at once under %s", c.Lock)
				}
				inside[at].Add(-1)
				if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	conn := direct(t, url)
	var deadlocks, left int
	err := conn.QueryRow(soon(t), "SELECT deadlocks FROM pg_stat_database WHERE datname = 'lines'").Scan(&deadlocks)
	if err == nil {
		err = conn.QueryRow(soon(t), "SELECT count(*) FROM "+schemaOf(url)+".onerun_waiter").Scan(&left)
	}
	if err != nil || deadlocks != 0 || left != 0 {
		t.Errorf("%d deadlocks, %d waiters that are left over, %v", deadlocks, left, err)
	}
}

// TestGivesUp: a wait that is given up leaves nobody in line.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	granted(t, s, claimOf("settle", ""))
	for _, c := range []onerun.Claim{claimOf("settle", ""), fifo(claimOf("settle", ""))} {
		ctx, cancel := context.WithCancel(t.Context())
		next := aside(func() (error, error) {
			_, err := s.ClaimWaiting(ctx, c)
			return err, nil
		})
		stands(t, url, c.Lock, 1)
		cancel()
		if err := next(t); !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("a wait that is given up: %v", err)
		}
		var left int
		err := direct(t, url).QueryRow(soon(t), "SELECT count(*) FROM "+schemaOf(url)+".onerun_waiter").Scan(&left)
		if err != nil || left != 0 {
			t.Errorf("%d waiters are left over, %v", left, err)
		}
	}
	c := claimOf("settle", "")
	c.Order = "lifo"
	_, claimed := s.ClaimWaiting(soon(t), c)
	_, explained := s.Explain(soon(t), c)
	for what, err := range map[string]error{"claim": claimed, "explain": explained, "await": s.AwaitTurn(soon(t), c)} {
		if !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("%s in an order that nobody knows: %v", what, err)
		}
	}
}
