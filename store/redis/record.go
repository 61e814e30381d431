package redis

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// record is a run as it is kept, in the fields of one hash:
//
//	job part date sched      what it is for, and when it was due
//	status attempt lock      as they are
//	token owner started      of the last attempt
//	finished                 when the run ended
//	retry                    when the next attempt of a FAILED run is due
//	policy                   retries, least and most wait, retry lost, ttl, on crash: of the last owner
//	fails                    attempts that failed and cost a retry
//	two_from                 from this attempt on, a rerun needs two people
//	v                        counts the changes of state, for those who decide outside
//	gone                     when a claim noticed that the lock had vanished under the run
//	a1 w1 e1 c1 b1 d1        attempt 1: how it began, its worker, its end, its counts; token,
//	                         start and end once there is another one; an end that came late
//	p1 u1                    approval 1, when and by which attempt it was spent
//	open approved            which approval is unspent, and if it lifts: status, attempt, until
//
// Times and durations are microseconds.
type record struct {
	namespace string
	id        string
	f         map[string]string
	expires   string // the end of its lease; "": there is none
	skips     int64
	usual     time.Duration // the longest of its job's last successes
	now       time.Time     // when it was read
	evidence  string        // of a run that was closed just now
}

// begun is how an attempt began.
type begun struct {
	Owner        string            `json:"owner"`
	OnCrash      onerun.OnCrash    `json:"crash"`
	StaleAfter   int64             `json:"stale_us,omitempty"`
	InProcess    bool              `json:"in_process,omitempty"`
	VersionLabel string            `json:"version_label,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
}

// workerRow is a worker.
type workerRow struct {
	Label      string `json:"label,omitempty"`
	Host       string `json:"host,omitempty"`
	Machine    string `json:"machine,omitempty"`
	Boot       string `json:"boot,omitempty"`
	PIDNS      uint64 `json:"pid_ns,omitempty"`
	TimeNS     uint64 `json:"time_ns,omitempty"`
	PID        int    `json:"pid,omitempty"`
	StartTicks uint64 `json:"start_ticks,omitempty"`
}

func workerOf(w onerun.Worker) workerRow { return workerRow(w) }

// worker reads a worker; what is none is nobody.
func worker(text string) onerun.Worker {
	var w workerRow
	_ = json.Unmarshal([]byte(text), &w)
	return onerun.Worker(w)
}

// endRow is how an attempt ended.
type endRow struct {
	Status     onerun.Status   `json:"status"`
	Reason     onerun.Reason   `json:"reason,omitempty"`
	ExitCode   *int            `json:"exit_code,omitempty"`
	Signal     string          `json:"signal,omitempty"`
	Error      string          `json:"error,omitempty"`
	Processed  *int64          `json:"processed,omitempty"`
	Failed     *int64          `json:"failed,omitempty"`
	FinishedUS string          `json:"finished_us,omitempty"`
	Void       bool            `json:"void,omitempty"`
	ClosedBy   onerun.ClosedBy `json:"closed_by,omitempty"`
}

func endOf(o onerun.Outcome, by onerun.ClosedBy) endRow {
	e := endRow{
		Status: o.Status, Reason: o.Reason, Signal: o.Signal, Error: onerun.CutError(o.Error), Processed: o.Processed, Failed: o.Failed,
		FinishedUS: micros(o.FinishedAt), Void: o.Void, ClosedBy: by,
	}
	if o.ExitCode != nil {
		n := within(*o.ExitCode)
		e.ExitCode = &n
	}
	return e
}

func (e endRow) outcome() onerun.Outcome {
	return onerun.Outcome{
		Status: e.Status, Reason: e.Reason, ExitCode: e.ExitCode, Signal: e.Signal, Error: e.Error,
		Processed: e.Processed, Failed: e.Failed, FinishedAt: fromMicros(e.FinishedUS), Void: e.Void,
	}
}

// recordOf reads a run as lua/seen.lua gives it.
func recordOf(namespace string, now time.Time, v any) (*record, error) {
	p := replyOf(v)
	flat := replyOf(p.list(1))
	r := &record{namespace: namespace, id: p.text(0), now: now, f: map[string]string{}, expires: p.text(2), skips: p.number(3)}
	r.usual = time.Duration(p.number(4)) * time.Microsecond
	for i := 0; i+1 < len(flat.at); i += 2 {
		r.f[flat.text(i)] = flat.text(i + 1)
	}
	if p.err == nil {
		p.err = flat.err
	}
	return r, p.err
}

func (r *record) status() onerun.Status { return onerun.Status(r.f["status"]) }
func (r *record) attempt() int          { return int(number(r.f["attempt"])) }
func (r *record) lock() onerun.LockName { return onerun.LockName(r.f["lock"]) }

// of is a field of an attempt.
func (r *record) of(field string, attempt int) string {
	return r.f[fmt.Sprintf("%s%d", field, attempt)]
}

// over reports whether the lease of a RUNNING run is over, or has vanished.
func (r *record) over() bool {
	return r.expires == "" || !r.now.Before(fromMicros(r.expires))
}

// run is the run with what is found out about it when it is read.
func (r *record) run() onerun.Run {
	n := r.attempt()
	run := onerun.Run{
		RunID: r.id, Namespace: r.namespace, Job: r.f["job"], Partition: r.f["part"], BusinessDate: r.f["date"], Lock: r.lock(),
		Status: r.status(), Attempt: n, ScheduledAt: fromMicros(r.f["sched"]), NextRetryAt: fromMicros(r.f["retry"]),
		Skips: r.skips, Evidence: r.evidence,
	}
	var b begun
	_ = json.Unmarshal([]byte(r.of("a", n)), &b)
	run.VersionLabel, run.Labels = b.VersionLabel, b.Labels
	a := r.attemptAt(n)
	run.Execution = a.Execution
	run.StartedAt, run.FinishedAt = fromMicros(r.f["started"]), fromMicros(r.f["finished"])
	run.Token = number(r.f["token"])
	if a.Status != run.Status {
		run.Reason = ""
	}
	if run.Status == onerun.Running {
		r.judge(&run)
	}
	return run
}

// judge says what is known of a RUNNING run's owner: on another host only the lease speaks.
func (r *record) judge(run *onerun.Run) {
	run.Liveness, run.LeaseExpiresAt = onerun.Unknown, fromMicros(r.expires)
	switch {
	case r.expires == "":
		run.Stale, run.Evidence = true, "its lock has vanished from the store"
	case r.over():
		run.Stale, run.Evidence = true, "its lease ran out at "+run.LeaseExpiresAt.Format(time.RFC3339)
	default:
		run.Evidence = "its lease runs until " + run.LeaseExpiresAt.Format(time.RFC3339)
	}
	if run.StaleAfter == 0 {
		run.StaleAfter = onerun.UsualStaleAfter(r.usual)
	}
	if age := r.now.Sub(run.StartedAt); age > run.StaleAfter {
		run.Stale = true
		run.Evidence += fmt.Sprintf("; RUNNING for %s, over its stale-after of %s", age.Round(time.Second), run.StaleAfter)
	}
}

// attempts are the attempts that are known, in their order.
func (r *record) attempts() []onerun.Attempt {
	var out []onerun.Attempt
	for n := 1; n <= r.attempt(); n++ {
		if r.of("a", n) != "" {
			out = append(out, r.attemptAt(n))
		}
	}
	return out
}

// attemptAt is one attempt. What is kept of the run stands for what is not kept of its last one.
func (r *record) attemptAt(n int) onerun.Attempt {
	var b begun
	var e endRow
	_ = json.Unmarshal([]byte(r.of("a", n)), &b)
	a := onerun.Attempt{Number: n, Status: onerun.Running, Execution: onerun.Execution{
		Owner: b.Owner, OnCrash: b.OnCrash, StaleAfter: time.Duration(b.StaleAfter) * time.Microsecond, Worker: worker(r.of("w", n)),
		TwoPeople: r.f["two_from"] != "" && int64(n) >= number(r.f["two_from"]),
	}}
	if n == r.attempt() {
		a.Token, a.StartedAt, a.FinishedAt = number(r.f["token"]), fromMicros(r.f["started"]), fromMicros(r.f["finished"])
		if a.Status == onerun.Running {
			a.LeaseExpiresAt = fromMicros(r.expires)
		}
	} else if was := strings.Split(r.of("b", n), " "); len(was) == 3 {
		a.Token, a.StartedAt, a.FinishedAt = number(was[0]), fromMicros(was[1]), fromMicros(was[2])
	}
	if processed, failed, ok := strings.Cut(r.of("c", n), " "); ok {
		a.Processed, a.Execution.Failed = count(processed), count(failed)
	}
	if json.Unmarshal([]byte(r.of("e", n)), &e) == nil {
		o := e.outcome()
		a.Status, a.Reason, a.ExitCode, a.Signal, a.Error, a.Void, a.ClosedBy = o.Status, o.Reason, o.ExitCode, o.Signal, o.Error, o.Void, e.ClosedBy
		if o.Processed != nil {
			a.Processed = o.Processed
		}
		if o.Failed != nil {
			a.Execution.Failed = o.Failed
		}
	} else if n == r.attempt() && r.status() != onerun.Running {
		a.Status = r.status() // made again of a tombstone
	}
	if late := r.of("d", n); late != "" {
		var e endRow
		if json.Unmarshal([]byte(late), &e) == nil {
			o := e.outcome()
			a.Late = &o
		}
	}
	return a
}

func count(s string) *int64 {
	if s == "-" {
		return nil
	}
	n := number(s)
	return &n
}

// policy is the last owner's, as far as a retry goes by it.
func (r *record) policy() onerun.Policy {
	var p onerun.Policy
	f := strings.Fields(r.f["policy"])
	if len(f) < 4 {
		return p
	}
	p.Retries, p.BackoffMin, p.BackoffMax = int(number(f[0])), time.Duration(number(f[1]))*time.Microsecond, time.Duration(number(f[2]))*time.Microsecond
	p.RetryLost = f[3] == "1"
	return p
}

// policyOf is the policy of a claim, as it is kept.
func policyOf(c onerun.Claim, ttl time.Duration, crash onerun.OnCrash) string {
	lost := "0"
	if c.RetryLost {
		lost = "1"
	}
	return strings.Join([]string{digits(within(c.Retries)), span(c.BackoffMin), span(c.BackoffMax), lost, ceilMicros(ttl), string(crash)}, " ")
}

// approvalRow is an approval, or the request for one.
type approvalRow struct {
	ID            int64         `json:"id"`
	Status        onerun.Status `json:"status"`
	Attempt       int           `json:"attempt"`
	Reason        string        `json:"reason,omitempty"`
	By            string        `json:"by,omitempty"`
	CreatedUS     string        `json:"created_us"`
	ExpiresUS     string        `json:"expires_us,omitempty"`
	RequestedBy   string        `json:"requested_by,omitempty"`
	RequestReason string        `json:"request_reason,omitempty"`
	RequestedUS   string        `json:"requested_us,omitempty"`
}

func approvalOf(a onerun.Approval) approvalRow {
	return approvalRow{
		ID: a.ID, Status: a.Status, Attempt: a.Attempt, Reason: clean(a.Reason), By: clean(a.By), CreatedUS: micros(a.CreatedAt), ExpiresUS: micros(a.ExpiresAt),
		RequestedBy: clean(a.RequestedBy), RequestReason: clean(a.RequestReason), RequestedUS: micros(a.RequestedAt),
	}
}

// approvals are the approvals of a run, oldest first.
func (r *record) approvals() []onerun.Approval {
	var out []onerun.Approval
	for n := 1; r.of("p", n) != ""; n++ {
		var p approvalRow
		_ = json.Unmarshal([]byte(r.of("p", n)), &p)
		a := onerun.Approval{
			ID: p.ID, RunID: r.id, Status: p.Status, Attempt: p.Attempt, Reason: p.Reason, By: p.By, CreatedAt: fromMicros(p.CreatedUS),
			ExpiresAt: fromMicros(p.ExpiresUS), RequestedBy: p.RequestedBy, RequestReason: p.RequestReason, RequestedAt: fromMicros(p.RequestedUS),
		}
		if at, by, spent := strings.Cut(r.of("u", n), " "); spent {
			a.UsedAt, a.UsedBy = fromMicros(at), int(number(by))
		}
		out = append(out, a)
	}
	return out
}
