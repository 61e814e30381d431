package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

type showCmd struct {
	Key  string `arg:"" help:"Key, run id, or job (its RUNNING run, else its latest)."`
	JSON bool   `name:"json" help:"One JSON document instead of text."`
}

type attemptView struct {
	Attempt    int           `json:"attempt"`
	Status     onerun.Status `json:"status"`
	Void       bool          `json:"void"`
	Worker     *string       `json:"worker"`
	Host       *string       `json:"host"`
	PID        *int          `json:"pid"`
	Token      *int64        `json:"token"`
	StartedAt  *string       `json:"started_at"`
	FinishedAt *string       `json:"finished_at"`
	DurationMS *int64        `json:"duration_ms"`
	ExitCode   *int          `json:"exit_code"`
	Signal     *string       `json:"signal"`
	Reason     *string       `json:"reason"`
	Error      *string       `json:"error"`
	Processed  *int64        `json:"processed"`
	Failed     *int64        `json:"failed"`
	ClosedBy   *string       `json:"closed_by"`    // null: its owner; machine, operator
	Late       *lateView     `json:"late_outcome"` // the end that came too late
}

// lateView is an end that came when others had decided about the attempt already.
type lateView struct {
	Status     onerun.Status `json:"status"`
	Reason     *string       `json:"reason"`
	ExitCode   *int          `json:"exit_code"`
	Signal     *string       `json:"signal"`
	Error      *string       `json:"error"`
	FinishedAt *string       `json:"finished_at"`
}

func viewLate(o *onerun.Outcome) *lateView {
	if o == nil {
		return nil
	}
	return &lateView{
		Status: o.Status, Reason: nilIf(string(o.Reason), ""), ExitCode: o.ExitCode, Signal: nilIf(o.Signal, ""),
		Error: nilIf(o.Error, ""), FinishedAt: stampOrNil(o.FinishedAt),
	}
}

type skipView struct {
	Reason  onerun.Reason `json:"reason"`
	Count   int64         `json:"count"`
	FirstAt *string       `json:"first_at"`
	LastAt  *string       `json:"last_at"`
	Holder  string        `json:"holder"`
}

type approvalView struct {
	Status      onerun.Status `json:"status"`
	Attempt     int           `json:"attempt"`
	Reason      *string       `json:"reason"`
	By          *string       `json:"by"` // null: only requested so far
	RequestedBy *string       `json:"requested_by"`
	RequestedAt *string       `json:"requested_at"`
	Request     *string       `json:"request_reason"`
	CreatedAt   *string       `json:"created_at"`
	ExpiresAt   *string       `json:"expires_at"`
	UsedAt      *string       `json:"used_at"`
	UsedAttempt *int          `json:"used_attempt"`
}

type eventView struct {
	At       *string `json:"at"`
	Event    string  `json:"event"`
	By       *string `json:"by"`
	Terminal *string `json:"terminal"`
	Reason   *string `json:"reason"`
	Detail   *string `json:"detail"`
}

type showView struct {
	runView
	Attempts  []attemptView  `json:"attempts"`
	Skipped   []skipView     `json:"skipped"`
	Approvals []approvalView `json:"approvals"`
	Events    []eventView    `json:"events"`
	Decisions []eventView    `json:"job_events"` // about the job as a whole
}

func (c *showCmd) run(ctx context.Context, e *env) error {
	if err := checkRef(c.Key); err != nil {
		return err
	}
	ctx, s, leave, err := e.consult(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	run, found, err := find(ctx, e, s, c.Key)
	if err != nil {
		return err
	}
	var d onerun.Detail
	if found {
		d, err = s.Detail(ctx, e.Namespace, run.RunID)
	} else {
		d, err = c.neverRan(ctx, e, s)
	}
	if err != nil {
		return err
	}
	jobEvents, err := s.Decisions(ctx, e.Namespace, d.Run.Job)
	if err != nil {
		return err
	}
	if c.JSON {
		m := fieldsOf(viewDetail(d, jobEvents))
		if !found {
			m["run_id"], m["status"], m["lock"] = nil, nil, nil
		}
		return writeJSON(e.out, m)
	}
	return c.write(e, d, jobEvents)
}

// neverRan is what is kept of a key that was refused, but never ran.
func (c *showCmd) neverRan(ctx context.Context, e *env, s onerun.Store) (onerun.Detail, error) {
	if onerun.IsRunID(c.Key) {
		return onerun.Detail{}, noSuchRun(c.Key)
	}
	job, partition, err := onerun.SplitKey(c.Key)
	if err != nil {
		return onerun.Detail{}, err
	}
	skips, err := s.Skips(ctx, e.Namespace, job, partition)
	if err == nil && len(skips) == 0 {
		var events []onerun.Event // a job that was paused before it ever ran is known too
		if partition == "" {
			events, err = s.Decisions(ctx, e.Namespace, job)
		}
		if err == nil && len(events) == 0 {
			err = noSuchRun(c.Key)
		}
	}
	run := onerun.Run{Namespace: e.Namespace, Job: job, Partition: partition}
	for _, k := range skips {
		run.Skips += k.Count
	}
	return onerun.Detail{Run: run, Skips: skips}, err
}

func viewDetail(d onerun.Detail, jobEvents []onerun.Event) showView {
	v := showView{
		runView: viewRun(d.Run), Attempts: []attemptView{}, Skipped: []skipView{}, Approvals: []approvalView{}, Events: viewEvents(d.Events),
		Decisions: viewEvents(jobEvents),
	}
	for _, a := range d.Attempts {
		v.Attempts = append(v.Attempts, attemptView{
			Attempt: a.Number, Status: a.Status, Void: a.Void, Worker: nilIf(a.Worker.String(), ""), Host: nilIf(a.Worker.Host, ""),
			PID: nilIf(a.Worker.PID, 0), Token: nilIf(a.Token, 0), StartedAt: stampOrNil(a.StartedAt), FinishedAt: stampOrNil(a.FinishedAt),
			DurationMS: durationMS(a.Execution), ExitCode: exitCode(a.Status, a.Execution), Signal: nilIf(a.Signal, ""),
			Reason: nilIf(string(a.Reason), ""), Error: nilIf(a.Error, ""), Processed: a.Processed, Failed: a.Failed,
			ClosedBy: nilIf(string(a.ClosedBy), ""), Late: viewLate(a.Late),
		})
	}
	for _, k := range d.Skips {
		v.Skipped = append(v.Skipped, skipView{Reason: k.Reason, Count: k.Count, FirstAt: stampOrNil(k.FirstAt), LastAt: stampOrNil(k.LastAt), Holder: k.Detail})
	}
	for _, a := range d.Approvals {
		v.Approvals = append(v.Approvals, approvalView{
			Status: a.Status, Attempt: a.Attempt, Reason: nilIf(a.Reason, ""), By: nilIf(a.By, ""), CreatedAt: stampOrNil(a.CreatedAt),
			RequestedBy: nilIf(a.RequestedBy, ""), RequestedAt: stampOrNil(a.RequestedAt), Request: nilIf(a.RequestReason, ""),
			ExpiresAt: stampOrNil(a.ExpiresAt), UsedAt: stampOrNil(a.UsedAt), UsedAttempt: nilIf(a.UsedBy, 0),
		})
	}
	return v
}

func viewEvents(events []onerun.Event) []eventView {
	views := []eventView{}
	for _, x := range events {
		views = append(views, eventView{At: stampOrNil(x.At), Event: x.Name, By: nilIf(x.By, ""), Terminal: nilIf(x.Terminal, ""), Reason: nilIf(x.Reason, ""), Detail: nilIf(x.Detail, "")})
	}
	return views
}

func (c *showCmd) write(e *env, d onerun.Detail, jobEvents []onerun.Event) error {
	r := d.Run
	if r.Status == "" {
		if err := say(e, "%s never ran", r.Name()); err != nil {
			return err
		}
	} else if err := writeTable(e.out, summary(r)); err != nil {
		return err
	}
	rows := [][]string{{"ATTEMPT", "STATUS", "STARTED", "TOOK", "EXIT", "REASON", "WORKER", "ERROR"}}
	for _, a := range d.Attempts {
		x := onerun.Run{Status: a.Status, Attempt: a.Number, Execution: a.Execution}
		reason := string(a.Reason)
		if a.Void {
			reason += ", never started"
		}
		text := a.Error
		if a.Late != nil {
			text = strings.TrimPrefix(text+"; ", "; ") + "ended as " + string(a.Late.Status) + " after that: " + onerun.MayHaveRunTwice
		}
		rows = append(rows, []string{fmt.Sprint(a.Number), string(a.Status), clock(a.StartedAt), tookWord(x, time.Now()), exitWord(x), reason, a.Worker.String(), text})
	}
	if err := section(e, rows); err != nil {
		return err
	}
	rows = [][]string{{"SKIPPED", "TIMES", "FIRST", "LAST", "HOLDER"}}
	for _, k := range d.Skips {
		rows = append(rows, []string{string(k.Reason), fmt.Sprint(k.Count), clock(k.FirstAt), clock(k.LastAt), k.Detail})
	}
	if err := section(e, rows); err != nil {
		return err
	}
	rows = [][]string{{"RERUN", "REQUESTED BY", "APPROVED BY", "REASON", "USED"}}
	for _, a := range d.Approvals {
		used, reason := "open", a.Reason
		switch {
		case a.By == "" && a.UsedAt.IsZero():
			used, reason = "not approved yet", a.RequestReason
		case a.By == "":
			used, reason = "outdated", a.RequestReason
		case a.UsedBy > 0:
			used = fmt.Sprintf("by attempt %d", a.UsedBy)
		case !a.UsedAt.IsZero():
			used = "outdated"
		}
		rows = append(rows, []string{clock(a.CreatedAt), a.RequestedBy, a.By, reason, used})
	}
	if err := section(e, rows); err != nil {
		return err
	}
	if err := section(e, eventRows("EVENT", d.Events)); err != nil {
		return err
	}
	return section(e, eventRows("EVENT OF "+d.Run.Job, jobEvents))
}

func eventRows(heading string, events []onerun.Event) [][]string {
	rows := [][]string{{"AT", heading, "BY", "TERMINAL", "REASON", "DETAIL"}}
	for _, x := range events {
		rows = append(rows, []string{clock(x.At), x.Name, x.By, x.Terminal, x.Reason, x.Detail})
	}
	return rows
}

// summary are the fields of a run that say something, one a line.
func summary(r onerun.Run) [][]string {
	rows := [][]string{{"run", r.Name()}, {"run id", r.RunID}, {"status", statusWord(r)}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("reason", reasonWord(r))
	add("evidence", r.Evidence)
	add("error", r.Error)
	add("business date", r.BusinessDate)
	add("namespace", r.Namespace)
	add("lock", string(r.Lock))
	add("scheduled", clock(r.ScheduledAt))
	add("started", startedWord(r))
	add("finished", clock(r.FinishedAt))
	add("version", r.VersionLabel)
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(r.Labels)) {
		labels = append(labels, k+"="+r.Labels[k])
	}
	add("labels", strings.Join(labels, " "))
	return rows
}

// section writes a table under a blank line, unless it has only a heading.
func section(e *env, rows [][]string) error {
	if len(rows) < 2 {
		return nil
	}
	if err := say(e, ""); err != nil {
		return err
	}
	return writeTable(e.out, rows)
}
