package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

type pruneCmd struct {
	Job        word     `arg:"" optional:"" help:"Only this job, or this one key."`
	OlderThan  duration `aliases:"age" placeholder:"D" help:"Successes that ended longer ago than D, such as 90d."`
	Keep       *int     `aliases:"count" placeholder:"N" help:"All but the newest N successes of each job."`
	MaxSize    size     `aliases:"bytes,max-bytes" placeholder:"SIZE" help:"The oldest successes, until the store takes at most SIZE, such as 500M."`
	ForgetKeys bool     `help:"Keep no tombstones, and drop those there are: these keys may run again. Needs --reason."`
	Reason     word     `placeholder:"TEXT" help:"Why; kept with who and when."`
	JSON       bool     `name:"json" help:"One JSON document instead of a line."`
}

// Help explains the command.
func (pruneCmd) Help() string {
	return `Each limit holds by itself: what is over one of them goes. Only successes are removed. Runs that are RUNNING, FAILED or
SKIPPED stay, and those with an approval that is open. Of a key a tombstone stays, so that its date can't run again; it
can still be looked up and rerun by its key. --older-than removes refusals as old, too, of keys that have no run. --forget-keys passes over keys whose reruns need two people. Starts go on
meanwhile.`
}

// size is a flag: bytes, or 500K, 20M, 1.5G by powers of 1024.
type size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *size) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(string(text)), "B"), "I"), 1.0
	for i, suffix := range []string{"K", "M", "G", "T"} {
		if n, ok := strings.CutSuffix(number, suffix); ok {
			number = n
			for range i + 1 {
				unit *= 1024
			}
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v*unit >= 1) || v*unit > 1<<60 {
		return fmt.Errorf("%q is no size; write for example 500M or 2G", text)
	}
	*s = size(v * unit)
	return nil
}

func (c *pruneCmd) run(ctx context.Context, e *env) error {
	q, err := c.request(e)
	if err != nil {
		return err
	}
	s, p, err := e.open(ctx, "")
	if err != nil {
		return err
	}
	q.Namespace = e.Namespace
	log, err := newLogger(e, p, heedSignals().ready)
	if err != nil {
		return err
	}
	defer log.close()
	pr := &pruning{env: e, store: s, q: q, max: int64(c.MaxSize)}
	err = pr.do(ctx)
	if pr.total.Runs+pr.total.Forgotten+pr.total.Refusals > 0 {
		run := onerun.Run{Namespace: q.Namespace, Job: q.Job, Partition: q.Partition}
		log.Observe(onerun.Observation{Event: onerun.EventPruned, At: time.Now(), Run: run, Detail: pr.total.String() + " by " + operator()})
	}
	if err != nil {
		return err
	}
	if c.ForgetKeys && q.Partition != "" && pr.total.Forgotten == 0 {
		if run, found, err := find(ctx, e, s, string(c.Job)); err == nil && found && (run.TwoPeople || e.twoPeople(run.Job)) {
			return &onerun.StateError{Why: fmt.Sprintf("a rerun of %[1]s needs two people, so one can't let it run again by forgetting it: onerun%[2]s rerun %[1]s --request --reason TEXT", run.Name(), e.storeFlags())}
		}
	}
	if c.JSON {
		return writeJSON(e.out, map[string]any{"runs": pr.total.Runs, "keys": pr.total.Keys, "forgotten": pr.total.Forgotten, "refusals": pr.total.Refusals, "size": pr.known()})
	}
	if err := say(e, "%s", pr.total.String()); err != nil {
		return err
	}
	if c.MaxSize > 0 && pr.size > int64(c.MaxSize) {
		return &onerun.StateError{Why: fmt.Sprintf("the store still takes %d bytes: nothing is left in namespace %s that may be removed", pr.size, e.Namespace)}
	}
	return nil
}

func (c *pruneCmd) request(e *env) (onerun.PruneRequest, error) {
	q := onerun.PruneRequest{ForgetKeys: c.ForgetKeys}
	if c.Keep != nil {
		q.Keep = *c.Keep
	}
	if c.Job != "" {
		var err error
		if onerun.IsRunID(string(c.Job)) {
			return q, usage("prune takes a job or a key, not the run id %s", c.Job)
		}
		if q.Job, q.Partition, err = onerun.SplitKey(string(c.Job)); err != nil {
			return q, err
		}
	}
	limited := c.OlderThan > 0 || c.Keep != nil || c.MaxSize > 0
	switch {
	case q.Keep < 0:
		return q, usage("--keep %d is negative", q.Keep)
	case c.Keep != nil && q.Keep == 0:
		return q, usage("--keep 0 keeps nothing: give 1 or more; for every success, --older-than 1s")
	case q.Partition != "" && limited:
		return q, usage("%s is one key: leave out the limits", c.Job)
	case q.Partition == "" && !limited:
		return q, usage("nothing says what may go; give --older-than, --keep or --max-size")
	case c.ForgetKeys && c.MaxSize > 0:
		return q, usage("--forget-keys lets dates run again: say which, by --older-than, --keep or a key, and not by a size")
	case c.ForgetKeys && c.Reason == "":
		return q, usage("--forget-keys lets dates run again, so it needs --reason TEXT")
	}
	reason := string(c.Reason)
	if reason != "" {
		var err error
		if reason, err = (reasonFlag{c.Reason}).text(e); err != nil {
			return q, err
		}
	}
	q.Who = who(reason)
	if e.file != nil {
		if e.twoPeople("") && c.ForgetKeys {
			return q, &onerun.StateError{Why: "every rerun needs two people (" + e.at(e.layers("")["rerun"]) + "), so no key can be forgotten by one; see: onerun rerun KEY --request"}
		}
		for job := range e.file.Jobs {
			if e.twoPeople(job) {
				q.TwoPeople = append(q.TwoPeople, job)
			}
		}
	}
	if c.OlderThan > 0 {
		q.Before = time.Now().Add(-time.Duration(c.OlderThan))
	}
	return q, nil
}

// pruning goes on step by step, so that no step holds up a start.
type pruning struct {
	*env
	store  onerun.Store
	q      onerun.PruneRequest
	max    int64 // bytes; 0: no limit
	size   int64
	cursor string
	total  onerun.Pruned
}

// How long a step may last, and the least and the most that one removes.
const (
	pruneTime  = 10 * time.Millisecond
	pruneLeast = 10
	pruneMost  = 2000
)

func (p *pruning) do(ctx context.Context) error {
	p.q.Limit = 50
	if p.q.Partition != "" || !p.q.Before.IsZero() || p.q.Keep > 0 {
		for more := true; more; {
			var err error
			if more, err = p.step(ctx, p.q); err != nil {
				return err
			}
		}
	}
	if err := p.shrink(ctx); err != nil {
		return err
	}
	if p.max == 0 {
		return nil
	}
	if _, ok := onerun.Ability[onerun.Sizer](p.store); !ok {
		return &onerun.StateError{Why: "this store doesn't know its size; use --older-than or --keep"}
	}
	q := p.q
	q.Before, q.Keep, q.Oldest = time.Time{}, 0, true
	p.cursor = ""
	for more := true; more && p.size > p.max; {
		var err error
		if more, err = p.step(ctx, q); err != nil {
			return err
		}
		if err := p.measure(ctx); err != nil {
			return err
		}
	}
	return p.shrink(ctx)
}

// step removes some, and lets the starts that wait come first.
func (p *pruning) step(ctx context.Context, q onerun.PruneRequest) (more bool, err error) {
	q.Limit, q.Cursor = p.q.Limit, p.cursor
	bounded, cancel := p.bound(ctx)
	defer cancel()
	done, err := p.store.Prune(bounded, q)
	if err != nil {
		return false, err
	}
	p.cursor = done.Cursor
	p.total.Runs += done.Runs
	p.total.Keys += done.Keys
	p.total.Forgotten += done.Forgotten
	p.total.Refusals += done.Refusals
	switch took := done.Held; {
	case took > pruneTime:
		p.q.Limit = max(pruneLeast, p.q.Limit/2)
	case took < pruneTime/2:
		p.q.Limit = min(pruneMost, p.q.Limit*2)
	}
	rest(min(max(done.Held, time.Millisecond), pruneTime))
	return done.More, nil
}

// rest leaves the store to others for a while.
func rest(d time.Duration) { <-time.After(d) }

// known is the size of the store; nil: it doesn't know it.
func (p *pruning) known() *int64 {
	if _, ok := onerun.Ability[onerun.Sizer](p.store); !ok {
		return nil
	}
	return &p.size
}

func (p *pruning) measure(ctx context.Context) error {
	s, ok := onerun.Ability[onerun.Sizer](p.store)
	if !ok {
		return nil
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	var err error
	p.size, err = s.Size(ctx)
	return err
}

// shrink gives the room back to the file system.
func (p *pruning) shrink(ctx context.Context) error {
	if s, ok := onerun.Ability[onerun.Shrinker](p.store); ok {
		for more := true; more; {
			bounded, cancel := p.bound(ctx)
			var err error
			more, err = s.Shrink(bounded)
			cancel()
			if err != nil {
				return err
			}
			if more {
				rest(pruneTime / 2)
			}
		}
	}
	return p.measure(ctx)
}
