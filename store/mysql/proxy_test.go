package mysql_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/mariadbbed"
	"github.com/onerun-dev/onerun/store/mysql"
)

// behind is a store behind a network that can be cut, and one beside it.
func behind(t testing.TB, opts ...mysql.Option) (cut *mysql.Store, p *mariadbbed.Proxy, beside *mysql.Store) {
	t.Helper()
	server := sharedServer(t)
	database := newDatabase(t, server)
	p, err := server.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	beside = open(t, server.URL(database))
	if _, _, err := beside.Migrate(soon(t)); err != nil {
		t.Fatal(err)
	}
	return open(t, p.URL(database), opts...), p, beside
}

// briefly is a context for what gets no answer.
func briefly(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// TestCutOff (B25, B26): an owner that is cut off for longer than its lease is replaced, and told
// so when it is back; it frees nothing of its successor's.
func TestCutOff(t *testing.T) {
	t.Parallel()
	cut, p, beside := behind(t)
	c := claimOf("settle", "")
	c.TTL = 2 * time.Second
	a := granted(t, cut, c)
	p.Pass(false, false)
	if _, err := cut.Heartbeat(briefly(t), a.Lease); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("heartbeat of one that is cut off: %v", err)
	}
	b := takeover(t, beside, again(c))
	if left := b.At.Sub(a.At); left < c.TTL {
		t.Errorf("granted again %s after a grant of %s", left, c.TTL)
	}
	p.Break()
	p.Pass(true, true)
	lost(t, cut, a)
	refused(t, beside, again(c), onerun.RefusedLocked) // C
	if _, err := beside.Heartbeat(soon(t), b.Lease); err != nil {
		t.Errorf("heartbeat of the second: %v", err)
	}
	succeed(t, beside, b)
}

// TestReplyLost: a claim, and an end, that the server has committed and whose answer doesn't
// arrive. Asked again with the same owner id, it is the same.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	var p *mariadbbed.Proxy
	var beside *mysql.Store
	var asked sync.WaitGroup
	t.Cleanup(asked.Wait)
	at, wanted, giveUp := "", onerun.Running, func() {}
	c := claimOf("settle", "2026-09-15")
	cut, p, beside := behind(t, mysql.WithHook(func(step string) {
		if step == at {
			p.Pass(true, false)
			asked.Go(func() { // until what is asked next is done
				defer giveUp()
				for ctx := soon(t); ctx.Err() == nil; <-time.After(5 * time.Millisecond) {
					runs, err := beside.Runs(ctx, onerun.Query{Namespace: c.Namespace, Job: c.Job, Partition: c.Partition})
					if err == nil && len(runs) == 1 && runs[0].Status == wanted {
						return
					}
				}
			})
		}
	}))
	unanswered := func(step string) context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		at, giveUp = step, cancel
		t.Cleanup(cancel)
		return ctx
	}
	granted(t, cut, claimOf("warm", "up"))
	if _, err := cut.Claim(unanswered("commit the claim"), c); !errors.Is(err, onerun.ErrUnavailable) {
		t.Fatalf("a claim whose answer is lost: %v", err)
	}
	at = ""
	refused(t, beside, again(c), onerun.RefusedRunning) // it was granted
	p.Break()
	p.Pass(true, true)
	g := granted(t, cut, c)
	if !g.Adopted || g.Lease.RunID != c.RunID {
		t.Errorf("asked again: adopted %t, run %s", g.Adopted, g.Lease.RunID)
	}
	wanted = onerun.Succeeded
	if err := cut.Finish(unanswered("record the end"), g.Lease, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrUnavailable) {
		t.Fatalf("an end whose answer is lost: %v", err)
	}
	at = ""
	refused(t, beside, again(c), onerun.RefusedSucceeded)
	p.Break()
	p.Pass(true, true)
	succeed(t, cut, g)
	if err := cut.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("another end afterwards: %v", err)
	}
}

// TestDeadConnections: a pool whose connections a firewall has forgotten makes new ones, for all
// that is asked.
func TestDeadConnections(t *testing.T) {
	t.Parallel()
	cut, p, _ := behind(t)
	g := granted(t, cut, claimOf("settle", "2026-09-15"))
	for what, ask := range map[string]func() error{
		"heartbeat": func() error { _, err := cut.Heartbeat(soon(t), g.Lease); return err },
		"claim":     func() error { _, err := cut.Claim(soon(t), claimOf("other", onerun.NewID())); return err },
		"list": func() error {
			_, err := cut.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace})
			return err
		},
		"pause": func() error {
			return cut.Pause(soon(t), onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: onerun.NewID(), Who: onerun.Who{By: "ana", Reason: "x"}})
		},
	} {
		p.Break()
		if err := ask(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.Break()
	succeed(t, cut, g)
}
