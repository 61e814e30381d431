package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// inOrder is a claim that wants to be served in the order of coming.
func inOrder(c onerun.Claim) onerun.Claim {
	c = again(c)
	c.Order, c.Asking = onerun.OrderFIFO, true
	return c
}

// line tells how many stand in the line for a lock.
func (b *bed) line(lock onerun.LockName) int {
	b.t.Helper()
	n, err := queued(b.LockDir(), onerun.DefaultNamespace, lock)
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// queued tells how many stand in the line for a lock of a directory.
func queued(lockDir, namespace string, lock onerun.LockName) (int, error) {
	dir, err := filelock.Open(lockDir, filelock.Options{AllowNetwork: true, Looking: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = dir.Close() }()
	return dir.Queued(namespace, lock)
}

// queued returns when so many stand in the line for a lock.
func (b *bed) queued(lock onerun.LockName, want int) {
	b.t.Helper()
	for ctx := soon(b.t); b.line(lock) != want; {
		if !moment(ctx) {
			b.t.Fatalf("%d stand in line for %s, want %d", b.line(lock), lock, want)
		}
	}
}

// answered is what one who waited was told.
type answered struct {
	who   int
	grant onerun.Grant
	err   error
}

// waiters wait in line for one lock, each in another process.
type waiters struct {
	*bed
	lock    onerun.LockName
	all     []*child
	answers chan answered
}

// comes is one more that waits in line, once it stands there.
func (w *waiters) comes(c onerun.Claim, limit time.Duration) {
	w.t.Helper()
	who, p, before := len(w.all), w.child(plan{}), w.line(w.lock)
	w.all = append(w.all, p)
	go func() {
		r, err := p.ask(order{Do: "wait", Claim: c, Timeout: limit})
		a := answered{who: who, err: err}
		switch {
		case err != nil:
		case r.Refusal != nil:
			a.err = r.Refusal
		case r.Err != "":
			a.err = errors.New(r.Err)
		default:
			a.grant = *r.Grant
		}
		w.answers <- a
	}()
	if limit == 0 {
		w.queued(w.lock, before+1)
	}
}

// served waits for so many answers, lets each that was granted end, and tells who was, in
// their order.
func (w *waiters) served(n int) (who []int) {
	w.t.Helper()
	last := int64(0)
	for range n {
		a := <-w.answers
		if a.err != nil {
			w.t.Fatalf("waiter %d: %v", a.who, a.err)
		}
		if a.grant.Lease.Token <= last {
			w.t.Errorf("waiter %d has token %d after %d", a.who, a.grant.Lease.Token, last)
		}
		last = a.grant.Lease.Token
		who = append(who, a.who)
		w.all[a.who].do(order{Do: "finish", Outcome: ended(onerun.Succeeded)})
	}
	return who
}

// TestFirstComeFirstServed: runs and locks alone, whatever their jobs are, start in the
// order in which they came, but for those that are gone: killed, or tired of waiting.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	for _, mode := range []onerun.LockMode{onerun.LockFlock, onerun.LockCreate} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			db := onerun.NamedLock("db")
			w := &waiters{bed: newBed(t), lock: db, answers: make(chan answered, 9)}
			holder := claimOf("sweep", "")
			holder.Lock, holder.LockMode = db, mode
			g := w.granted(holder)
			for n := range 6 {
				c := claimOf(fmt.Sprintf("job-%d", n), []string{day, ""}[n%2])
				if n == 5 {
					c = lockClaim("db")
				}
				c.Lock, c.LockMode = db, mode
				w.comes(inOrder(c), 0)
			}
			_ = w.all[2].cmd.Process.Kill() // who asks it waits for its end
			if a := <-w.answers; a.who != 2 || !errors.Is(a.err, errDied) {
				t.Fatalf("the one that was killed: %+v", a)
			}
			tired := inOrder(lockClaim("db"))
			tired.LockMode = mode
			w.comes(tired, 50*time.Millisecond)
			if a := <-w.answers; a.who != 6 || a.err == nil {
				t.Fatalf("the one whose time was over: %+v", a)
			}
			w.queued(db, 5)
			w.finish(g, onerun.Succeeded)
			if got := w.served(5); !slices.Equal(got, []int{0, 1, 3, 4, 5}) {
				t.Errorf("served were %v", got)
			}
			w.queued(db, 0)
		})
	}
}

// TestNoOvertaking: while somebody waits in line, a start that wants the order too and
// doesn't wait is refused, though the lock is free; one that wants none takes it.
func TestNoOvertaking(t *testing.T) {
	t.Parallel()
	for _, c := range []onerun.Claim{claimOf("sweep", ""), claimOf("sweep", day), lockClaim("sweep")} {
		t.Run(fmt.Sprint(c.Lock, c.Key()), func(t *testing.T) {
			t.Parallel()
			w := &waiters{bed: newBed(t), lock: c.Lock, answers: make(chan answered, 1)}
			g := w.granted(c)
			w.finish(g, onerun.Failed)
			if c.Partition != "" {
				w.approve(w.run(g.Lease.RunID))
			}
			hold := w.granted(lockOf(c))
			w.comes(inOrder(c), 0)
			w.waited(c.Lock) // not in the midst of a transaction
			if err := w.all[0].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			w.stopped(0)
			w.finish(hold, onerun.Succeeded)
			now := inOrder(c)
			now.Asking = false
			ref, err := w.Explain(soon(t), now)
			if err != nil || ref == nil {
				t.Fatalf("explain: %v, error %v", ref, err)
			}
			if got := w.refusal(now, onerun.RefusedLocked); got.Holder.ID() != ref.Holder.ID() || got.Holder.Detail != ref.Holder.Detail {
				t.Errorf("refused for %+v, explained by %+v", got.Holder, ref.Holder)
			}
			if w.line(c.Lock) != 1 {
				t.Error("who doesn't wait took a place")
			}
			w.finish(w.granted(lockOf(c)), onerun.Succeeded)
			if err := w.all[0].cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			w.served(1)
			now = inOrder(lockOf(c))
			now.Asking = false
			w.granted(now)
		})
	}
}

// lockOf is a claim of a claim's lock alone, in no order.
func lockOf(c onerun.Claim) onerun.Claim {
	return onerun.Claim{Namespace: c.Namespace, Lock: c.Lock, Owner: onerun.NewID()}
}

// stopped returns when a waiter's process has been stopped.
func (w *waiters) stopped(who int) {
	w.t.Helper()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(w.all[who].cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		w.t.Fatalf("waiter %d is not stopped: %v, error %v", who, status, err)
	}
}

// TestPlaceIsGivenBack: however a wait in line ends, nobody stands there after it.
func TestPlaceIsGivenBack(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(b *bed, g onerun.Grant, cancel func()){
		"granted":     func(b *bed, g onerun.Grant, _ func()) { b.finish(g, onerun.Failed) },
		"refused":     func(b *bed, g onerun.Grant, _ func()) { b.finish(g, onerun.Succeeded) },
		"canceled":    func(_ *bed, _ onerun.Grant, cancel func()) { cancel() },
		"store close": func(b *bed, _ onerun.Grant, cancel func()) { _ = b.Close(); cancel() },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			c := claimOf("settle", day)
			c.Retries = 1 // so that a failure is followed by an attempt
			g := b.granted(c)
			ctx, cancel := context.WithCancel(soon(t))
			other := b.reopen()
			done := make(chan error, 1)
			var next onerun.Grant
			go func() {
				var err error
				next, err = other.ClaimWaiting(ctx, inOrder(c))
				done <- err
			}()
			b.queued(c.Lock, 1)
			b.waited(c.Lock)
			if how == "store close" {
				end(other, g, cancel)
			} else {
				end(b, g, cancel)
			}
			err := <-done
			switch how {
			case "granted":
				if err != nil || next.Lease.Attempt != 2 {
					t.Errorf("%+v, error %v", next.Lease, err)
				}
			case "refused":
				var ref *onerun.Refusal
				if !errors.As(err, &ref) || ref.Reason != onerun.RefusedSucceeded {
					t.Errorf("error %v", err)
				}
			default:
				is(t, err, "unavailable", "a wait that was given up")
			}
			if n := b.line(c.Lock); n != 0 {
				t.Errorf("%d stand in line", n)
			}
		})
	}
}

// TestPlaceIsKept: the first in line has to ask again and again when nothing wakes it, as for
// the end of what a dead owner left running. It keeps its place meanwhile.
func TestPlaceIsKept(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	db := onerun.NamedLock("db")
	owner := b.child(plan{})
	owner.do(order{Do: "claim", Claim: lockClaim("db")})
	job := owner.do(order{Do: "job", Script: leavesOne})
	t.Cleanup(func() { _ = unix.Kill(-job.Group, unix.SIGKILL) })
	owner.kill()
	gone(t, job.Group)
	var asked atomic.Int64
	served := make(chan answered, 100)
	for who := range 3 {
		s := b.reopen(sqlite.WithHook(func(step string) {
			switch step {
			case "acquire: flock taken":
				asked.Add(1)
			case "queue: place taken":
				served <- answered{who: who}
			}
		}))
		go func() {
			g, err := s.ClaimWaiting(soon(t), inOrder(lockClaim("db")))
			if err == nil {
				served <- answered{who: who}
				err = s.Finish(soon(t), g.Lease, onerun.Outcome{})
			}
			if err != nil {
				t.Errorf("waiter %d: %v", who, err)
			}
		}()
		b.queued(db, who+1)
	}
	for before, ctx := asked.Load(), soon(t); asked.Load() < before+3; {
		if !moment(ctx) {
			t.Fatal("the first in line doesn't ask again")
		}
	}
	killGroup(t, job.Group, job.PID)
	for n := range 6 { // each took one place, and then was served
		if a := <-served; a.who != n%3 {
			t.Errorf("event %d is one of waiter %d", n, a.who)
		}
	}
}

// TestRunsElsewhere: a start whose key runs under another lock doesn't wait for this one, so
// it keeps nobody else from it.
func TestRunsElsewhere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	db := onerun.NamedLock("db")
	g, hold := b.granted(claimOf("settle", day)), b.granted(lockClaim("db"))
	ctx, cancel := context.WithCancel(soon(t))
	done, served := make(chan error, 1), make(chan error, 1)
	wait := func(c onerun.Claim, told chan<- error) {
		c.Lock = db
		s := b.reopen()
		go func() {
			_, err := s.ClaimWaiting(ctx, c)
			told <- err
		}()
	}
	wait(inOrder(claimOf("settle", day)), done)
	b.queued(db, 1)
	wait(inOrder(lockClaim("db")), served)
	b.queued(db, 2)
	b.finish(hold, "")
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("it doesn't wait: %v", err)
	default:
	}
	cancel()
	is(t, <-done, "unavailable", "a wait that was given up")
	b.finish(g, onerun.Succeeded)
}

// TestUnknownOrder: what no store should be asked for.
func TestUnknownOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	c := claimOf("settle", day)
	c.Order = "lifo"
	_, err := b.Claim(soon(t), c)
	is(t, err, "usage", "an order that is none")
}
