package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/process"
	"github.com/onerun-dev/onerun/internal/procfs"
	"github.com/onerun-dev/onerun/schedule"
)

// slotFlags say what the run is for.
type slotFlags struct {
	Date      word `placeholder:"DATE" help:"Business date: YYYY-MM-DD, today, yesterday, 3d-ago; with --calendar: business-day, previous-business-day."`
	TZ        word `name:"tz" placeholder:"ZONE" help:"Zone of relative dates, for example Asia/Seoul, or local (ONERUN_TZ)."`
	DayStart  word `placeholder:"HH:MM" help:"When the business day begins (00:00)."`
	Calendar  word `placeholder:"FILE" help:"Holidays, one date a line or iCalendar; Saturdays and Sundays are no business days."`
	Period    word `placeholder:"P" help:"hour, day, week, month, or Nm for slots of N minutes."`
	At        word `placeholder:"TIME" help:"Instant that relative dates count from, RFC 3339 (ONERUN_SCHEDULED_AT, else now)."`
	Partition word `placeholder:"P" help:"What the run is for, if it is not a date."`
}

func (f slotFlags) slot() (schedule.Slot, error) {
	spec := schedule.Spec{
		Date: string(f.Date), Zone: cmp.Or(string(f.TZ), os.Getenv("ONERUN_TZ")), DayStart: string(f.DayStart), Period: string(f.Period),
		At: cmp.Or(string(f.At), os.Getenv("ONERUN_SCHEDULED_AT")), Partition: string(f.Partition),
	}
	var err error
	if spec.Calendar, err = loadCalendar(f.Calendar); err != nil {
		return schedule.Slot{}, err
	}
	return spec.Resolve(time.Now())
}

// loadCalendar reads a calendar; nil: none was named.
func loadCalendar(path word) (*schedule.Calendar, error) {
	if path == "" {
		return nil, nil
	}
	cal, err := schedule.LoadCalendar(string(path))
	var bad *schedule.UsageError
	if err != nil && !errors.As(err, &bad) {
		err = &onerun.StoreError{Kind: fileKind(err), What: "calendar", Path: string(path), Err: pathCause(err), Do: "name a file that this account can read"}
	}
	return cal, err
}

// lockFlags say what the lock is made of.
type lockFlags struct {
	LockMode string `enum:"flock,create" default:"flock" placeholder:"flock|create" help:"flock, or a plain file made with O_EXCL for other programs and file systems without flock."`
	LockDir  word   `placeholder:"DIR" help:"Directory of the lock files (locks/ beside the store)."`
}

// scopeFlags say which lock a run holds.
type scopeFlags struct {
	Scope string `enum:"job,key" default:"job" placeholder:"job|key" help:"One run of the job at a time, or one of each key (job)."`
	Lock  word   `placeholder:"NAME" help:"Hold the lock NAME instead, which other jobs may share."`
}

func (f scopeFlags) lock(job, partition string) (onerun.LockName, error) {
	switch x := f.clashes(partition != ""); {
	case x != nil:
		return "", x[0].refused()
	case f.Lock != "":
		name, err := onerun.CleanName("lock", string(f.Lock))
		return onerun.NamedLock(name), err
	case f.Scope == "key":
		return onerun.KeyLock(onerun.MakeKey(job, partition)), nil
	}
	return onerun.JobLock(job), nil
}

// execFlags say how the command is executed.
type execFlags struct {
	Shell   word     `short:"c" placeholder:"LINE" help:"Execute LINE by /bin/sh instead of a command."`
	TTL     duration `name:"ttl" default:"60s" placeholder:"D" help:"Lease, 1s to 24h (60s); the embedded store has none."`
	Timeout duration `placeholder:"D" help:"Stop the job after D: SIGTERM to its group, SIGKILL after --grace."`
	Grace   duration `default:"10s" placeholder:"D" help:"From SIGTERM to SIGKILL (10s)."`
	Hold    string   `enum:"job,tree" default:"job" placeholder:"job|tree" help:"Until when the lock is held: the end of the job's first process, or of the last one of its group (job)."`
}

// policyFlags are kept with the run, or say how long to wait for it.
type policyFlags struct {
	Wait         *waiting          `short:"w" placeholder:"D|forever" help:"Wait while running or locked (not at all)."`
	NoWait       bool              `short:"n" help:"Don't wait (the default)."`
	Order        waitOrder         `enum:"any,fifo" default:"any" placeholder:"any|fifo" help:"Who of those that wait is next: any, or among those with fifo the one that came first (any)."`
	FinishWait   duration          `default:"30s" placeholder:"D" help:"How long to try recording the end (30s)."`
	OnCrash      string            `enum:"auto,manual" default:"auto" placeholder:"auto|manual" help:"What the next start does with a run whose owner died: close it as FAILED, or leave it to a person."`
	Retries      int               `default:"0" placeholder:"N" help:"Execute it up to N times more after known failures (0)."`
	Backoff      backoff           `default:"10s..10m" placeholder:"MIN..MAX" help:"Wait before a retry: MIN, doubled each time up to MAX (10s..10m)."`
	RetryLater   bool              `help:"Leave a due retry to a later start, instead of waiting for it here."`
	RetryLost    bool              `help:"Retry after an unknown outcome too: a lease that ran out."`
	StaleAfter   duration          `placeholder:"D" help:"List the run as stale after D (twice the longest of the last 50 successes, at least 10m)."`
	Rerun        string            `enum:"one-person,two-person" default:"one-person" placeholder:"one-person|two-person" help:"How many people a rerun needs (one-person)."`
	Label        map[string]string `sep:"none" mapsep:"none" placeholder:"K=V" help:"Kept with the run; may be repeated."`
	VersionLabel word              `placeholder:"V" help:"Version of the job, kept with the run."`
	WorkerLabel  word              `placeholder:"V" help:"Name of this worker, kept with the run."`
}

type runCmd struct {
	Job string `arg:"" help:"Name of the job."`
	slotFlags
	scopeFlags
	lockFlags
	execFlags
	outputFlags
	policyFlags
	notifyFlags
	SkipCode      int      `short:"E" default:"0" placeholder:"N" help:"Exit code of a skip: running, locked, succeeded, skipped, paused (0)."`
	BlockedCode   int      `default:"79" placeholder:"N" help:"Exit code of failed, stale, retry_not_due (79)."`
	IfUnavailable string   `enum:"fail,skip,run" default:"fail" placeholder:"fail|skip|run" help:"When a store of many machines can't be reached: fail (69), skip, or run without a claim."`
	Command       []string `arg:"" optional:"" passthrough:"partial" help:"What to execute."`
}

// Help explains the command.
func (runCmd) Help() string {
	return `The run's key is JOB:PARTITION; the partition comes from --date, --period or --partition. A key that SUCCEEDED is
not executed again. Without a partition the run is unkeyed, and only excluded from running beside itself.

A start that is refused is a skip: it is counted in the ledger, and executes nothing.

With --retries a start waits for the retry of what failed, holding no lock: the key is FAILED with a time meanwhile, and
any start may take the retry when it is due. 126 and 127 are not retried. --timeout is for each attempt; the exit code is
the last attempt's. The retry of an unkeyed job is a run of its own, with the label retry_of.

With --if-unavailable run a job is executed once, without retries, when a store of many machines can't be reached for
--store-timeout. This host alone excludes then: another one may run the same key. The job has no ONERUN_TOKEN; its end waits on
this host until a start or onerun flush delivers it. --on-crash manual refuses it (64).`
}

func (c *runCmd) run(ctx context.Context, e *env) error {
	job, argv, err := c.prepare(e)
	if err != nil {
		return err
	}
	listeners, err := c.notifyFlags.read()
	if err != nil {
		return err
	}
	s, p, err := e.open(ctx, string(c.LockDir))
	e.inherited()
	if err == nil {
		if w, ok := s.(interface{ Warm(ctx context.Context) }); ok {
			w.Warm(ctx)
		}
		x := &execution{env: e, argv: argv, place: p, timeout: time.Duration(c.Timeout), grace: time.Duration(c.Grace), hold: c.Hold == "tree", output: c.outputFlags.plan(e), listeners: listeners, textfileDir: c.TextfileDir, anyway: c.IfUnavailable == "run"}
		err = x.do(ctx, s, job)
	}
	var refused *onerun.Refusal
	switch {
	case errors.As(err, &refused) && refused.Reason.Blocked():
		return &statusError{status: c.BlockedCode}
	case errors.As(err, &refused):
		return &statusError{status: c.SkipCode}
	case errors.Is(err, onerun.ErrUnavailable) && c.IfUnavailable == "skip" && !ran(err):
		return &statusError{status: c.SkipCode, cause: fmt.Errorf("skipped, --if-unavailable skip: %w", err)}
	}
	return err
}

// ran reports whether an error comes from after the start of the job.
func ran(err error) bool {
	var s *statusError
	return errors.As(err, &s)
}

// prepare is all of a start that asks neither a store nor whom to tell: what it refuses, no start of these flags can ever be.
// The scheduler asks it of each job of its file.
func (c *runCmd) prepare(e *env) (job onerun.Job, argv []string, err error) {
	if job, err = c.job(e); err != nil {
		return job, nil, err
	}
	if argv, err = commandLine(string(c.Shell), c.Command); err != nil {
		return job, nil, err
	}
	return job, argv, cmp.Or(checkExit("--skip-code", c.SkipCode), checkExit("--blocked-code", c.BlockedCode))
}

// job puts the flags together.
func (c *runCmd) job(e *env) (onerun.Job, error) {
	name, err := onerun.CleanName("job", c.Job)
	if err != nil {
		return onerun.Job{}, err
	}
	slot, err := c.slot()
	if err != nil {
		return onerun.Job{}, err
	}
	if slot.Partition != "" {
		if slot.Partition, err = onerun.CleanPartition(slot.Partition); err != nil {
			return onerun.Job{}, err
		}
	}
	if x := c.clashes(slot.Partition != ""); x != nil {
		return onerun.Job{}, x[0].refused()
	}
	e.names = append(e.names, onerun.MakeKey(name, slot.Partition), name)
	lock, err := c.lock(name, slot.Partition)
	if err != nil {
		return onerun.Job{}, err
	}
	if v, ok := c.Label[""]; ok {
		return onerun.Job{}, usage("--label %q has no name; write NAME=VALUE", "="+v)
	}
	if ttl := time.Duration(c.TTL); ttl < onerun.MinTTL || ttl > onerun.MaxTTL {
		return onerun.Job{}, usage("--ttl %s is out of range; use 1s to 24h", ttl)
	}
	if c.Retries < 0 {
		return onerun.Job{}, usage("--retries %d can't be; use 0 or more", c.Retries)
	}
	wait := time.Duration(0)
	if c.Wait != nil {
		wait = time.Duration(*c.Wait)
	}
	return onerun.Job{
		Namespace: e.Namespace, Name: name, Partition: slot.Partition, BusinessDate: slot.BusinessDate,
		Lock: lock, LockMode: onerun.LockMode(c.LockMode), Order: c.Order.order(), ScheduledAt: slot.ScheduledAt,
		Policy: onerun.Policy{
			TTL: time.Duration(c.TTL), OnCrash: onerun.OnCrash(c.OnCrash), StaleAfter: time.Duration(c.StaleAfter),
			TwoPeople: c.Rerun == "two-person",
			Retries:   c.Retries, BackoffMin: time.Duration(c.Backoff.least), BackoffMax: time.Duration(c.Backoff.most), RetryLost: c.RetryLost,
		},
		Grace: time.Duration(c.Grace), Wait: wait, FinishWait: max(1, time.Duration(c.FinishWait)), RetryLater: c.RetryLater,
		WorkerLabel: e.redacted(string(c.WorkerLabel)), VersionLabel: e.redacted(string(c.VersionLabel)), Labels: redactedLabels(e, c.Label),
	}, nil
}

// commandLine is the argument vector of what to execute.
func commandLine(shell string, args []string) ([]string, error) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	switch {
	case shell != "" && len(args) > 0:
		return nil, usage("-c and a command are both given; which one is it?")
	case shell != "":
		return []string{"/bin/sh", "-c", shell}, nil
	case len(args) == 0 || args[0] == "":
		return nil, usage("there is no command to execute; write it after --, or use -c")
	}
	return args, nil
}

// execution is one command under one claim.
type execution struct {
	*env
	argv           []string
	place          place
	timeout, grace time.Duration
	finishWait     time.Duration
	store          onerun.Store
	guarding       atomic.Pointer[process.Guarding] // nil: the job has not been started, or nobody guards it
	stopping       atomic.Bool                      // the job is being stopped, for a guard that comes later
	lease          leaseEnd
	hold           bool           // --hold tree
	private        private        // of the attempt under way
	removing       sync.WaitGroup // of what earlier ones had
	output         output
	listeners      *listeners // nil: nobody is to be told
	tell           *teller
	textfileDir    word
	textfile       *textfile // nil: none is asked for
	status         int
	signals        *signals
	wake           func() // ends a wait for a retry
	log            *logger
	anyway         bool  // --if-unavailable run
	claimed        bool  // a claim was granted
	away           error // why the store could not be asked: the run has no claim
}

// do claims, executes and records, as often as there are retries to wait for. A signal
// that comes during such a wait ends it, and then this process.
func (x *execution) do(ctx context.Context, s onerun.Store, job onerun.Job) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x.signals, x.wake = heedSignals(), cancel
	err := x.carry(ctx, s, job)
	if sig := x.signals.cutShort(); sig != 0 {
		return dieOf(sig)
	}
	return err
}

func (x *execution) carry(ctx context.Context, s onerun.Store, job onerun.Job) error {
	var err error
	x.store, x.finishWait = s, cmp.Or(job.FinishWait, onerun.DefaultFinishWait)
	if x.log, err = newLogger(x.env, x.place, x.signals.ready); err != nil {
		return err
	}
	defer x.log.close()
	x.log.worker = job.WorkerLabel
	x.tellPrivate(s)
	x.tell = x.tellBy(s, job.Policy)
	x.textfile = x.textfileOf(job)
	err = x.runner(s).Do(ctx, job, x.execute)
	if x.anyway && !x.claimed && errors.Is(err, onerun.ErrUnavailable) {
		err = x.carryUnclaimed(ctx, s, job, err)
	}
	x.releaseGuard(false)
	x.removing.Wait()
	x.passRest()
	x.textfile.finish()
	x.tell.finish(x.signals.cutShort() != 0, x.signals.sending)

	var failure *onerun.Failure
	var unrecorded *onerun.NotRecordedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unrecorded):
		status := x.status
		switch {
		case unrecorded.Outcome.Reason == onerun.ReasonLeaseLost:
			status = exitLost
		case status == 0:
			status = exitUnrecorded
		}
		return &statusError{status: status, cause: x.unsaid(err)}
	case errors.Is(err, onerun.ErrLost):
		return &statusError{status: exitLost, cause: x.unsaid(err)}
	case errors.As(err, &failure) && x.status != 0:
		return &statusError{status: x.status, cause: x.told(failure)}
	}
	return err
}

func (x *execution) runner(s onerun.Store) *onerun.Runner {
	return onerun.NewRunner(s, onerun.WithProcess(), onerun.WithObserver(x), onerun.WithStoreTimeout(time.Duration(x.StoreTimeout)), onerun.WithRedaction(x.redacted), onerun.WithRenewal(x.renewed))
}

// Observe implements onerun.Observer.
func (x *execution) Observe(o onerun.Observation) {
	if o.Event == onerun.EventClaimed {
		x.claimed = true
		if x.away != nil {
			o.Detail = "without a claim, since the store could not be asked: " + x.away.Error()
		}
	}
	x.log.Observe(o)
	if o.Event == onerun.EventTakenOver {
		x.removing.Go(sweepSockets)
	}
	if o.Outcome != nil { // the attempt is recorded, or given up: the next one has a guard of its own
		waits := errors.As(o.Err, new(*onerun.NotRecordedError))
		x.releaseGuard(waits)
		if s, ok := x.store.(hostLocked); ok && waits { // this process may stay for a while
			s.Leave(o.Lease)
		}
	}
	x.textfile.Observe(o)
	x.tell.Observe(o)
	if o.Event == onerun.EventRetryWaiting {
		x.signals.rest(x.wake)
	}
}

// told is what is to be said of a failed job: nothing if it spoke for itself.
func (x *execution) told(f *onerun.Failure) error {
	var start *process.StartError
	if errors.As(f.Err, &start) {
		return x.unsaid(f.Err)
	}
	return nil
}

// unsaid is an error, unless a line of the log has said it on standard error.
func (x *execution) unsaid(err error) error {
	if x.log.said {
		return nil
	}
	return err
}

// execute starts the job's process and waits for it.
func (x *execution) execute(ctx context.Context, o *onerun.Owner) (failure error) {
	x.status = 0
	path, err := process.LookPath(x.argv[0], os.Getenv("PATH"))
	if err != nil {
		return x.failedStart(err)
	}
	x.stopping.Store(false)
	x.makePrivate(o)
	defer x.removePrivate()
	if err := x.beginOutput(); err != nil {
		return x.failedStart(&process.StartError{Code: process.CodeNoFork, Err: err})
	}
	defer func() { x.keepOutput(o, failure) }()
	defer func() { // should we be killed while something is waited for, the end is known
		x.closeSocket(func() { _ = o.NoteEnd(ctx, failure) })
	}()
	defer x.tellOutput(ctx, o)()
	if !x.signals.hold() {
		return &onerun.Failure{Reason: onerun.ReasonCanceled, Void: true, Err: errors.New("the retry was not started: told to stop by a signal")}
	}
	if err := o.NoteStart(); err != nil {
		return &onerun.Failure{Reason: onerun.ReasonCanceled, Void: true, Err: fmt.Errorf("the job was not started: %w", err)}
	}
	end, err := process.Run(ctx, process.Command{
		Path: path, Args: x.argv, Env: x.environment(o), Timeout: x.timeout, Grace: x.grace, Hold: x.hold,
		KillBy: x.killBy(ctx, o.Lease()), Look: lookEvery(o.Lease()),
		Mark:   [2]string{"ONERUN_OWNER", o.Lease().Owner},
		Stdout: x.output.job.Stdout(), Stderr: x.output.job.Stderr(),
		Started: func(g procfs.Identity, until process.Deadlines) error {
			x.output.job.Started()
			defer x.signals.started(g.PID)
			if err := o.NoteGroup(g.PID, g.StartTicks); err != nil {
				return err
			}
			x.guard(o, g, until)
			return nil
		},
		Stopping: x.stopGuarding, Own: x.tell.owns,
	})
	x.signals.ended()
	x.status = end.ExitCode
	var start *process.StartError
	switch {
	case errors.As(err, &start):
		return x.failedStart(err)
	case err != nil:
		x.status = max(x.status, 1)
		return &onerun.Failure{Reason: onerun.ReasonCanceled, ExitCode: &end.ExitCode, Err: err}
	}
	f := &onerun.Failure{ExitCode: &end.ExitCode}
	// On a terminal Ctrl-C reaches the job alone, but whoever presses it means onerun too.
	f.RetryLater = end.Signal == unix.SIGINT || end.Signal == unix.SIGQUIT
	if end.Signal != 0 {
		f.Signal = process.SignalName(end.Signal)
	}
	switch {
	case end.Cause == process.TimedOut:
		f.Reason, x.status = onerun.ReasonTimeout, 124
		f.Err = fmt.Errorf("timed out after %s", x.timeout)
		x.log.Observe(onerun.Observation{Event: onerun.EventTimeout, At: time.Now(), Run: o.Run(), Lease: o.Lease(), Err: f.Err})
	case end.Cause == process.Stopped:
		f.Reason = onerun.ReasonCanceled
		f.Err = context.Cause(ctx)
		x.status = max(x.status, 1)
		if errors.Is(f.Err, onerun.ErrStopped) {
			f.Reason, x.status = onerun.ReasonStopped, 128+int(unix.SIGTERM)
		}
	case end.Signal != 0:
		f.Reason = onerun.ReasonSignal
	case end.ExitCode != 0:
		f.Reason = onerun.ReasonExit
	default:
		return nil
	}
	return f
}

func (x *execution) failedStart(err error) error {
	f := &onerun.Failure{Reason: onerun.ReasonCanceled, Err: err}
	var start *process.StartError
	if errors.As(err, &start) {
		x.status = start.Code
		f.ExitCode = &start.Code
		switch start.Code {
		case process.CodeNotFound:
			f.Reason = onerun.ReasonNotFound
		case process.CodeNotExecutable:
			f.Reason = onerun.ReasonNotExecutable
		case process.CodeNoFork:
			f.Void = true // the machine's bad hour, not the job's: the next start may
		}
	}
	return f
}
