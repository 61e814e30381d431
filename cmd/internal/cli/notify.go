package cli

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/notify"
	"github.com/onerun-dev/onerun/internal/process"
)

// eventNotifyFailed is the log's name for a message that could not be sent.
const eventNotifyFailed = "notify_failed"

// How long messages may take: after the end of an attempt, or the answer to a start, so that
// nobody waits longer for this process; and beside a job.
const (
	tellAfter  = 10 * time.Second
	tellBeside = 20 * time.Second
)

// teller tells people what happens to a job, in goroutines of their own: nothing that it
// does delays the job, its record, or the lock. What is sent to one target is sent in
// order; the targets don't wait for each other.
type teller struct {
	*listeners
	sender   *notify.Sender
	store    onerun.Store
	redact   func(string) string
	flags    string // the store's, for commands to be typed
	next     func(onerun.Run, *onerun.Refusal) string
	policy   onerun.Policy // of the job
	report   func(onerun.Observation)
	ctx      context.Context // of all that is being sent
	cancel   context.CancelFunc
	sending  sync.WaitGroup
	mu       sync.Mutex // of what follows
	over     bool       // nothing is reported any more
	until    time.Time  // when all has to be sent
	last     []chan struct{}
	lastPing chan struct{}
	enough   chan struct{}      // closed when the job has ended: a ping of its start is not tried again
	failed   *ending            // a failure that is yet to be told: whether there is a retry comes next
	unwatch  context.CancelFunc // ends the watch for lateness
}

func newTeller(l *listeners, s onerun.Store, redact func(string) string) *teller {
	t := &teller{listeners: l, sender: &notify.Sender{}, store: s, redact: redact, unwatch: func() {}}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.last = make([]chan struct{}, len(l.targets))
	t.sender.Full = fullProgram()
	return t
}

// tellBy makes a teller for an execution; nil if there is nobody to tell. Where a target
// can't be told here, that is said at once.
func (x *execution) tellBy(s onerun.Store, policy onerun.Policy) *teller {
	if x.listeners == nil {
		return nil
	}
	t := newTeller(x.listeners, s, x.redacted)
	t.flags, t.policy, t.report = x.storeFlagsAnywhere(), policy, x.log.Observe
	t.next = func(r onerun.Run, refused *onerun.Refusal) string {
		return *explain(x.env, onerun.Claim{Namespace: r.Namespace, Job: r.Job, Partition: r.Partition, Lock: r.Lock}, refused).Next
	}
	var unset []string
	if x.place.secret {
		unset = append(unset, "ONERUN_STORE")
	}
	t.sender.Env = process.Env(os.Environ(), nil, unset...)
	for _, target := range t.targets {
		if target.NeedsFull() && t.sender.Full == "" {
			<-x.signals.ready // a write to a closed pipe is an error from here on
			t.missing(x.env, target)
		}
	}
	if t.ping != nil && t.ping.NeedsFull() && t.sender.Full == "" {
		<-x.signals.ready
		t.missing(x.env, *t.ping)
		t.ping = nil
	}
	return t
}

// missing says that nothing can be sent to an address.
func (t *teller) missing(e *env, to fmt.Stringer) {
	complain(e, fmt.Errorf("nothing is sent to %s, since https and chat services need the program %s beside onerun, which is not there; make builds both", to, notify.Companion))
}

// Observe implements onerun.Observer.
func (t *teller) Observe(o onerun.Observation) {
	if t == nil {
		return
	}
	if o.Event == onerun.EventRetryWaiting {
		t.tellFailed(o.Run.NextRetryAt)
		return
	}
	if o.Outcome == nil {
		t.tellFailed(time.Time{})
	}
	switch {
	case o.Event == onerun.EventStarted:
		t.started(o.Run)
	case o.Outcome != nil:
		t.ended(o)
	case o.Event == onerun.EventTakenOver:
		t.bound(tellAfter)
		t.tell(notify.Failure, o.Run, tellBeside, func(context.Context) *notify.Message { return t.failure(ending{run: o.Run}) })
	case o.Delivery != nil && o.Delivery.Kind == onerun.DeliveredKept:
		t.bound(tellAfter)
		t.tell(notify.Failure, o.Run, tellBeside, func(context.Context) *notify.Message { return t.twice(o) })
	case o.Event == onerun.EventSkipped && o.Refusal != nil:
		t.bound(tellAfter)
		t.refused(o)
	}
}

// bound says how long from now this process waits for what is being sent.
func (t *teller) bound(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Now().Add(d)
}

// refused tells of a start that was refused: of equal ones by the rule of the log, at
// counts 1, 2, 4, 8 …, so that a line that is blocked every minute can't flood anybody.
func (t *teller) refused(o onerun.Observation) {
	if n := o.Refusal.Count; n > 0 && n&(n-1) != 0 {
		return
	}
	ev := notify.Skip
	if o.Refusal.Reason.Blocked() {
		ev = notify.Blocked
	}
	t.tell(ev, o.Run, tellAfter, func(context.Context) *notify.Message { return t.refusal(ev, o) })
}

// started pings, and begins to look whether the run is late.
func (t *teller) started(r onerun.Run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enough = make(chan struct{})
	if t.ping != nil {
		t.pingLocked(notify.PingStart, r, "", tellBeside)
	}
	if len(t.targets) > 0 && t.on.Has(notify.Late) {
		ctx, cancel := context.WithCancel(t.ctx)
		t.unwatch = cancel
		t.sending.Go(func() { t.watchLate(ctx, r) })
	}
}

// ended tells how an attempt ended. Its observation comes when that is recorded and the lock
// free, or when it is given up to record it.
func (t *teller) ended(o onerun.Observation) {
	end := endingOf(o)
	t.mu.Lock()
	t.unwatch()
	t.until = time.Now().Add(tellAfter)
	if t.enough != nil {
		close(t.enough)
		t.enough = nil
	}
	if t.ping != nil {
		step := notify.PingSuccess
		if !end.well() {
			step = notify.PingFail
		}
		t.pingLocked(step, end.run, t.pingText(end), tellAfter)
	}
	if !end.well() {
		t.failed = &end
	}
	t.mu.Unlock()
	if end.well() && end.run.Status == onerun.Succeeded {
		t.tell(notify.Recovery, end.run, tellAfter, func(ctx context.Context) *notify.Message { return t.recovery(ctx, end.run) })
	}
}

// tellFailed tells of a failure that waits to be told, with the time of its retry if there
// is one.
func (t *teller) tellFailed(retry time.Time) {
	t.mu.Lock()
	end := t.failed
	t.failed = nil
	t.mu.Unlock()
	if end == nil {
		return
	}
	t.tell(notify.Failure, end.run, tellAfter, func(ctx context.Context) *notify.Message {
		end.run.NextRetryAt = retry
		if retry.IsZero() && t.policy.Retries > 0 && end.run.Partition != "" { // left to a later start
			end.run.NextRetryAt = t.retryOf(ctx, end.run)
		}
		return t.failure(*end)
	})
}

// tell sends a message to every target, if its event is asked for. It is made beside, since
// the store may have to be asked; nil: there is nothing to tell.
func (t *teller) tell(ev notify.Event, about onerun.Run, limit time.Duration, message func(context.Context) *notify.Message) {
	if len(t.targets) == 0 || !t.on.Has(ev) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	var left sync.WaitGroup
	ready := make(chan struct{})
	var m *notify.Message
	id := "msg_" + onerun.NewID()
	for i, target := range t.targets {
		if target.NeedsFull() && t.sender.Full == "" { // which was said
			continue
		}
		before, done := t.last[i], make(chan struct{})
		t.last[i] = done
		left.Add(1)
		t.sending.Go(func() {
			defer left.Done()
			defer close(done)
			<-ready
			if m == nil {
				return
			}
			if before != nil {
				select {
				case <-before:
				case <-ctx.Done():
				}
			}
			err := ctx.Err()
			if err == nil {
				err = t.sender.Send(ctx, target, *m, id)
			}
			t.sent(ctx, about, string(ev), target.String(), err)
		})
	}
	t.sending.Go(func() { // last, when all that it waits for is counted
		defer cancel()
		m = message(ctx)
		close(ready)
		left.Wait()
	})
}

// pingLocked sends a ping after the one before it. The caller holds the lock.
func (t *teller) pingLocked(step notify.Step, r onerun.Run, body string, limit time.Duration) {
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	before, done, enough := t.lastPing, make(chan struct{}), t.enough
	t.lastPing = done
	t.sending.Go(func() {
		defer cancel()
		defer close(done)
		if before != nil {
			<-before // it ends with t.ctx, if not earlier
		}
		err := ctx.Err()
		if err == nil {
			err = t.sender.Ping(ctx, *t.ping, step, r.RunID, body, enough)
		}
		t.sent(ctx, r, "ping"+string(step), t.ping.String(), err)
	})
}

// sent says of what could not be sent that it could not: in the log alone, since the exit
// code is the job's.
func (t *teller) sent(ctx context.Context, about onerun.Run, what, to string, err error) {
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("its time was over: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over && t.report != nil {
		t.report(onerun.Observation{Event: eventNotifyFailed, At: time.Now(), Run: about, Detail: what + " to " + to, Err: err})
	}
}

// finish waits for what is being sent, until its time is over, or at once gives it up, when
// somebody wants this process to end. waiting is called if there is something to wait for, with
// what ends that.
func (t *teller) finish(atOnce bool, waiting func(enough func())) {
	if t == nil {
		return
	}
	t.tellFailed(time.Time{})
	t.mu.Lock()
	t.unwatch()
	wait := time.Until(t.until)
	t.mu.Unlock()
	sent := make(chan struct{})
	go func() { t.sending.Wait(); close(sent) }()
	if !atOnce && !isClosed(sent, 0) {
		enough := make(chan struct{})
		waiting(sync.OnceFunc(func() { close(enough) }))
		timer := time.NewTimer(max(0, wait))
		select {
		case <-sent:
		case <-enough:
		case <-timer.C:
		}
		timer.Stop()
	}
	t.cancel()
	isClosed(sent, time.Second) // what could not be sent says so
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}

// owns reports whether a process is one that a message is sent by, whose end is waited for.
func (t *teller) owns(pid int) bool { return t != nil && t.sender.Owns(pid) }

// isClosed waits for a channel to be closed, and reports whether it is.
func isClosed(c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(max(0, limit))
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}
