package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
)

type verifyCmd struct {
	Job        word     `arg:"" optional:"" help:"By the settings of this job in the configuration file; its command is never executed."`
	Processes  int      `default:"8" placeholder:"N" help:"How many processes contend at a time (8)."`
	Rounds     int      `default:"20" placeholder:"R" help:"How often they do, for a key and for a lock (20)."`
	TTL        duration `name:"ttl" default:"3s" placeholder:"D" help:"Lease of the holder that is frozen beyond it, 1s to 1m (3s)."`
	Rendezvous word     `placeholder:"CODE" help:"Contend with other hosts that are given the same CODE: they meet in the store."`
	Hosts      int      `default:"2" placeholder:"H" help:"With --rendezvous: how many hosts there are (2)."`
	Within     duration `default:"2m" placeholder:"D" help:"With --rendezvous: how long to wait for the others (2m)."`
	Program    word     `placeholder:"FILE" help:"What your jobs start as onerun, if that is a script around it."`
	LockDir    word     `placeholder:"DIR" help:"Directory of the lock files (locks/ beside the store)."`
	JSON       bool     `name:"json" help:"One JSON document instead of lines."`
	Probe      word     `hidden:"" placeholder:"MODE" help:"Be the command of a start of verify's, with JOB as the witness's file."`
}

// Help explains the command.
func (verifyCmd) Help() string {
	return `It starts real onerun processes, as your jobs would be started, and looks by a witness of its own at what was executed:
N of them contend for a key and for a lock; a holder is killed, with its guard too; a holder is frozen. It works under names
of its own (onerun-verify-…), takes no lock of any job's, and clears up. Each process is started in a directory of its
own, so that a store or lock directory that is named by a relative path is found out.`
}

func (c *verifyCmd) run(ctx context.Context, e *env) error {
	if c.Probe != "" {
		return witnessed(string(c.Probe), string(c.Job))
	}
	if err := c.check(e); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stopSignals()...)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if sig, ok := (<-signals).(syscall.Signal); ok {
			signal.Stop(signals) // a second one ends this process, whatever it is at
			cancel(cutError(sig))
		}
	}()
	err := c.examine(ctx, e)
	var cut cutError
	if asError(context.Cause(ctx), &cut) {
		return dieOf(syscall.Signal(cut))
	}
	return err
}

// examine makes all checks, clears up, and says what was found.
func (c *verifyCmd) examine(ctx context.Context, e *env) error {
	v, err := c.prepare(ctx, e)
	if err != nil {
		return err
	}
	err = v.checkAll(ctx)
	v.clearUp()
	v.progress("")
	if err == nil {
		return v.write(c.JSON)
	}
	v.tellLeft()
	return err
}

// cutError is a signal that ended the examination.
type cutError syscall.Signal

func (c cutError) Error() string { return "ended by signal " + syscall.Signal(c).String() }

// check refuses what can't be.
func (c *verifyCmd) check(e *env) error {
	switch {
	case c.Processes < 2 || c.Processes > 200:
		return usage("--processes %d can't be; use 2 to 200", c.Processes)
	case c.Rounds < 1 || c.Rounds > 500:
		return usage("--rounds %d can't be; use 1 to 500", c.Rounds)
	case c.Hosts < 2 || c.Hosts > 50:
		return usage("--hosts %d can't be; use 2 to 50", c.Hosts)
	case c.Rendezvous == "" && (e.given["hosts"] || e.given["within"]):
		return usage("--hosts and --within are about a meeting; name it with --rendezvous CODE")
	}
	if ttl := time.Duration(c.TTL); ttl < onerun.MinTTL || ttl > time.Minute {
		return usage("--ttl %s is out of range; use 1s to 1m", ttl)
	}
	if c.Job != "" {
		if onerun.IsRunID(string(c.Job)) {
			return usage("verify takes a job, not the run id %s", c.Job)
		}
		if _, err := onerun.CleanName("job", string(c.Job)); err != nil {
			return err
		}
	}
	if c.Rendezvous != "" {
		if _, err := onerun.CleanName("rendezvous", string(c.Rendezvous)); err != nil {
			return err
		}
	}
	return nil
}

// examined is one thing that was tried out.
type examined struct {
	Check    string `json:"check"`
	OK       bool   `json:"ok"`
	Evidence string `json:"evidence"`
	Duration int64  `json:"duration_ms"`
}

// attempted is a check: it gives its evidence, or a disproof.
type attempted struct {
	name string
	do   func(ctx context.Context) (evidence string, err error)
}

// checkAll tries out all that there is to try out. An error says that it could not be.
func (v *verification) checkAll(ctx context.Context) error {
	checks := []attempted{
		{"one-key", v.oneKey},
		{"one-lock", v.oneLock},
		{"wrapper-killed", v.wrapperKilled},
		{"wrapper-and-guard-killed", v.bothKilled},
		{"holder-frozen", v.holderFrozen},
		{"old-token-refused", v.oldTokenRefused},
	}
	if v.rendezvous != "" {
		m := &meeting{verification: v}
		defer func() { m.leave(ctx) }()
		checks = []attempted{{"met", m.gather}, {"one-of-all-hosts-key", m.oneKey}, {"one-of-all-hosts-lock", m.oneLock}}
	}
	for _, c := range checks {
		v.progress(c.name)
		if err := v.callWitness(c.name); err != nil {
			return err
		}
		began := time.Now()
		evidence, err := c.do(ctx)
		v.dismiss()
		var failed *disproof
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && evidence == "": // nothing to try out here
			continue
		case err != nil && !asError(err, &failed):
			return err
		case err != nil:
			evidence = failed.evidence
		}
		v.checks = append(v.checks, examined{c.name, err == nil, v.env.redacted(evidence), time.Since(began).Milliseconds()})
		if v.rendezvous != "" && err != nil { // without a meeting there is nothing more to see
			break
		}
	}
	return nil
}

// disproof is a promise that was seen not to hold, with the evidence.
type disproof struct{ evidence string }

func (d *disproof) Error() string { return d.evidence }

func disproved(format string, args ...any) error {
	return &disproof{fmt.Sprintf(format, args...)}
}
