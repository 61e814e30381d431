package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/internal/masking"
	"github.com/onerun-dev/onerun/internal/notify"
	"github.com/onerun-dev/onerun/internal/process"
	"github.com/onerun-dev/onerun/internal/scheduler"
	"github.com/onerun-dev/onerun/internal/storeurl"
)

type serveCmd struct {
	Check  bool     `help:"Check the configuration file, say all that is wrong with it, and start nothing."`
	Schema bool     `help:"Print a JSON Schema of the configuration file, for editors, and start nothing."`
	Listen word     `placeholder:"ADDRESS" help:"Serve /metrics, /healthz and /readyz at HOST:PORT (not at all)."`
	Drain  duration `placeholder:"D" help:"When told to end, wait up to D for the jobs that this instance has started (not at all: they go on by themselves)."`
}

// Help explains the command.
func (serveCmd) Help() string {
	return `Starts the jobs of the configuration file that have a schedule, each as a process of its own (onerun run), so that a
restart touches no job. Any number of instances may run, on one host or on many, on one store: a fire is one key, and is claimed once.
Without --listen it needs no port.

SIGHUP reads the file again; one with a mistake in it changes nothing. SIGTERM and SIGINT end it. Under systemd: Type=notify-reload,
KillMode=process, and WatchdogSec if you like.`
}

// daemon is a scheduler under way.
type daemon struct {
	*env
	flags    *serveCmd
	store    onerun.Store
	place    place
	log      *slog.Logger
	engine   *scheduler.Engine
	metrics  metrics
	sender   notify.Sender
	children children

	// What others than run read of the configuration, which is read again while they do.
	alerts atomic.Pointer[map[string]address] // by the alert's name
	masks  atomic.Pointer[[]*regexp.Regexp]
}

// redacted is env's, by the configuration in force.
func (d *daemon) redacted(s string) string { return maskAll(*d.masks.Load(), onerun.Redact(s)) }

func (c *serveCmd) run(ctx context.Context, e *env) error {
	if c.Schema {
		text, err := jsonSchema()
		if err == nil {
			_, err = e.out.Write(text)
		}
		return written(err)
	}
	if e.file == nil {
		return usage("serve needs a configuration file with the jobs: give --config, or make %s", systemConfig)
	}
	if err := e.hasText(); err != nil {
		return err
	}
	if c.Check {
		return c.check(ctx, e)
	}
	jobs, err := e.scheduled()
	if err != nil {
		return err
	}
	if v, ok := e.file.Top["listen"]; ok && c.Listen == "" {
		c.Listen = word(v.Text)
	}
	if c.Listen != "" && e.web == nil {
		p, err := e.place()
		if err != nil {
			return err
		}
		return e.handOver(p.url)
	}
	s, p, err := e.open(ctx, "")
	if err != nil {
		return err
	}
	defer shut(s)
	d := &daemon{env: e, flags: c, store: s, place: p, sender: notify.Sender{Full: fullProgram()}}
	d.masks.Store(&e.secrets)
	return d.run(ctx, jobs)
}

// shutWithin is how long a store that is closed may take to take leave.
const shutWithin = time.Second

// shut closes a store that may hang: a driver waits a while for such a server, and nothing is left to say to it.
func shut(s onerun.Store) {
	closed := make(chan struct{})
	go func() { _ = s.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(shutWithin):
	}
}

// noted is what a scheduler needs of a store.
type noted struct {
	onerun.Store
	onerun.Notebook
}

func (d *daemon) run(ctx context.Context, jobs []scheduler.Job) error {
	notes, ok := onerun.Ability[onerun.Notebook](d.store)
	if !ok {
		return &onerun.StoreError{Kind: onerun.ErrConfig, What: "store", Path: storeurl.Redact(d.place.url), Err: errors.New("it has no place for what a scheduler has to keep")}
	}
	if err := d.openLog(); err != nil {
		return err
	}
	host, _ := os.Hostname()
	limit, groups := d.limits()
	d.engine = scheduler.New(scheduler.Options{
		Store: noted{d.store, notes}, Namespace: d.Namespace, Who: fmt.Sprintf("onerun serve at %s/%d", host, os.Getpid()), Limit: limit, Groups: groups,
		Start: func(ctx context.Context, f *scheduler.Fire) scheduler.Result {
			return f.Job.With.(*launcher).start(ctx, f)
		},
		Tell: d.tell, Places: d.places, Report: d.report,
	})
	if err := d.use(ctx, jobs); err != nil {
		return err
	}
	hear := make(chan os.Signal, 4)
	signal.Notify(hear, unix.SIGHUP, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(hear)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var beside sync.WaitGroup
	if err := d.serve(ctx, &beside, cancel); err != nil {
		return err
	}
	ownOrphans, adopted := context.WithCancel(context.WithoutCancel(ctx)) // also while it waits for the jobs at its end
	defer adopted()
	go process.ReapOrphans(ownOrphans, func(pid int) bool { return d.children.owns(pid) || d.sender.Owns(pid) })
	beside.Go(func() { d.engine.Run(ctx) })
	beside.Go(func() { watchdog(ctx, d.engine.Alive) })
	sdNotify("READY=1\nSTATUS=" + fmt.Sprintf("%d jobs", len(jobs)))
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case sig := <-hear:
			if sig != unix.SIGHUP {
				cancel(nil)
				break
			}
			d.reload(ctx)
		}
	}
	sdNotify("STOPPING=1")
	until := time.Now().Add(time.Duration(d.flags.Drain))
	beside.Wait() // which asks the store to let this instance go
	d.drain(max(0, time.Until(until)))
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// drain waits for what was started, up to a bound, or another signal.
func (d *daemon) drain(most time.Duration) {
	ended := make(chan struct{})
	go func() { d.children.running.Wait(); close(ended) }()
	again := make(chan os.Signal, 1)
	signal.Notify(again, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(again)
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ended:
	case <-again:
	case <-timer.C:
	}
}

// use takes over the configuration that was read.
func (d *daemon) use(ctx context.Context, jobs []scheduler.Job) error {
	kind, err := storeurl.KindOf(d.place.url)
	if err != nil {
		return err
	}
	l, err := d.newLauncher(kind == storeurl.Remote, &d.children)
	if err != nil {
		return err
	}
	for i := range jobs {
		jobs[i].With = l // the one before it is closed when nobody uses it any more
	}
	urls := map[string]address{}
	for name, row := range d.file.Top["alerts"].Table {
		urls[name] = address(d.fileOf(row["url"].Text))
	}
	d.alerts.Store(&urls)
	d.masks.Store(&d.file.Redact)
	d.engine.SetLimits(d.limits())
	d.engine.SetJobs(ctx, jobs, d.generation())
	d.metrics.jobs.Store(int64(len(jobs)))
	unread := mistakes{path: d.file.Path}
	d.checkFiles(&unread) // it may be there when somebody is to be told, so it keeps nothing from being started
	for _, one := range unread.list {
		d.log.Warn("unreadable", "error", told(d.redacted, one))
	}
	return nil
}

// reload reads the file again. With a mistake in it nothing changes.
func (d *daemon) reload(ctx context.Context) {
	sdReloading()
	defer sdNotify("READY=1")
	now := *d.env
	file, err := now.load(now.configPath())
	var jobs []scheduler.Job
	if err == nil {
		err = now.hasText()
	}
	if err == nil {
		now.file, now.sources = file, map[string]string{}
		jobs, err = now.scheduled()
	}
	if err == nil && now.storeChanged(d.place) {
		err = errors.New("the store is another one; restart for that")
	}
	if err != nil {
		d.metrics.reloadsFailed.Add(1)
		d.log.Error("reload_failed", "error", told(d.redacted, err))
		return
	}
	d.env.file, d.env.fileText = file, now.fileText
	if err := d.use(ctx, jobs); err != nil {
		d.log.Error("reload_failed", "error", told(d.redacted, err))
		return
	}
	d.log.Info("reloaded", "jobs", len(jobs))
}

// hasText refuses a file in which nothing stands: it is being written, or the disk was full. A scheduler that went by it would drop
// every job.
func (e *env) hasText() error {
	for line := range strings.Lines(string(e.fileText)) {
		if line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff")); line != "" && line != "---" && line[0] != '#' {
			return nil
		}
	}
	return config.Errors{config.Error{Path: e.file.Path, Line: 1, Column: 1, Message: "nothing stands in the file; write the jobs into it, or jobs: {} if there are to be none"}}
}

// storeChanged reports whether the file names another store than the one in use.
func (e *env) storeChanged(p place) bool {
	now, err := e.place()
	return err != nil || now.url != p.url && now.url != ""
}

// openLog makes the log: its lines are those of `run`, with what a scheduler does.
func (d *daemon) openLog() error {
	ready := make(chan struct{})
	close(ready)
	l, err := newLogger(d.env, d.place, ready)
	if err != nil {
		return err
	}
	l.masked = true // the patterns change; report masks by them
	if d.LogLevel == "auto" {
		l.level = slog.LevelInfo // nobody is mailed what a service says
	}
	d.log = slog.New(l.handler())
	return nil
}

// report is what the engine did, for the log and the metrics.
func (d *daemon) report(ev scheduler.Event) {
	d.metrics.count(ev)
	level := slog.LevelInfo
	switch ev.Kind {
	case scheduler.Elsewhere:
		level = slog.LevelDebug
	case scheduler.StoreAway, scheduler.NotRun, scheduler.BadFire, scheduler.MissedAny, scheduler.StoodDown, scheduler.ClockBack:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{}
	add := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, masking.Keep(d.redacted, value, ev.Job)))
		}
	}
	add("namespace", d.Namespace)
	add("job", ev.Job)
	if !ev.Slot.IsZero() {
		add("scheduled_at", stamp(ev.Slot))
	}
	add("detail", ev.Detail)
	if ev.Err != nil {
		add("error", ev.Err.Error())
	}
	d.log.LogAttrs(context.Background(), level, string(ev.Kind), attrs...)
}

// serve serves the pages, if that is asked for.
func (d *daemon) serve(ctx context.Context, beside *sync.WaitGroup, cancel context.CancelCauseFunc) error {
	if d.flags.Listen == "" {
		return nil
	}
	ready, failed := make(chan string, 1), make(chan error, 1)
	beside.Go(func() {
		err := d.web(ctx, string(d.flags.Listen), d.pages(), func(addr string) { ready <- addr })
		if err != nil {
			failed <- err
			cancel(fmt.Errorf("serve the pages at %s: %w", d.flags.Listen, err))
		}
	})
	select {
	case addr := <-ready:
		d.log.Info("listening", "address", addr)
		return nil
	case err := <-failed:
		return &onerun.StoreError{Kind: onerun.ErrConfig, What: "address", Path: string(d.flags.Listen), Err: err, Do: "give --listen another HOST:PORT"}
	}
}
