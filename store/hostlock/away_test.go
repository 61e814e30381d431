package hostlock_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/store/hostlock"
	"github.com/onerun-dev/onerun/store/memory"
)

// faulty is a store of many machines that can be out of reach.
type faulty struct {
	*memory.Store
	away atomic.Bool
	deaf atomic.Bool // the next claim is granted, and its answer lost; then it is out of reach

	hiccups atomic.Int32 // so many deliveries of runs without a claim fail
}

var errAway = &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "store", Err: errors.New("connection refused")}

func (f *faulty) err() error {
	if f.away.Load() {
		return errAway
	}
	return nil
}

func (f *faulty) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	return f.ClaimKnowing(ctx, c, onerun.HostKnowledge{})
}

func (f *faulty) ClaimKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	if err := f.err(); err != nil {
		return onerun.Grant{}, err
	}
	g, err := f.Store.ClaimKnowing(ctx, c, k)
	if f.deaf.Swap(false) {
		f.away.Store(true)
		return onerun.Grant{}, errAway
	}
	return g, err
}

func (f *faulty) ExplainKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (*onerun.Refusal, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.ExplainKnowing(ctx, c, k)
}

func (f *faulty) Runs(ctx context.Context, q onerun.Query) ([]onerun.Run, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.Runs(ctx, q)
}

func (f *faulty) Locks(ctx context.Context, namespace string) ([]onerun.LockState, error) {
	if err := f.err(); err != nil {
		return nil, err
	}
	return f.Store.Locks(ctx, namespace)
}

func (f *faulty) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if err := f.err(); err != nil {
		return err
	}
	return f.Store.Finish(ctx, l, o)
}

func (f *faulty) Deliver(ctx context.Context, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	if err := f.err(); err != nil {
		return onerun.Delivery{}, err
	}
	return f.Store.Deliver(ctx, l, o)
}

func (f *faulty) DeliverUnclaimed(ctx context.Context, c onerun.Claim, started time.Time, o onerun.Outcome) (onerun.Delivery, error) {
	if err := f.err(); err != nil || f.hiccups.Add(-1) >= 0 {
		return onerun.Delivery{}, errAway
	}
	return f.Store.DeliverUnclaimed(ctx, c, started, o)
}

// host is a host of a store that is out of reach from the beginning.
type host struct {
	*hostlock.Store
	t      *testing.T
	remote *faulty
	dir    string
	late   []onerun.Delivery // what Finish has told
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, remote: &faulty{Store: memory.New()}, dir: filepath.Join(t.TempDir(), "locks")}
	h.remote.away.Store(true)
	h.open("store")
	return h
}

func (h *host) open(name string) {
	h.t.Helper()
	s, err := hostlock.Open(h.remote, h.dir, hostlock.Options{Name: name})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Store = s
}

func (h *host) without() onerun.Store {
	h.t.Helper()
	s, ok := h.Unclaimed(func(d onerun.Delivery) { h.late = append(h.late, d) })
	if !ok {
		h.t.Fatal("the store keeps no runs without a claim")
	}
	return s
}

// files are the files of runs that wait.
func (h *host) files() []string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.dir, "*.spool-*"))
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// note is what stands in a lock's file.
func (h *host) note(lock onerun.LockName) *filelock.Note {
	h.t.Helper()
	d, err := filelock.Open(h.dir, filelock.Options{Looking: true})
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	st, err := d.Look(onerun.DefaultNamespace, lock)
	if err != nil {
		h.t.Fatal(err)
	}
	return st.Note
}

func claimOf(job, partition string) onerun.Claim {
	return onerun.Claim{
		Namespace: onerun.DefaultNamespace, Job: job, Partition: partition, Lock: onerun.JobLock(job), LockMode: onerun.LockFlock,
		Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()), Policy: onerun.Policy{TTL: time.Minute, OnCrash: onerun.CrashAuto},
	}
}

// runs what is granted without a claim to its end, as a wrapper does.
func (h *host) runs(c onerun.Claim, out onerun.Outcome) error {
	h.t.Helper()
	s := h.without()
	g, err := s.Claim(soon(h.t), c)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := s.(onerun.Noter).NoteStart(g.Lease); err != nil {
		h.t.Fatal(err)
	}
	err = s.Finish(soon(h.t), g.Lease, out)
	h.Leave(g.Lease)
	return err
}

func (h *host) refused(s onerun.Store, c onerun.Claim, reason onerun.Reason) onerun.Refusal {
	h.t.Helper()
	_, err := s.Claim(soon(h.t), c)
	var r *onerun.Refusal
	if !errors.As(err, &r) || r.Reason != reason {
		h.t.Fatalf("claim of %s: %v, want it refused as %s", c.Key(), err, reason)
	}
	return *r
}

func (h *host) granted(s onerun.Store, c onerun.Claim) onerun.Grant {
	h.t.Helper()
	host := h.Store
	g, err := s.Claim(soon(h.t), c)
	if err != nil {
		h.t.Fatalf("claim of %s: %v", c.Key(), err)
	}
	h.t.Cleanup(func() { host.Leave(g.Lease) }) // or it holds on to a directory that is gone
	return g
}

func (h *host) unavailable(s onerun.Store, c onerun.Claim) {
	h.t.Helper()
	if _, err := s.Claim(soon(h.t), c); !errors.Is(err, onerun.ErrUnavailable) {
		h.t.Fatalf("claim of %s: %v, want unavailable", c.Key(), err)
	}
}

// flushed delivers what waits, and wants one delivery.
func (h *host) flushed(kind onerun.DeliveryKind) onerun.Delivery {
	h.t.Helper()
	all, err := h.Flush(soon(h.t))
	if err != nil || len(all) != 1 || all[0].Err != nil || all[0].Kind != kind || !all[0].Unclaimed {
		h.t.Fatalf("flush: %+v, error %v; want one that is %s", all, err, kind)
	}
	return all[0]
}

// detail is the one run of a key, as the store has it.
func (h *host) detail(job, partition string) onerun.Detail {
	h.t.Helper()
	runs, err := h.remote.Store.Runs(soon(h.t), onerun.Query{Namespace: onerun.DefaultNamespace, Job: job, Partition: partition})
	if err != nil || len(runs) != 1 {
		h.t.Fatalf("runs of %s:%s: %v, error %v", job, partition, runs, err)
	}
	d, err := h.remote.Detail(soon(h.t), onerun.DefaultNamespace, runs[0].RunID)
	if err != nil {
		h.t.Fatal(err)
	}
	return d
}

var (
	success = onerun.Outcome{Status: onerun.Succeeded}
	exited  = onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}
)
