package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun"
)

// fuse is a context that is cancelled when it is asked for the n-th time whether it is.
type fuse struct {
	context.Context
	cancel context.CancelFunc

	mu sync.Mutex
	n  int
}

func newFuse(t testing.TB, n int) *fuse {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &fuse{Context: ctx, cancel: cancel, n: n}
}

func (f *fuse) burn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 {
		f.cancel()
	}
}

func (f *fuse) Done() <-chan struct{} {
	f.burn()
	return f.Context.Done()
}

func (f *fuse) Err() error {
	f.burn()
	return f.Context.Err()
}

// TestCancelledAnywhere: whoever gives up, at whichever moment, leaves nothing behind on the one
// connection that there is: no transaction, and no answer for the next who asks. What it wanted is
// done, or isn't, and can be asked for again.
func TestCancelledAnywhere(t *testing.T) {
	t.Parallel()
	s, url := fresh(t, "pool_max_conns", "1")
	db := direct(t, url)
	who := onerun.Who{By: "ana", Reason: "x"}
	for n := 1; n <= 60; n++ {
		c := claimOf("settle", fmt.Sprint("p", n))
		var g onerun.Grant
		job := fmt.Sprint("job-", n)
		for what, ask := range map[string]func(ctx context.Context) error{
			"list": func(ctx context.Context) error {
				_, err := s.Runs(ctx, onerun.Query{Namespace: onerun.DefaultNamespace, Job: job})
				return err
			},
			"pause": func(ctx context.Context) error {
				err := s.Pause(ctx, onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: job, Who: who})
				if errors.Is(err, onerun.ErrState) { // it is done already
					err = nil
				}
				return err
			},
			"work": func(ctx context.Context) (err error) {
				if g.Lease.Owner == "" {
					if g, err = s.Claim(ctx, c); err != nil {
						return err
					}
				}
				if _, err = s.Heartbeat(ctx, g.Lease); err != nil && !errors.Is(err, onerun.ErrLost) {
					return err
				}
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					return err
				}
				err = s.Fence(ctx, tx, g.Lease)
				_ = tx.Rollback()
				if err == nil || errors.Is(err, onerun.ErrLost) {
					err = s.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonStopped})
				}
				return err
			},
		} {
			if err := ask(newFuse(t, n)); err != nil && !errors.Is(err, onerun.ErrUnavailable) {
				t.Errorf("%s, cancelled at %d: %v", what, n, err)
			}
			if err := ask(soon(t)); err != nil {
				t.Errorf("%s, after one that was cancelled at %d: %v", what, n, err)
			}
		}
	}
	runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace, Job: "settle"})
	if err != nil || len(runs) != 60 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	for _, r := range runs {
		if r.Status != onerun.Failed || r.Attempt != 1 {
			t.Errorf("%s is %s, attempt %d", r.Name(), r.Status, r.Attempt)
		}
	}
}

// TestClosed: a store that its own program has closed says that, and not that its server is down.
func TestClosed(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c := claimOf("nightly", "")
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
