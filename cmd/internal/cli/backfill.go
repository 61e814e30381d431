package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/process"
	"github.com/onerun-dev/onerun/schedule"
)

type backfillCmd struct {
	Job      string `arg:"" help:"Name of the job."`
	From     word   `required:"" placeholder:"DATE" help:"First date: YYYY-MM-DD, or relative as --date of run."`
	To       word   `required:"" placeholder:"DATE" help:"Last date, included."`
	TZ       word   `name:"tz" placeholder:"ZONE" help:"Zone of relative dates, for example Asia/Seoul, or local (ONERUN_TZ)."`
	Calendar word   `placeholder:"FILE" help:"Holidays, one date a line or iCalendar: only business days are run."`
	Period   word   `placeholder:"P" help:"day, week or month: one run for each of them that the range touches (day)."`
	Parallel int    `default:"1" placeholder:"N" help:"Run N dates at a time; needs --scope key (1)."`
	KeepOn   bool   `name:"keep-going" help:"Go on with the next date after one that failed or is blocked."`
	scopeFlags
	lockFlags
	execFlags
	outputFlags
	policyFlags
	notifyFlags
	Command []string `arg:"" optional:"" passthrough:"partial" help:"What to execute; it gets its date as ONERUN_BUSINESS_DATE and ONERUN_PARTITION."`
}

// Help explains the command.
func (backfillCmd) Help() string {
	return `Each date is one start of onerun run, in the order of the dates. A date that has SUCCEEDED is passed over, so the same
line can be typed again after an interruption and goes on where it stopped. Between two dates the job's lock is free, so
that its ordinary starts aren't kept out; it waits for them, unless -n or --wait says otherwise. It stops at the first date
that fails.`
}

func (c *backfillCmd) run(ctx context.Context, e *env) error {
	b, err := c.plan(ctx, e)
	if err != nil {
		return err
	}
	if len(b.partitions) == 0 {
		return say(e, "there is no business day from %s to %s", c.From, c.To)
	}
	return b.do(ctx)
}

// backfill is one under way.
type backfill struct {
	*env
	store      onerun.Store
	job        string
	partitions []string
	byDate     bool
	args       []string // of onerun run, but for the date and the command
	command    []string
	parallel   int
	keepOn     bool

	mu       sync.Mutex
	children map[*exec.Cmd]bool
	stopped  syscall.Signal
	over     bool // no further date is begun
	executed int
	before   int
	troubles []trouble
}

// trouble is a date that was not done.
type trouble struct {
	key    string
	status int
	why    string
}

// plan checks everything before the first date is begun.
func (c *backfillCmd) plan(ctx context.Context, e *env) (*backfill, error) {
	job, err := onerun.CleanName("job", c.Job)
	if err != nil {
		return nil, err
	}
	if _, err := commandLine(string(c.Shell), c.Command); err != nil {
		return nil, err
	}
	switch {
	case c.Parallel < 1 || c.Parallel > 1000:
		return nil, usage("--parallel %d can't be; use 1 to 1000", c.Parallel)
	case c.Parallel > 1 && c.Scope != "key":
		return nil, usage("--parallel %d needs --scope key: under the one lock of the job the dates would wait for each other", c.Parallel)
	}
	if x := append(c.scopeFlags.clashes(true), c.policyFlags.clashes()...); x != nil {
		return nil, x[0].refused()
	}
	b := &backfill{env: e, job: job, parallel: c.Parallel, keepOn: c.KeepOn, children: map[*exec.Cmd]bool{}}
	if b.partitions, err = c.dates(); err != nil {
		return nil, err
	}
	b.byDate = c.Period == "" || c.Period == "day"
	for _, p := range b.partitions {
		if _, err := onerun.CleanPartition(p); err != nil {
			return nil, err
		}
	}
	if c.Wait == nil && !c.NoWait {
		forever := waiting(onerun.Forever)
		c.Wait = &forever
	}
	b.args = []string{"run", "--skip-code=0", fmt.Sprintf("--blocked-code=%d", exitBlocked)} // whatever the file says
	for _, flags := range []any{&e.common, &c.scopeFlags, &c.lockFlags, &c.execFlags, &c.outputFlags, &c.policyFlags, &c.notifyFlags} {
		b.args = append(b.args, argumentsOf(flags, e.given)...)
	}
	if len(b.partitions) > 0 { // what a start would refuse is refused before the first one
		first := runCmd{Job: c.Job, slotFlags: slotFlags{Partition: word(b.partitions[0])}, scopeFlags: c.scopeFlags, lockFlags: c.lockFlags, execFlags: c.execFlags, outputFlags: c.outputFlags, policyFlags: c.policyFlags}
		if _, err := first.job(e); err != nil {
			return nil, err
		}
		if _, err := c.notifyFlags.read(); err != nil {
			return nil, err
		}
	}
	if c.Shell == "" {
		b.command = append([]string{"--"}, c.Command...)
		if c.Command[0] == "--" {
			b.command = c.Command
		}
	}
	b.store, _, err = e.open(ctx, string(c.LockDir))
	return b, err
}

// dates are the partitions to run.
func (c *backfillCmd) dates() ([]string, error) {
	zone := cmp.Or(string(c.TZ), os.Getenv("ONERUN_TZ"))
	cal, err := loadCalendar(c.Calendar)
	if err != nil {
		return nil, err
	}
	var ends [2]string
	for i, date := range []word{c.From, c.To} {
		slot, err := schedule.Spec{Date: string(date), Zone: zone, Calendar: cal}.Resolve(time.Now())
		if bad := new(schedule.UsageError); errors.As(err, &bad) && bad.Flag == "--date" {
			own := *bad
			own.Flag = []string{"--from", "--to"}[i]
			err = &own
		}
		if err != nil {
			return nil, err
		}
		ends[i] = slot.BusinessDate
	}
	return schedule.Range(ends[0], ends[1], string(c.Period), cal)
}

func (b *backfill) do(ctx context.Context) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(signals)
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s := <-signals:
				b.stop(s.(syscall.Signal))
			case <-done:
				return
			}
		}
	}()
	orphans, adopted := context.WithCancel(ctx)
	defer adopted()
	go process.ReapOrphans(orphans, b.owns)
	next := make(chan string)
	var workers sync.WaitGroup
	for range min(b.parallel, len(b.partitions)) {
		workers.Go(func() {
			for p := range next {
				b.one(ctx, p)
			}
		})
	}
	for _, p := range b.partitions {
		if b.ended() {
			break
		}
		next <- p
	}
	close(next)
	workers.Wait()
	return b.report()
}

// stop passes a signal on to the starts under way, and begins no other.
func (b *backfill) stop(s syscall.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped, b.over = s, true
	for c := range b.children {
		_ = c.Process.Signal(s)
	}
}

// owns reports whether a process is one of the starts under way.
func (b *backfill) owns(pid int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.children {
		if c.Process.Pid == pid {
			return true
		}
	}
	return false
}

func (b *backfill) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}

// one runs one date, unless it has been done.
func (b *backfill) one(ctx context.Context, partition string) {
	if b.ended() { // a date that failed meanwhile
		return
	}
	key := onerun.MakeKey(b.job, partition)
	if r, err := b.look(ctx, partition); err != nil {
		b.trouble(trouble{key, statusOf(err), err.Error()})
		return
	} else if r.Status == onerun.Succeeded || r.Status == onerun.Skipped {
		b.mu.Lock()
		b.before++
		b.mu.Unlock()
		return
	}
	status, err := b.start(partition)
	if err != nil {
		b.trouble(trouble{key, exitInternal, err.Error()})
		return
	}
	r, err := b.look(ctx, partition)
	switch {
	case err == nil && r.Status == onerun.Succeeded && status == 0:
		b.mu.Lock()
		b.executed++
		b.mu.Unlock()
	case err == nil && r.Status == onerun.Skipped && status == 0:
		b.mu.Lock()
		b.before++
		b.mu.Unlock()
	case status == 0: // it was skipped: paused, or held until the wait was over
		b.trouble(trouble{key, exitBlocked, "it was not started; see: onerun" + b.storeFlags() + " explain " + key})
	case status == exitBlocked:
		b.trouble(trouble{key, status, "it is blocked; see: onerun" + b.storeFlags() + " explain " + key})
	default:
		b.trouble(trouble{key, status, fmt.Sprintf("it ended with status %d", status)})
	}
}

func (b *backfill) look(ctx context.Context, partition string) (onerun.Run, error) {
	ctx, cancel := b.bound(ctx)
	defer cancel()
	runs, err := b.store.Runs(ctx, onerun.Query{Namespace: b.Namespace, Job: b.job, Partition: partition, Limit: 1})
	if err != nil || len(runs) == 0 {
		return onerun.Run{}, err
	}
	return runs[0], nil
}

func (b *backfill) trouble(t trouble) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubles = append(b.troubles, t)
	// Ctrl-C on a terminal reaches the job alone, and is meant for all of it.
	b.over = b.over || !b.keepOn || t.status == 128+int(syscall.SIGINT)
}

// start is one onerun run, as a process of its own: the job in it has the terminal, the
// signals and the exit code that it would have without backfill.
func (b *backfill) start(partition string) (status int, err error) {
	date := "--partition=" + partition
	if b.byDate {
		date = "--date=" + partition
	}
	cmd := exec.Command("/proc/self/exe", slices.Concat(b.args, []string{date, b.job}, b.command)...)
	cmd.Args[0] = "onerun" // this very program, even if another one has its name by now
	// The instant of some other start has nothing to say about this date.
	cmd.Env = process.Env(os.Environ(), nil, "ONERUN_SCHEDULED_AT")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if b.parallel == 1 {
		cmd.Stdin = os.Stdin
	}
	b.mu.Lock()
	if b.stopped != 0 {
		b.mu.Unlock()
		return 128 + int(b.stopped), nil
	}
	if err = cmd.Start(); err == nil {
		b.children[cmd] = true
	}
	b.mu.Unlock()
	if err != nil {
		return 0, err
	}
	err = cmd.Wait()
	b.mu.Lock()
	delete(b.children, cmd)
	b.mu.Unlock()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return 128 + int(ws.Signal()), nil
		}
		return exit.ExitCode(), nil
	}
	return 0, err
}

// report says how it went.
func (b *backfill) report() error {
	left := len(b.partitions) - b.executed - b.before - len(b.troubles)
	words := []string{fmt.Sprintf("%d executed", b.executed), fmt.Sprintf("%d had run before", b.before)}
	if n := len(b.troubles); n > 0 {
		words = append(words, fmt.Sprintf("%d not done", n))
	}
	if left > 0 {
		words = append(words, fmt.Sprintf("%d not begun; type the same again to go on", left))
	}
	for _, t := range b.troubles {
		complain(b.env, fmt.Errorf("%s: %s", t.key, t.why))
	}
	_, _ = fmt.Fprintf(b.err, "onerun: backfill of %s: %s\n", b.job, strings.Join(words, ", "))
	switch {
	case b.stopped != 0:
		return &statusError{status: 128 + int(b.stopped)}
	case len(b.troubles) > 0:
		return &statusError{status: b.troubles[0].status}
	}
	return nil
}
