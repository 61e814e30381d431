package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// reasonFlag is required of every operator's action.
type reasonFlag struct {
	Reason word `required:"" placeholder:"TEXT" help:"Why; kept with who and when."`
}

func (f reasonFlag) text(e *env) (string, error) {
	text := strings.TrimSpace(string(f.Reason))
	if text == "" {
		return "", usage("--reason is blank; say why, for whoever reads it later")
	}
	text = strings.ToValidUTF8(e.redacted(text), "\uFFFD") // not CutError, which would mask the run's own name
	if long := []rune(text); len(long) > onerun.MaxError {
		text = string(long[:onerun.MaxError])
	}
	return text, nil
}

// desk is where an operator decides: the store, with a bound on its answers, and the log.
type desk struct {
	onerun.Store
	place place
	log   *logger
}

// sit opens a store for a decision. The log comes first: what can't be logged is not done.
func (e *env) sit(ctx context.Context, lockDir string) (context.Context, *desk, func(), error) {
	s, p, err := e.open(ctx, lockDir)
	if err != nil {
		return ctx, nil, nil, err
	}
	l, err := newLogger(e, p, heedSignals().ready)
	if err != nil {
		return ctx, nil, nil, err
	}
	ctx, cancel := e.bound(ctx)
	return ctx, &desk{Store: s, place: p, log: l}, func() { cancel(); l.close() }, nil
}

// onRun does something to the run that a reference names, and that has to be there.
func (f reasonFlag) onRun(ctx context.Context, e *env, ref string, act func(ctx context.Context, d *desk, run onerun.Run, reason string) error) error {
	reason, err := f.text(e)
	if err != nil {
		return err
	}
	if err := checkRef(ref); err != nil {
		return err
	}
	ctx, d, leave, err := e.sit(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	run, found, err := find(ctx, e, d, ref)
	if err == nil && !found {
		err = noSuchRun(ref)
	}
	if err != nil {
		return err
	}
	return act(ctx, d, run, reason)
}

// decided logs a decision about a run, or about a job or lock alone.
func (d *desk) decided(event string, r onerun.Run, detail, reason string) {
	d.log.Observe(onerun.Observation{Event: event, At: time.Now(), Run: r, Detail: fmt.Sprintf("%s by %s: %s", detail, operator(), reason)})
}

type pauseCmd struct {
	Job string `arg:"" help:"Name of the job."`
	reasonFlag
}

func (c *pauseCmd) run(ctx context.Context, e *env) error {
	return c.change(ctx, e, c.Job, onerun.EventPaused, "; its starts are skipped until: onerun resume %s", onerun.Store.Pause)
}

type resumeCmd struct {
	Job    string `arg:"" help:"Name of the job."`
	Reason word   `placeholder:"TEXT" help:"Why; kept with who and when."`
}

func (c *resumeCmd) run(ctx context.Context, e *env) error {
	if c.Reason == "" { // the pause said why, and is over
		c.Reason = "none given"
	}
	return reasonFlag{c.Reason}.change(ctx, e, c.Job, onerun.EventResumed, "", onerun.Store.Resume)
}

// change pauses or resumes a job; event is the word for what it is then.
func (f reasonFlag) change(ctx context.Context, e *env, job, event, next string, act func(onerun.Store, context.Context, onerun.PauseRequest) error) error {
	reason, err := f.text(e)
	if err != nil {
		return err
	}
	if job, err = onerun.CleanName("job", job); err != nil {
		return err
	}
	ctx, d, leave, err := e.sit(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	if err := act(d, ctx, onerun.PauseRequest{Namespace: e.Namespace, Job: job, Who: who(reason)}); err != nil {
		return err
	}
	d.decided(event, onerun.Run{Namespace: e.Namespace, Job: job}, event, reason)
	if next != "" {
		next = fmt.Sprintf(next, job)
	}
	return say(e, "%s is %s%s", job, event, next)
}

type unlockCmd struct {
	Name    string `arg:"" help:"Name of the lock: the NAME of --lock, else job/JOB, key/KEY or name/NAME."`
	LockDir word   `placeholder:"DIR" help:"Directory of the lock files, if it is not the store's."`
	reasonFlag
}

// Help explains the command.
func (unlockCmd) Help() string {
	return `For --lock-mode create: a lock file whose owner can't be proven dead (it is unreadable, or from another host) is never
taken over by itself. Make sure that nothing of its owner is left, then remove it with this.`
}

func (c *unlockCmd) run(ctx context.Context, e *env) error {
	reason, err := c.text(e)
	if err != nil {
		return err
	}
	lock, err := lockName(c.Name)
	if err != nil {
		return err
	}
	ctx, d, leave, err := e.sit(ctx, string(c.LockDir))
	if err != nil {
		return err
	}
	defer leave()
	u, ok := d.Store.(onerun.Unlocker)
	if !ok {
		return &onerun.StateError{Why: "this store has no lock files; see: onerun locks"}
	}
	if err := u.Unlock(ctx, onerun.UnlockRequest{Namespace: e.Namespace, Lock: lock, Who: who(reason)}); err != nil {
		return err
	}
	d.decided(onerun.EventUnlocked, onerun.Run{Namespace: e.Namespace, Lock: lock}, onerun.EventUnlocked, reason)
	return say(e, "%s is unlocked", lock)
}

// lockName reads KIND/NAME, or the NAME of a shared lock.
func lockName(s string) (onerun.LockName, error) {
	kind, name, ok := strings.Cut(s, "/")
	if !ok {
		kind, name = "name", s
	}
	switch kind {
	case "key":
		job, partition, err := onerun.SplitKey(name)
		if err == nil && partition == "" {
			err = usage("key/%s has no partition; write key/JOB:PARTITION", name)
		}
		return onerun.KeyLock(onerun.MakeKey(job, partition)), err
	case "job":
		name, err := onerun.CleanName("job", name)
		return onerun.JobLock(name), err
	case "name":
		name, err := onerun.CleanName("lock", name)
		return onerun.NamedLock(name), err
	}
	return "", usage("lock %q is unknown; write job/JOB, key/JOB:PARTITION or name/NAME", s)
}
