package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

// trial is one case under way: its namespace, its clients, and how it fails.
//
// A failure is a panic with a value of type failure, which try turns into the
// case's error: a case then reads as the steps it takes, and no step can go on
// after one that failed.
type trial struct {
	ctx context.Context
	h   *Harness
	ns  string
	s   onerun.Store // the client that most cases use

	note string // what the case is about just now, for its failures

	revived map[string]bool // runs that were made again of their tombstones

	mu      sync.Mutex
	closers []func() error
}

type failure struct{ err error }

// failf ends the case. The error says where in the suite, since a case is best
// understood by reading it.
func (t *trial) failf(format string, args ...any) {
	panic(failure{fmt.Errorf("%s%s: %w", where(), t.note, fmt.Errorf(format, args...))})
}

// helpers are the files whose frames say nothing about the case.
var helpers = []string{
	"trial.go", "look.go", "invariants.go", "peer.go", "witness.go", "claims.go", "operators.go", "executions.go",
	"ends.go", "history.go", "unclaimedlooks.go",
}

func where() string {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		file := filepath.Base(f.File)
		if !slices.Contains(helpers, file) || !more {
			return fmt.Sprintf("%s:%d", file, f.Line)
		}
	}
}

func (t *trial) recover(err *error) {
	switch v := recover().(type) {
	case nil:
	case failure:
		*err = v.err
	default:
		panic(v)
	}
}

func (t *trial) must(err error, what string, args ...any) {
	if err != nil {
		t.failf("%s: expected success, got: %w", fmt.Sprintf(what, args...), err)
	}
}

// is checks that an error is of the given kind, and of no other that it could be
// mistaken for.
func (t *trial) is(err, kind error, what string, args ...any) {
	var refusal *onerun.Refusal
	switch {
	case err == nil:
		t.failf("%s: expected error %q, got success", fmt.Sprintf(what, args...), kind)
	case !errors.Is(err, kind) || errors.As(err, &refusal):
		t.failf("%s: expected error %q, got: %w", fmt.Sprintf(what, args...), kind, err)
	}
	for _, other := range kinds {
		if !errors.Is(kind, other) && errors.Is(err, other) {
			t.failf("%s: the error matches %q and %q: %w", fmt.Sprintf(what, args...), kind, other, err)
		}
	}
}

// either checks that an error is of one of two kinds, where the contract leaves it
// open which.
func (t *trial) either(err, kind, other error, what string, args ...any) {
	if errors.Is(err, other) {
		kind = other
	}
	t.is(err, kind, what, args...)
}

// kinds are all kinds of errors; each error matches exactly one.
var kinds = []error{
	onerun.ErrUsage, onerun.ErrUnavailable, onerun.ErrInternal, onerun.ErrCreate, onerun.ErrIO,
	onerun.ErrPermission, onerun.ErrConfig, onerun.ErrState, onerun.ErrNotFound, onerun.ErrLost,
}

// equal checks a value.
func equal[T comparable](t *trial, got, want T, what string, args ...any) {
	if got != want {
		t.failf("%s: expected %v, got %v", fmt.Sprintf(what, args...), want, got)
	}
}

// near checks a time that a store may round.
func (t *trial) near(got, want time.Time, within time.Duration, what string, args ...any) {
	if d := got.Sub(want).Abs(); d > within {
		t.failf("%s: expected %s, got %s", fmt.Sprintf(what, args...), want.Format(time.RFC3339Nano), got.Format(time.RFC3339Nano))
	}
}

// open gives another client of the store, closed when the case is over.
func (t *trial) open() onerun.Store {
	s, err := t.h.Open(t.ctx)
	t.must(err, "open the store")
	t.atEnd(s.Close)
	return s
}

func (t *trial) opens(n int) []onerun.Store {
	out := make([]onerun.Store, n)
	for i := range out {
		out[i] = t.open()
	}
	return out
}

func (t *trial) atEnd(f func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closers = append(t.closers, f)
}

func (t *trial) close() error {
	var errs []error
	for _, f := range slices.Backward(t.closers) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

func (t *trial) tempDir() string {
	dir, err := os.MkdirTemp("", "onerun-storetest-")
	t.must(err, "make a directory")
	t.atEnd(func() error { return os.RemoveAll(dir) })
	return dir
}

// pass lets time pass in the store. Waiting is only for stores whose clock nobody
// can move.
func (t *trial) pass(d time.Duration) {
	if t.h.Advance != nil {
		t.h.Advance(d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		t.failf("waiting for %s to pass: %w", d, context.Cause(t.ctx))
	}
}

// tick lets the store's clock go on a little, so that what follows is later.
func (t *trial) tick() { t.pass(5 * time.Millisecond) }

// scale is a time that can be waited for: long with a clock that can be moved,
// short else.
func (t *trial) scale(moved, waited time.Duration) time.Duration {
	if t.h.Advance != nil {
		return moved
	}
	return waited
}

// together runs f n times at once; an error of one, or a failure in it, fails the
// case.
func (t *trial) together(n int, f func(i int) error) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			defer t.recover(&errs[i])
			<-begin
			errs[i] = f(i)
		})
	}
	close(begin)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.failf("%d at once: %w", n, err)
	}
}

// said describes the answer to a claim.
func said(err error) string {
	var r *onerun.Refusal
	switch {
	case err == nil:
		return "granted"
	case errors.As(err, &r):
		return "refused " + string(r.Reason) + " (" + strings.TrimSpace(r.Holder.String()) + ")"
	}
	return "error: " + err.Error()
}
