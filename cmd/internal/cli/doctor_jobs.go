package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// jobFacts are what the ledger says of a job's last runs.
type jobFacts struct {
	name           string
	keyed, unkeyed bool
	locks          []onerun.LockName // of runs, a key's own lock apart
	last           onerun.Run
	successes      int // of the last UsualRuns
	worst          time.Duration
	worstRun       string
	staleAfter     time.Duration // of the last run; 0: the default
}

const (
	manyJobs = 500 // beyond which the rest is not looked at
	lastRuns = 50
)

// readJobs reads what the ledger says of each job, of the one that is named first.
func (d *doctor) readJobs(ctx context.Context) {
	if !d.ledger {
		return
	}
	ctx, cancel := d.env.bound(ctx)
	defer cancel()
	names, err := namesIn(ctx, d.store, d.env.Namespace)
	if i := slices.Index(names, d.job); i > 0 {
		names[0], names[i] = names[i], names[0]
	}
	if n := len(names); n > manyJobs {
		names = names[:manyJobs]
		if d.job == "" {
			d.add("jobs", onerun.FindingUnknown, fmt.Sprintf("of %d jobs only %d are looked at", n, manyJobs), "name one: onerun doctor JOB")
		}
	}
	for _, name := range names {
		var j jobFacts
		if j, err = d.readJob(ctx, name); err != nil {
			break
		}
		d.jobs = append(d.jobs, j)
	}
	if err != nil {
		d.add("jobs", onerun.FindingUnknown, err.Error(), "")
	}
}

func (d *doctor) readJob(ctx context.Context, name string) (j jobFacts, err error) {
	j.name = name
	runs, err := d.store.Runs(ctx, onerun.Query{Namespace: d.env.Namespace, Job: name, Limit: lastRuns})
	if err != nil {
		return j, err
	}
	for i, r := range runs {
		if i == 0 {
			j.last = r
			if r.Status != onerun.Running { // of which the default is filled in
				j.staleAfter = r.StaleAfter
			}
		}
		j.keyed = j.keyed || r.Partition != ""
		j.unkeyed = j.unkeyed || r.Partition == ""
		if r.Lock.Kind() != "key" && !slices.Contains(j.locks, r.Lock) {
			j.locks = append(j.locks, r.Lock)
		}
	}
	runs, err = d.store.Runs(ctx, onerun.Query{Namespace: d.env.Namespace, Job: name, Statuses: []onerun.Status{onerun.Succeeded}, Limit: onerun.UsualRuns})
	for _, r := range runs {
		j.successes++
		if took := r.FinishedAt.Sub(r.StartedAt); took > j.worst || j.worstRun == "" {
			j.worst, j.worstRun = took, r.Name()
		}
	}
	return j, err
}

// concerned are the jobs that are asked about.
func (d *doctor) concerned() []jobFacts {
	if d.job == "" {
		return d.jobs
	}
	return slices.DeleteFunc(slices.Clone(d.jobs), func(j jobFacts) bool { return j.name != d.job })
}

// margins compares what was set as stale-after with how long the job really takes.
func (d *doctor) margins() {
	const check = "stale-after"
	for _, j := range d.concerned() {
		if j.staleAfter > 0 && j.successes > 0 && j.staleAfter < j.worst {
			d.add(check, onerun.FindingWarning, fmt.Sprintf("%s: --stale-after is %s, and the longest of its last %d successes (%s) took %s: a healthy run is listed as stale",
				j.name, span(j.staleAfter), j.successes, j.worstRun, span(j.worst)),
				fmt.Sprintf("set --stale-after to %s, or leave it out", span(onerun.UsualStaleAfter(j.worst))))
		}
	}
	d.fine(check, "no job's --stale-after is shorter than its successes take")
}

// unkeyed looks for jobs that every start executes anew, where that may not be meant.
func (d *doctor) unkeyed() {
	const check = "unkeyed-jobs"
	const remedy = "give it a key, --date or --period, in every line that starts it"
	many := sharedByGroup(filepath.Dir(d.path))
	for _, j := range d.concerned() {
		switch {
		case !j.unkeyed:
		case j.keyed:
			d.add(check, onerun.FindingWarning, j.name+" has runs with a key and runs without: one without runs whatever has run", remedy)
		case many:
			d.add(check, onerun.FindingWarning, j.name+" has no key, on a store that several accounts share: each account's start runs it again", remedy)
		default:
			if other := d.keyedUnder(j); other != "" {
				d.add(check, onerun.FindingWarning, fmt.Sprintf("%s has no key, and runs under the same lock as %s, which has one", j.name, other), remedy)
			}
		}
	}
	d.fine(check, "none that should have a key, as far as the ledger tells")
}

// keyedUnder is a keyed job under one of the locks of another one, or "".
func (d *doctor) keyedUnder(j jobFacts) string {
	for _, o := range d.jobs {
		if o.name != j.name && o.keyed && slices.ContainsFunc(o.locks, func(l onerun.LockName) bool { return slices.Contains(j.locks, l) }) {
			return o.name
		}
	}
	return ""
}

// history tells of the one job that was named.
func (d *doctor) history() {
	if d.job == "" {
		return
	}
	own := d.concerned()
	if len(own) == 0 {
		d.add("history", onerun.FindingUnknown, d.job+" has no runs in this store", "")
		return
	}
	j := own[0]
	told := []string{fmt.Sprintf("last run %s, %s, started %s", j.last.Name(), statusWord(j.last), clock(j.last.StartedAt))}
	if j.successes > 0 {
		told = append(told, fmt.Sprintf("the longest of its last %d successes took %s", j.successes, span(j.worst)))
	}
	if j.last.Skips > 0 {
		told = append(told, fmt.Sprintf("%d starts were skipped beside its last run", j.last.Skips))
	}
	d.add("history", onerun.FindingOK, strings.Join(told, "; "), "")
}
