package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/storeurl"
)

type explainCmd struct {
	Key string `arg:"" optional:"" help:"Key, run id, or job (its RUNNING run, else its latest)."`
	scopeFlags
	LockDir  word `placeholder:"DIR" help:"Directory of the lock files, if it is not the store's."`
	Settings bool `help:"Show each setting of a job and where it comes from instead: flag, environment, file, default."`
	JSON     bool `name:"json" help:"One JSON document instead of words."`
}

// Help explains the command.
func (explainCmd) Help() string {
	return `onerun explain --config JOB is short for onerun explain JOB --settings, with the file that is found without a flag.

It judges as onerun run would at this moment, without taking the lock or changing anything. A key that never ran is
judged under the lock of its job, unless --scope or --lock says otherwise.`
}

// explanation is the answer in JSON.
type explanation struct {
	Key       *string         `json:"key"`
	Job       string          `json:"job"`
	Partition *string         `json:"partition"`
	Namespace string          `json:"namespace"`
	Lock      onerun.LockName `json:"lock"`
	WouldRun  bool            `json:"would_run"`
	Reason    *string         `json:"reason"`
	Rule      *int            `json:"rule"`
	Words     string          `json:"explanation"`
	Holder    *string         `json:"holder"`
	RunID     *string         `json:"run_id"`
	Status    *string         `json:"status"`
	Worker    *string         `json:"worker"`
	Since     *string         `json:"since"`
	HolderAge *int64          `json:"holder_age_ms"`
	RetryAt   *string         `json:"next_retry_at"`
	Next      *string         `json:"next"`
}

func (c *explainCmd) run(ctx context.Context, e *env) error {
	switch {
	case c.Key == "":
		return usage("say what to explain: a key, a run id, or a job; see: onerun explain --help")
	case c.Settings:
		return c.settings(e)
	}
	if err := checkRef(c.Key); err != nil {
		return err
	}
	if err := e.applyByID(ctx, c, c.Key); err != nil {
		return err
	}
	ctx, s, leave, err := e.consult(ctx, string(c.LockDir))
	if err != nil {
		return err
	}
	defer leave()
	run, found, err := find(ctx, e, s, c.Key)
	if err != nil {
		return err
	}
	if !found {
		if onerun.IsRunID(c.Key) {
			return noSuchRun(c.Key)
		}
		run.Job, run.Partition, err = onerun.SplitKey(c.Key)
		if err != nil {
			return err
		}
	}
	claim := onerun.Claim{Namespace: e.Namespace, Job: run.Job, Partition: run.Partition, Lock: run.Lock, Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now())}
	if !found || c.Lock != "" || c.Scope != "job" {
		if claim.Lock, err = c.lock(run.Job, run.Partition); err != nil {
			return err
		}
	}
	refused, err := s.Explain(ctx, claim)
	if err != nil {
		return err
	}
	x := explain(e, claim, refused)
	if refused != nil && found && run.Status == onerun.Running && run.RunID == refused.Holder.RunID {
		x.foreseen(e, run, refused.Reason)
	}
	if c.JSON {
		return writeJSON(e.out, x)
	}
	return x.write(e)
}

// rules are the rows of the claim table in words, with what to do: %[1]s is the key
// or job, %[2]s the job, %[3]s the flags that name the store in use.
var rules = map[onerun.Reason]struct {
	rule        int
	words, next string
}{
	onerun.RefusedRunning:     {1, "it is running", "wait for it, or watch it: onerun%[3]s show %[1]s"},
	onerun.RefusedSucceeded:   {2, "it has succeeded, and a success is not executed again", "onerun%[3]s rerun %[1]s --reason TEXT"},
	onerun.RefusedSkipped:     {3, "it was cancelled by decision", "onerun%[3]s rerun %[1]s --reason TEXT"},
	onerun.RefusedFailed:      {4, "it has failed and no retry is left", "onerun%[3]s rerun %[1]s --reason TEXT, or: onerun%[3]s resolve %[1]s --as succeeded --reason TEXT"},
	onerun.RefusedPaused:      {5, "the job is paused", "onerun%[3]s resume %[2]s"},
	onerun.RefusedRetryNotDue: {6, "it has failed, and its retry is not due yet", "wait until then, or: onerun%[3]s rerun %[1]s --reason TEXT"},
	onerun.RefusedLocked:      {7, "another run holds its lock", "wait for it, or look: onerun%[3]s locks"},
	onerun.RefusedStale:       {1, "its owner is gone, and what became of the work is for a person to find out", "onerun%[3]s stale, then: onerun%[3]s resolve %[1]s --as failed --reason TEXT, or: onerun%[3]s resolve %[1]s --as succeeded --reason TEXT"},
}

func explain(e *env, c onerun.Claim, r *onerun.Refusal) explanation {
	x := explanation{
		Key: nilIf(c.Key(), ""), Job: c.Job, Partition: nilIf(c.Partition, ""), Namespace: c.Namespace, Lock: c.Lock,
		WouldRun: r == nil, Words: "it would run now",
	}
	if r == nil {
		return x
	}
	name := c.Key()
	if name == "" {
		name = c.Job
	}
	rule := rules[r.Reason]
	h := r.Holder
	if r.Reason == onerun.RefusedStale && h.Name != name {
		rule.rule = 7
		rule.words = "its lock was left by an owner that is gone, and what became of the work is for a person to find out"
		if h.RunID == "" {
			rule.words = "a lock file stands in its way whose owner nobody can prove dead"
			lock := string(c.Lock)
			if c.Lock.Kind() == "name" {
				lock = c.Lock.Name()
			}
			rule.next = "make sure that nothing of its owner is left, then: onerun%[3]s unlock " + lock + e.lockFlag() + " --reason TEXT"
		} else {
			name = h.Name
		}
	}
	holder := h.String()
	next := fmt.Sprintf(rule.next+"%[4]s", name, c.Job, e.storeFlags(), "")
	x.Words = rule.words
	x.Reason, x.Rule, x.Holder, x.Next = nilIf(string(r.Reason), ""), &rule.rule, &holder, &next
	x.RunID, x.Status, x.Worker = nilIf(h.RunID, ""), nilIf(string(h.Status), ""), nilIf(h.Worker.String(), "")
	x.Since, x.RetryAt = stampOrNil(h.Since), stampOrNil(r.RetryAt)
	if !h.Since.IsZero() {
		age := r.At.Sub(h.Since).Milliseconds()
		x.HolderAge = &age
	}
	return x
}

// foreseen puts it right for a run whose owner is dead, which the ledger still calls
// RUNNING: the next start closes it, and until then there is nothing to rerun.
func (x *explanation) foreseen(e *env, r onerun.Run, reason onerun.Reason) {
	next := *x.Next
	switch reason {
	case onerun.RefusedFailed:
		x.Words = "its worker died, and no retry is left"
		next = fmt.Sprintf("onerun%[2]s resolve %[1]s --as failed --rerun --reason TEXT, or: onerun%[2]s resolve %[1]s --as succeeded --reason TEXT", r.Name(), e.storeFlags())
	case onerun.RefusedSucceeded:
		x.Words = "it has succeeded, which its next start records"
		next = "onerun" + e.storeFlags() + " flush, and then: " + next
	default:
		return
	}
	holder := *x.Holder
	if !strings.Contains(holder, r.Evidence) { // the store has told it, too
		holder += ": " + r.Evidence
	}
	age := time.Since(r.StartedAt).Milliseconds()
	x.Holder, x.Next, x.Since, x.HolderAge = &holder, &next, stampOrNil(r.StartedAt), &age
}

// storeFlags are the flags that name the store in use, for commands to be typed; they
// follow the program's name. A URL with a password in it is left to the reader.
func (e *env) storeFlags() string { return e.flagsOf(string(e.Config), string(e.Store)) }

// storeFlagsAnywhere are those flags for who reads them elsewhere, as in a message: no path of them counts from here.
func (e *env) storeFlagsAnywhere() string {
	config := string(e.Config)
	if abs, err := filepath.Abs(config); err == nil && config != "" {
		config = abs
	}
	return e.flagsOf(config, absoluteURL(string(e.Store)))
}

func (e *env) flagsOf(config, url string) string {
	flags := ""
	if config != "" {
		flags += " --config " + config
	}
	if e.given["namespace"] || e.Namespace != onerun.DefaultNamespace && e.sources["namespace"] == "" {
		flags += " --namespace " + e.Namespace
	}
	if url != "" && !storeurl.Secret(url) {
		flags += " --store " + url
	}
	return flags
}

func (e *env) lockFlag() string {
	if e.lockDir == "" {
		return ""
	}
	return " --lock-dir " + e.lockDir
}

func (x explanation) write(e *env) error {
	name := x.Job
	if x.Key != nil {
		name = *x.Key
	}
	if x.WouldRun {
		return say(e, "%s would run now", name)
	}
	rows := [][]string{
		{"rule", fmt.Sprintf("%d of the claim table: %s", *x.Rule, *x.Reason)},
		{"holder", *x.Holder},
	}
	if x.HolderAge != nil {
		rows = append(rows, []string{"since", fmt.Sprintf("%s ago", span(time.Duration(*x.HolderAge)*time.Millisecond))})
	}
	if x.RetryAt != nil {
		rows = append(rows, []string{"retry due", *x.RetryAt})
	}
	rows = append(rows, []string{"next", *x.Next})
	if err := say(e, "%s would not run now: %s", name, x.Words); err != nil {
		return err
	}
	return writeTable(e.out, rows)
}
