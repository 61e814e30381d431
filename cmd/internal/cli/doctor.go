package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/onerun-dev/onerun"
)

type doctorCmd struct {
	Job         word   `arg:"" optional:"" help:"Only what concerns this job, and its history."`
	Checklist   bool   `help:"Answer six questions about JOB, with the evidence; some are tried out with real processes."`
	SideEffects string `enum:"ask,yes,no" default:"ask" placeholder:"yes|no" help:"With --checklist: whether the job has effects outside its own files (asked on a terminal)."`
	Strict      bool   `help:"Exit with 1 for a warning too."`
	LockDir     word   `placeholder:"DIR" help:"Directory of the lock files, if it is not the store's."`
	JSON        bool   `name:"json" help:"One JSON document instead of a table."`
	Probe       word   `hidden:"" placeholder:"DIR" help:"Take and drop locks in DIR as standard input says: a process of --checklist."`
}

// Help explains the command.
func (doctorCmd) Help() string {
	return `It looks for all that would make onerun unsafe on this machine, with the remedy, the worst first. It changes nothing and
makes no store. What it can't find out is unknown, and fails nothing.`
}

// doctor is one examination of this machine.
type doctor struct {
	env      *env
	job      string // "": all
	place    place
	path     string // the database, whether it is there or not
	lockDir  string // the directory of the lock files, likewise
	store    onerun.Store
	ledger   bool // the store is there, and can be read
	findings []onerun.Finding
	jobs     []jobFacts
	crons    []cronStart
	procs    []onerunProcess
	others   []otherStore
	accounts []localAccount
}

func (d *doctor) add(check string, status onerun.FindingStatus, evidence, remedy string) {
	d.findings = append(d.findings, onerun.Finding{Check: check, Status: status, Evidence: evidence, Remedy: remedy})
}

// fine adds that a check found nothing, if it has found nothing.
func (d *doctor) fine(check, evidence string) {
	if !slices.ContainsFunc(d.findings, func(f onerun.Finding) bool { return f.Check == check }) {
		d.add(check, onerun.FindingOK, evidence, "")
	}
}

func (c *doctorCmd) run(ctx context.Context, e *env) error {
	if c.Probe != "" {
		return probe(ctx, string(c.Probe), e.out)
	}
	switch {
	case c.Checklist && c.Job == "":
		return usage("--checklist is about one job; name it")
	case !c.Checklist && c.SideEffects != "ask":
		return usage("--side-effects answers a question of --checklist; give both")
	}
	d := &doctor{env: e}
	if c.Job != "" {
		var err error
		if d.job, _, err = onerun.SplitKey(string(c.Job)); err != nil {
			return err
		}
	}
	if err := d.find(ctx, string(c.LockDir)); err != nil {
		return err
	}
	if d.store != nil {
		defer func() { _ = d.store.Close() }()
	}
	if err := d.examine(ctx); err != nil {
		return err
	}
	if c.Checklist {
		return c.checklist(ctx, d)
	}
	return c.write(d)
}

// examine makes all checks.
func (d *doctor) examine(ctx context.Context) error {
	if err := d.examineStore(ctx); err != nil {
		return err
	}
	d.accounts = accounts(ctx)
	d.procs = onerunProcesses()
	d.crons = append(d.readCrontabs(), readUnits()...)
	d.readJobs(ctx)
	d.otherStores(ctx)
	d.variables()
	d.configuration()
	d.notifications()
	d.textfiles()
	d.jobsDirectory()
	d.clock(ctx)
	d.container()
	d.binaries()
	if d.ledger {
		d.margins()
		d.unkeyed()
		d.history()
	}
	return nil
}

// examineStore asks the store itself, if it can tell.
func (d *doctor) examineStore(ctx context.Context) error {
	x, ok := onerun.Ability[onerun.Examiner](d.store)
	if !ok {
		return nil
	}
	ctx, cancel := d.env.bound(ctx)
	defer cancel()
	found, err := x.Examine(ctx)
	for _, f := range found {
		if d.job == "" || f.Job == "" || f.Job == d.job {
			d.findings = append(d.findings, f)
		}
	}
	d.ledger = readable(found)
	for _, f := range found { // what is another job's alone
		d.fine(f.Check, "nothing of "+d.job)
	}
	return err
}

// readable reports whether there is a ledger to be read: one whose schema is this program's or, on a store that has none, one that answers.
func readable(found []onerun.Finding) (is bool) {
	for _, check := range []string{"connection", "schema", "store"} { // the last says that there is none yet
		for _, f := range found {
			if f.Check == check {
				is = f.Status == onerun.FindingOK
			}
		}
	}
	return is
}

// rank orders findings, the worst first.
func rank(s onerun.FindingStatus) int {
	return slices.Index([]onerun.FindingStatus{onerun.FindingDanger, onerun.FindingWarning, onerun.FindingUnknown, onerun.FindingOK}, s)
}

// findingView is a finding as documented.
type findingView struct {
	Check    string               `json:"check"`
	Status   onerun.FindingStatus `json:"status"`
	Evidence string               `json:"evidence"`
	Remedy   *string              `json:"remedy"`
}

func (c *doctorCmd) write(d *doctor) error {
	slices.SortStableFunc(d.findings, func(a, b onerun.Finding) int { return cmp.Compare(rank(a.Status), rank(b.Status)) })
	count := map[onerun.FindingStatus]int{}
	views := []findingView{}
	rows := [][]string{{"STATUS", "CHECK", "EVIDENCE", "REMEDY"}}
	for _, f := range d.findings {
		count[f.Status]++
		views = append(views, findingView{f.Check, f.Status, f.Evidence, nilIf(f.Remedy, "")})
		rows = append(rows, []string{string(f.Status), f.Check, f.Evidence, f.Remedy})
	}
	ok := count[onerun.FindingDanger] == 0 && (!c.Strict || count[onerun.FindingWarning] == 0)
	var err error
	if c.JSON {
		err = writeJSON(d.env.out, map[string]any{"ok": ok, "findings": views})
	} else if err = writeTable(d.env.out, rows); err == nil {
		err = say(d.env, "%s", verdict(count))
	}
	if err == nil && !ok {
		err = &statusError{status: exitState}
	}
	return err
}

// verdict is the last line.
func verdict(count map[onerun.FindingStatus]int) string {
	word := "safe here, as far as can be seen"
	switch {
	case count[onerun.FindingDanger] > 0:
		word = "not safe here"
	case count[onerun.FindingWarning] > 0:
		word = "safe here now, but look at the warnings"
	}
	return fmt.Sprintf("%s: %d danger, %d warning, %d unknown, %d ok",
		word, count[onerun.FindingDanger], count[onerun.FindingWarning], count[onerun.FindingUnknown], count[onerun.FindingOK])
}
