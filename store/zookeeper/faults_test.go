package zookeeper

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/cutnet"
	"github.com/onerun-dev/onerun/internal/kvledger"
	"github.com/onerun-dev/onerun/internal/zkbed"
)

func must(t testing.TB, err error, what string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// claimOf is a claim of a key by a new owner.
func claimOf(job, partition string, ttl time.Duration) onerun.Claim {
	return onerun.Claim{
		Namespace: onerun.DefaultNamespace, Job: job, Partition: partition, Lock: onerun.JobLock(job), Owner: onerun.NewID(),
		RunID: onerun.NewRunID(time.Now()), Policy: onerun.Policy{TTL: ttl, OnCrash: onerun.CrashAuto},
	}
}

// again is the same claim by another owner.
func again(c onerun.Claim) onerun.Claim {
	c.Owner, c.RunID = onerun.NewID(), onerun.NewRunID(time.Now())
	return c
}

func granted(t testing.TB, s *Store, c onerun.Claim) onerun.Grant {
	t.Helper()
	g, err := s.Claim(soon(t), c)
	must(t, err, "claim "+c.Key())
	return g
}

func refused(t testing.TB, s *Store, c onerun.Claim, reason onerun.Reason) {
	t.Helper()
	_, err := s.Claim(soon(t), c)
	var ref *onerun.Refusal
	if !errors.As(err, &ref) || ref.Reason != reason {
		t.Fatalf("expected a refusal %s, got: %v", reason, err)
	}
}

func succeed(t testing.TB, s *Store, g onerun.Grant) {
	t.Helper()
	must(t, s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}), "finish")
}

// grantedOnce asks until a claim is granted, and gives the time of that.
func grantedOnce(t testing.TB, s *Store, c onerun.Claim) (onerun.Grant, time.Time) {
	t.Helper()
	for ctx := soon(t); ; {
		g, err := s.Claim(ctx, c)
		if err == nil {
			return g, time.Now()
		}
		var ref *onerun.Refusal
		if !errors.As(err, &ref) {
			t.Fatalf("claim: %v", err)
		}
		c.Asking = true
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("never granted: %v", err)
		}
	}
}

func proxied(t testing.TB, s *zkbed.Server) *cutnet.Proxy {
	t.Helper()
	p, err := s.Proxy()
	must(t, err, "make a proxy")
	t.Cleanup(p.Close)
	return p
}

// TestBadServer: what a server of one's own can do to those who use it, one thing after the other: starting one takes this
// machine a while.
func TestBadServer(t *testing.T) {
	t.Parallel()
	server := server(t)
	for _, when := range []string{"claim", "during the job", "finish"} {
		t.Run("killed/"+when, func(t *testing.T) { killedAndStartedAgain(t, server, when) })
	}
	t.Run("frozen", func(t *testing.T) { frozen(t, server) })
}

// killedAndStartedAgain: the server is killed while a job goes its way through the Runner, and comes back before the lease is
// over. The job ran once, and its end is there.
func killedAndStartedAgain(t *testing.T, server *zkbed.Server, when string) {
	back := make(chan error, 1)
	var once sync.Once
	kill := func() {
		once.Do(func() {
			server.Stop(syscall.SIGKILL)
			go func() { back <- server.Start() }()
		})
	}
	url := freshURL(server.Addr())
	s := open(t, url, WithHook(func(step string) {
		if step == when {
			kill()
		}
	}))
	ran := 0
	job := onerun.Job{Name: "settle", Partition: "2026-09-15", Policy: onerun.Policy{TTL: 2 * time.Minute}, FinishWait: time.Minute}
	err := onerun.NewRunner(s, onerun.WithStoreTimeout(time.Minute)).Do(soon(t), job, func(context.Context, *onerun.Owner) error {
		ran++
		if when == "during the job" {
			kill()
		}
		return nil
	})
	must(t, err, "run the job")
	must(t, <-back, "start the server again")
	runs, err := open(t, url).Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace})
	must(t, err, "list")
	if ran != 1 || len(runs) != 1 || runs[0].Status != onerun.Succeeded || runs[0].Attempt != 1 {
		t.Fatalf("ran %d times; recorded: %+v", ran, runs)
	}
}

// frozen: a server that is frozen for longer than a lease grants nothing meanwhile, a call gives up in its time,
// and afterwards the lease is over by the server's clock.
func frozen(t *testing.T, server *zkbed.Server) {
	url := freshURL(server.Addr()) + "?session_timeout=1s"
	a, b := open(t, url), open(t, url)
	g := granted(t, a, claimOf("settle", "2026-09-15", time.Second))
	must(t, server.Signal(syscall.SIGSTOP), "freeze the server")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := b.Claim(ctx, again(claimOf("settle", "2026-09-15", time.Second)))
	if took := time.Since(begun); !errors.Is(err, onerun.ErrUnavailable) || took > 5*time.Second {
		t.Errorf("a claim on a frozen server: %v, after %s", err, took)
	}
	time.Sleep(time.Until(begun.Add(2500 * time.Millisecond))) // the lease and the sessions run out
	must(t, server.Signal(syscall.SIGCONT), "let the server go on")
	next, _ := grantedOnce(t, b, claimOf("settle", "2026-09-16", time.Minute))
	if _, err := a.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a heartbeat of the owner that was replaced: %v", err)
	}
	if err := a.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("the end of the owner that was replaced: %v", err)
	}
	if next.Lease.Token <= g.Lease.Token {
		t.Errorf("token %d after %d", next.Lease.Token, g.Lease.Token)
	}
	succeed(t, b, next)
}

// TestCutOff: an owner that is cut off keeps its lock until T has passed since its last heartbeat, and not longer; it hears
// of the loss as soon as it can, and changes nothing any more.
func TestCutOff(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	p, url := proxied(t, server), freshURL(server.Addr())
	const ttl = 2 * time.Second
	a := open(t, "zookeeper://"+p.Addr()+url[len("zookeeper://"+server.Addr()):]+"?session_timeout=500ms")
	b := open(t, url)
	g := granted(t, a, claimOf("settle", "2026-09-15", ttl))
	sent := time.Now()
	_, err := a.Heartbeat(soon(t), g.Lease)
	must(t, err, "heartbeat")
	p.Pass(false, false)
	next, at := grantedOnce(t, b, claimOf("settle", "2026-09-16", time.Minute))
	if d := at.Sub(sent); d < ttl {
		t.Errorf("granted %s after the last heartbeat of a lease of %s", d, ttl)
	}
	p.Break()
	p.Pass(true, true)
	if _, err := a.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a heartbeat of the owner that was replaced: %v", err)
	}
	if err := a.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("the end of the owner that was replaced: %v", err)
	}
	_, err = b.Heartbeat(soon(t), next.Lease)
	must(t, err, "heartbeat of the new owner")
}

// TestReplyLost (B27): the link is cut after the server has done what it was told, and before its answer comes; the client is
// back within its session. It finds by the commit's name that it was done, and nobody waits for ever.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"claim", "heartbeat", "finish"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			server := sharedServer(t)
			p, url := proxied(t, server), freshURL(server.Addr())
			beside := open(t, url)
			lose := make(chan struct{}, 1)
			a := open(t, "zookeeper://"+p.Addr()+url[len("zookeeper://"+server.Addr()):])
			a.space.sending = func() {
				select {
				case <-lose:
					p.Pass(true, false)
				default:
				}
			}
			session := sessionOf(t, a)
			z := direct(t, server.Addr())
			lock := beside.space.nodePath("lock/default/job%2Fsettle")
			// cut waits until the lock's node has changed, and cuts the link then.
			cut := func() {
				_, before, _, err := z.ExistsW(lock)
				must(t, err, "look at the lock")
				lose <- struct{}{}
				go func() {
					for {
						_, now, changed, err := z.ExistsW(lock)
						if err != nil {
							t.Error(err)
						}
						if err != nil || now.Mzxid != before.Mzxid {
							break
						}
						<-changed
					}
					p.Break()
					p.Pass(true, true)
				}()
			}
			c := claimOf("settle", "2026-09-15", time.Minute)
			if of == "claim" {
				cut()
			}
			g := granted(t, a, c)
			if g.Adopted {
				t.Error("the ledger was asked once more, where the commit was to be found by its name")
			}
			refused(t, beside, again(c), onerun.RefusedRunning)
			if of == "heartbeat" {
				cut()
			}
			_, err := a.Heartbeat(soon(t), g.Lease)
			must(t, err, "heartbeat")
			if of == "finish" {
				cut()
			}
			succeed(t, a, g)
			if now := sessionOf(t, a); now != session {
				t.Errorf("another session: %x, it was %x", now, session)
			}
			refused(t, beside, again(c), onerun.RefusedSucceeded)
			succeed(t, beside, granted(t, beside, claimOf("settle", "2026-09-16", time.Minute)))
			d, err := beside.Detail(soon(t), onerun.DefaultNamespace, g.Lease.RunID)
			must(t, err, "detail")
			if len(d.Attempts) != 1 || d.Run.Status != onerun.Succeeded {
				t.Errorf("recorded: %+v", d)
			}
		})
	}
}

// TestNoLeaseHangsOnASession: a session that expires takes nothing with it. The lease is over when its time has passed since
// the last heartbeat, not sooner.
func TestNoLeaseHangsOnASession(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	p, url := proxied(t, server), freshURL(server.Addr())
	b := open(t, url)
	a := open(t, "zookeeper://"+p.Addr()+url[len("zookeeper://"+server.Addr()):]+"?session_timeout=500ms")
	c := claimOf("settle", "2026-09-15", time.Minute)
	g := granted(t, a, c)
	session := sessionOf(t, a)
	p.Pass(false, false)
	time.Sleep(1500 * time.Millisecond) // the session expires
	refused(t, b, again(c), onerun.RefusedRunning)
	p.Break()
	p.Pass(true, true)
	_, err := a.Heartbeat(soon(t), g.Lease)
	must(t, err, "heartbeat in another session")
	if sessionOf(t, a) == session {
		t.Error("the session didn't expire")
	}
	succeed(t, a, g)
	refused(t, b, again(c), onerun.RefusedSucceeded)
}

// TestEnsemble: what one server has acknowledged is seen through another one at once, however far that is behind; and a job
// goes on when the leader is killed.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	servers, err := bed.Ensemble(3)
	must(t, err, "start an ensemble")
	for _, s := range servers {
		t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	}
	path := freshURL("")[len("zookeeper://"):]
	behind := servers[0]
	if leader(t, servers) == behind {
		behind = servers[1]
	}
	seenThrough(t, behind, "zookeeper://"+servers[2].Addr()+path, "zookeeper://"+behind.Addr()+path)
	all := open(t, "zookeeper://"+servers[0].Addr()+","+servers[1].Addr()+","+servers[2].Addr()+path)
	ran := 0
	job := onerun.Job{Name: "long", Partition: "2026-09-15", Policy: onerun.Policy{TTL: 30 * time.Second}}
	err = onerun.NewRunner(all, onerun.WithStoreTimeout(30*time.Second)).Do(soon(t), job, func(context.Context, *onerun.Owner) error {
		ran++
		leader(t, servers).Stop(syscall.SIGKILL)
		return nil
	})
	must(t, err, "run a job")
	runs, err := all.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace, Job: "long"})
	must(t, err, "list")
	if ran != 1 || len(runs) != 1 || runs[0].Status != onerun.Succeeded {
		t.Fatalf("ran %d times; recorded: %+v", ran, runs)
	}
}

// seenThrough: a server stands still while the others go on. All of that is before it when it wakes, and it is asked
// at once.
func seenThrough(t *testing.T, behind *zkbed.Server, url, itsURL string) {
	t.Helper()
	a, b := openSpace(t, url), openSpace(t, itsURL)
	key := func(i int) string { return "run/" + strconv.Itoa(i) }
	for i := range 10 {
		commits(t, a, kvledger.Txn{Writes: []kvledger.Write{put(key(i), "first")}})
	}
	reads(t, b, key(0))
	must(t, behind.Signal(syscall.SIGSTOP), "freeze a server")
	for round := range 40 {
		var txn kvledger.Txn
		for i := range 10 {
			txn.Writes = append(txn.Writes, put(key(i), strings.Repeat(strconv.Itoa(round%10), 50_000)))
		}
		commits(t, a, txn)
	}
	commits(t, a, kvledger.Txn{Writes: []kvledger.Write{put(key(0), "last")}})
	type answer struct {
		entries []kvledger.Entry
		err     error
	}
	answered := make(chan answer, 1)
	go func() {
		entries, err := b.Read(soon(t), key(0))
		answered <- answer{entries, err}
	}()
	must(t, behind.Signal(syscall.SIGCONT), "let it go on")
	got := <-answered
	must(t, got.err, "read")
	if v := got.entries[0].Value; string(v) != "last" {
		t.Errorf("read what was there before: %.10q", v)
	}
}

// leader is who leads an ensemble, once somebody does: one that was frozen may have left an election behind.
func leader(t *testing.T, servers []*zkbed.Server) *zkbed.Server {
	t.Helper()
	for ctx := soon(t); ctx.Err() == nil; <-time.After(50 * time.Millisecond) {
		for _, s := range servers {
			if strings.Contains(s.Ask("srvr"), "Mode: leader") {
				return s
			}
		}
	}
	t.Fatal("nobody leads")
	return nil
}

// sessionOf is the number of a store's session.
func sessionOf(t testing.TB, s *Store) int64 {
	t.Helper()
	_, err := s.Locks(soon(t), onerun.DefaultNamespace)
	must(t, err, "connect")
	return s.space.zk.SessionID()
}

// TestClosed: a store that its own program has closed says that, and not that its server is down.
func TestClosed(t *testing.T) {
	t.Parallel()
	s := open(t, freshURL(sharedServer(t).Addr()))
	c := claimOf("nightly", "", time.Minute)
	g := granted(t, s, c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, claimed := s.Claim(soon(t), c)
	_, beat := s.Heartbeat(soon(t), g.Lease)
	for what, err := range map[string]error{"claim": claimed, "heartbeat": beat, "finish": s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Succeeded})} {
		if !errors.Is(err, onerun.ErrClosed) || !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
