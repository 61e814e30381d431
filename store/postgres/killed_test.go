package postgres_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// killing is a server that is killed once, at some moment, and comes back by itself.
type killing struct {
	*pgbed.Server
	once sync.Once
	back chan error // tells when it is there again
}

func newKilling(t *testing.T) *killing {
	t.Helper()
	s, err := newServer()
	must(t, err, "start a server")
	stopsAfter(t, s)
	return &killing{Server: s, back: make(chan error, 1)}
}

// kill ends the server as pg_ctl stop -m immediate does. It starts it again, which takes its
// recovery, while whoever calls goes on.
func (k *killing) kill() {
	k.once.Do(func() {
		k.Stop(syscall.SIGQUIT)
		go func() { k.back <- k.Start() }()
	})
}

// at kills the server when a store comes to a step.
func (k *killing) at(step string) postgres.Option {
	return postgres.WithHook(func(s string) {
		if s == step {
			k.kill()
		}
	})
}

// lasting is a policy whose lease outlasts the server's return.
var lasting = onerun.Policy{TTL: 15 * time.Second}

// TestKilledAtEachStep: the server is killed while a job goes its way through the Runner, and
// comes back before the lease is over. The job ran once, and its end is there.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"send the claim", "claimed", "during the job", "record the end", "recorded"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			k := newKilling(t)
			url := k.URL("postgres", "schema", "onerun")
			_, _, err := open(t, url).Migrate(soon(t))
			must(t, err, "migrate")
			s := open(t, url, k.at(step))
			runsOnce(t, k, s, func() {
				if step == "during the job" {
					k.kill()
					err := <-k.back
					k.back <- err
					must(t, err, "start the server again")
					waitFor(t, url, "a heartbeat after that", "SELECT expires_at - ttl * interval '1 us' > pg_postmaster_start_time() FROM onerun.onerun_lock WHERE lock = 'job/settle'")
				}
			})
		})
	}
}

// TestKilledBeforeTheReply: the server has committed, and is killed before its client hears
// of it: of the claim, and of the end.
func TestKilledBeforeTheReply(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"claim", "end"} {
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			k := newKilling(t)
			target := net.JoinHostPort("127.0.0.1", strconv.Itoa(k.Port))
			p := newProxy(t, target)
			url := p.url(k.URL("postgres", "schema", "onerun"), target)
			warm := open(t, k.URL("postgres", "schema", "onerun"))
			_, _, err := warm.Migrate(soon(t))
			must(t, err, "migrate")
			var s *postgres.Store
			lose := map[string]string{"claim": "send the claim", "end": "record the end"}[of]
			var armed sync.Once
			s = open(t, url, postgres.WithHook(func(step string) {
				if step == lose {
					armed.Do(func() { p.loseNext(1) })
				}
			}))
			if of == "claim" { // its connection is there, so that the next answer is the claim's
				_, err = s.Locks(soon(t), onerun.DefaultNamespace)
				must(t, err, "connect")
			}
			p.then = k.kill
			runsOnce(t, k, s, func() {})
		})
	}
}

// runsOnce runs a job, during which the server is killed.
func runsOnce(t *testing.T, k *killing, s *postgres.Store, during func()) {
	t.Helper()
	ran := 0
	job := onerun.Job{Name: "settle", Partition: "2026-09-15", Policy: lasting}
	err := onerun.NewRunner(s, onerun.WithStoreTimeout(30*time.Second)).Do(soon(t), job, func(ctx context.Context, o *onerun.Owner) error {
		ran++
		during()
		return ctx.Err()
	})
	must(t, err, "the job")
	must(t, <-k.back, "start the server again")
	if ran != 1 {
		t.Errorf("the job ran %d times", ran)
	}
	runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace})
	must(t, err, "list the runs")
	if len(runs) != 1 || runs[0].Status != onerun.Succeeded || runs[0].Attempt != 1 {
		t.Errorf("expected one run, of one attempt, that SUCCEEDED, got %+v", runs)
	}
	err = onerun.NewRunner(s).Do(soon(t), job, func(context.Context, *onerun.Owner) error {
		t.Error("it ran again")
		return nil
	})
	isRefusal(t, err, onerun.RefusedSucceeded)
	locks, err := s.Locks(soon(t), onerun.DefaultNamespace)
	if err != nil || len(locks) > 0 {
		t.Errorf("locks that are left: %+v, %v", locks, err)
	}
}

// TestKilledForLonger: the server stays away until the lease is over. The job hears of it
// before anybody else could be granted the lock; that its end is not recorded is said; and
// whoever comes when the server is back takes it for what it is: unknown.
func TestKilledForLonger(t *testing.T) {
	t.Parallel()
	server, err := newServer()
	must(t, err, "start a server")
	stopsAfter(t, server)
	url := server.URL("postgres", "schema", "onerun")
	s := open(t, url)
	_, _, err = s.Migrate(soon(t))
	must(t, err, "migrate")
	const ttl = 3 * time.Second
	job := onerun.Job{Name: "settle", Partition: "2026-09-15", FinishWait: time.Second, Policy: onerun.Policy{TTL: ttl}}
	var killed, heard atomic.Int64
	err = onerun.NewRunner(s).Do(soon(t), job, func(ctx context.Context, o *onerun.Owner) error {
		server.Stop(syscall.SIGQUIT)
		killed.Store(time.Now().UnixNano())
		<-ctx.Done()
		heard.Store(time.Now().UnixNano())
		if !errors.Is(context.Cause(ctx), onerun.ErrLost) {
			t.Errorf("the job is told: %v", context.Cause(ctx))
		}
		return nil
	})
	var not *onerun.NotRecordedError
	if !errors.As(err, &not) || not.Outcome.Status != onerun.Succeeded || !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("expected that the end is said to be not recorded, got: %v", err)
	}
	if text := err.Error(); strings.ContainsAny(text, "\n\r") || !strings.Contains(text, "not recorded") {
		t.Errorf("what is said: %q", text)
	}
	if d := time.Duration(heard.Load() - killed.Load()); d > ttl {
		t.Errorf("the job heard of it after %s, when the lease of %s was over", d, ttl)
	}
	must(t, server.Start(), "start the server again")
	waitFor(t, url, "the lease to be over", "SELECT expires_at < clock_timestamp() FROM onerun.onerun_lock WHERE lock = 'job/settle'")
	ref := refusal(t, s, claimOf("settle", "2026-09-15"), onerun.RefusedFailed)
	if d := detail(t, s, ref.Holder.RunID); d.Run.Status != onerun.Failed || d.Run.Reason != onerun.ReasonLeaseExpired {
		t.Errorf("expected FAILED lease_expired, got %s %s", d.Run.Status, d.Run.Reason)
	}
	// Its host remembers the end, and delivers it.
	dl, err := s.Deliver(soon(t), onerun.Lease{Namespace: onerun.DefaultNamespace, RunID: ref.Holder.RunID, Attempt: 1, Owner: detail(t, s, ref.Holder.RunID).Attempts[0].Owner}, not.Outcome)
	if err != nil || dl.Kind != onerun.DeliveredCorrected {
		t.Errorf("the end that is delivered: %s, %v", dl.Kind, err)
	}
	refused(t, s, claimOf("settle", "2026-09-15"), onerun.RefusedSucceeded)
}
