package storetest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// Harness tells the suite about a store.
type Harness struct {
	// Open gives another client of the same store: a handle of its own each time,
	// which the suite closes. All cases share the store; each has a namespace of
	// its own.
	Open func(ctx context.Context) (onerun.Store, error)

	// Leases says that a grant carries a TTL that runs out. Without it, exclusion
	// ends with the holder's process, and Command is required.
	Leases bool

	// Advance moves the store's clock by d, which may be negative; nothing else moves
	// it then. Nil: the store's clock is real; the cases use the least TTL, and wait.
	Advance func(d time.Duration)

	// Command makes the command of another process with a client of the store: an
	// executable that calls Child. Self is the one to give, from a test binary whose
	// TestMain calls Child. The suite adds to its Env, Stdin, Stdout and Stderr.
	Command func() *exec.Cmd

	// InProcess declares that the store lives in this process's memory, so that
	// there can be no other: goroutines stand in, each with a handle of its own, and
	// one that stops without a word stands in for one that is killed. Exactly one of
	// InProcess and Command must be given.
	InProcess bool

	// Hosts says that the store is a onerun.HostClaimer: it can be told what a host knows of
	// the owners of a lock.
	Hosts bool

	// Queued says how many stand in the line for a lock, on a store that keeps an order
	// (Claim.Order), so that a case knows who came before whom. Nil: the store keeps none,
	// and has to say so.
	Queued func(ctx context.Context, namespace string, lock onerun.LockName) (int, error)

	// Turns says that the store is a onerun.LineWaiter: who waits for a lock holds nothing
	// meanwhile. It keeps an order then.
	Turns bool

	// URL is what Child's open function gets, in the other process.
	URL string

	Clients int // how many contend; 0: 8
	Rounds  int // how many times; 0: 5
}

// Case is one case of the suite.
type Case struct {
	Name string // topic/what
	Run  func(ctx context.Context) error
}

// check is a case as it is written: it ends by returning, or by failing t.
type check struct {
	name string
	run  func(t *trial)
}

// Cases gives all cases for a store. They may run in any order, but not at the same
// time: with Advance they share a clock.
func Cases(h Harness) []Case {
	if err := h.check(); err != nil {
		return []Case{{Name: "harness", Run: func(context.Context) error { return err }}}
	}
	h.Clients, h.Rounds = or(h.Clients, 8), or(h.Rounds, 5)
	var cases []Case
	for _, topic := range [][]check{
		rowCases(), orderCases(), approvalCases(), twoPeopleCases(), transitionCases(), deliveryCases(), unclaimedCases(h.Leases), tokenCases(), replyCases(),
		leaseCases(), crashPolicyCases(), hostCases(), lockCases(), lineCases(), turnCases(), retryCases(), pauseCases(), stopCases(), resolveCases(),
		skipCases(), namespaceCases(), readCases(), keptCases(), outputCases(), progressCases(), itemCases(), noteCases(), pruneCases(), forgetCases(),
		malformedCases(), contentionCases(), crashCases(),
		nameCases(), // last, since they leave the most names behind, for every listing to look at
	} {
		for _, c := range topic {
			cases = append(cases, Case{Name: c.name, Run: func(ctx context.Context) error { return try(ctx, &h, c) }})
		}
	}
	return cases
}

// Run runs every case as a subtest.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Cases(h) {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.Run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func (h Harness) check() error {
	switch {
	case h.Open == nil:
		return errors.New("harness: Open is missing")
	case h.InProcess == (h.Command != nil):
		return errors.New("harness: give exactly one of Command and InProcess; without other processes half of what a store promises can't be seen, so that has to be said")
	case h.Turns && h.Queued == nil:
		return errors.New("harness: a LineWaiter keeps an order: give Queued")
	case h.InProcess && !h.Leases:
		return errors.New("harness: a store whose exclusion ends with the holder needs processes that can die: give Command")
	}
	return nil
}

// caseLimit bounds a case, so that a store that hangs fails it.
const caseLimit = 5 * time.Minute

// try runs one case, in a fresh namespace, and looks at the whole ledger after it.
func try(ctx context.Context, h *Harness, c check) (err error) {
	ctx, cancel := context.WithTimeout(ctx, caseLimit)
	defer cancel()
	t := &trial{ctx: ctx, h: h, ns: "st-" + onerun.NewID()[:12]}
	defer func() {
		if cerr := t.close(); err == nil && cerr != nil {
			err = fmt.Errorf("closing: %w", cerr)
		}
	}()
	defer t.recover(&err)
	t.s = t.open()
	c.run(t)
	t.invariants(t.ns)
	return nil
}

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
