package filelock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// Unclaimed is a run that is executed without a claim, because its store can't be asked: all
// that the store is told when it can be. It may also be one that has a claim, whose end the store
// could not be told in time: then it is what the store needs to know should it have forgotten the
// claim by then.
type Unclaimed struct {
	Store     string       // which one it is to be delivered to, by a name without secrets
	Claim     onerun.Claim // what could not be asked
	StartedAt time.Time    // by this host's clock
	Worker    onerun.Worker

	// Proven are earlier owners of the lock, as in a note: among them may be one whose claim was
	// granted without anybody's knowing.
	Proven []Proven

	// Of a run that has a claim; zero: it has none. Its token is Claim.Granted. Claim.RunID is the
	// run's own only for the first attempt: it has to be new to a store that has forgotten another one.
	RunID   string
	Attempt int
}

// Claimed reports whether the run had a claim.
func (u Unclaimed) Claimed() bool { return u.Attempt != 0 }

// Lease is the lease of a run that had a claim.
func (u Unclaimed) Lease() onerun.Lease {
	c := u.Claim
	return onerun.Lease{Namespace: c.Namespace, Lock: c.Lock, RunID: u.RunID, Attempt: u.Attempt, Owner: c.Owner, Token: c.Granted}
}

// Spooled is an unclaimed run as it was found in the directory.
type Spooled struct {
	Path    string
	Base    string // of the lock's files
	Owner   string
	Run     Unclaimed
	Begun   bool            // the job was about to be started; false: it never was, if that was in this boot
	Outcome *onerun.Outcome // nil: its end isn't known
	Err     error           // why it can't be read; Run and Outcome are empty then
}

// A spool file is the record of the run on one line, filled up with spaces to a whole number
// of blocks, and then one block for its end: blank at first, then RUNNING from when the job is about
// to be started. So the end is written in place: it needs no room that wasn't taken before that. What the job printed has no
// such room, and follows where there is some.
const (
	endRoom  = noteMax
	spoolMax = 32 << 20 // what is read of a file, at most: labels can be long, and an output
)

// spoolRecord is the record's form in the file. The names that a Note has too mean the same.
type spoolRecord struct {
	Store        string `json:"store"`
	Namespace    string `json:"namespace"`
	Job          string `json:"job"`
	Partition    string `json:"partition,omitempty"`
	BusinessDate string `json:"business_date,omitempty"`

	Lock     onerun.LockName `json:"lock"`
	LockMode onerun.LockMode `json:"lock_mode"`
	Before   string          `json:"before,omitempty"`
	Proven   []Proven        `json:"proven,omitempty"`

	Owner        string            `json:"owner"`
	RunID        string            `json:"run_id"`
	ScheduledAt  time.Time         `json:"scheduled_at"`
	StartedAt    time.Time         `json:"started_at"`
	WorkerLabel  string            `json:"worker_label,omitempty"`
	VersionLabel string            `json:"version_label,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	InProcess    bool              `json:"in_process,omitempty"`

	TTL        time.Duration  `json:"ttl_ns"`
	OnCrash    onerun.OnCrash `json:"on_crash"`
	StaleAfter time.Duration  `json:"stale_after_ns,omitempty"`
	Retries    int            `json:"retries,omitempty"`
	BackoffMin time.Duration  `json:"backoff_min_ns,omitempty"`
	BackoffMax time.Duration  `json:"backoff_max_ns,omitempty"`
	RetryLost  bool           `json:"retry_lost,omitempty"`
	TwoPeople  bool           `json:"two_people,omitempty"`

	Host       string `json:"host"`
	Machine    string `json:"machine,omitempty"`
	Boot       string `json:"boot"`
	PIDNS      uint64 `json:"pid_ns"`
	TimeNS     uint64 `json:"time_ns"`
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`

	GrantedRunID string `json:"granted_run_id,omitempty"`
	Attempt      int    `json:"attempt,omitempty"`
	Token        int64  `json:"token,omitempty"`
}

// spoolOutput is what the job printed, in the file.
type spoolOutput struct {
	Text      string `json:"text"`
	Total     int64  `json:"total"`
	Truncated bool   `json:"truncated,omitempty"`
}

// encode gives a whole file, whose end is blank, and where that begins.
func (u Unclaimed) encode() (text []byte, endAt int, err error) {
	c, w := u.Claim, u.Worker
	r := spoolRecord{
		Store: u.Store, Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, BusinessDate: c.BusinessDate,
		Lock: c.Lock, LockMode: c.LockMode, Proven: u.Proven,
		Owner: c.Owner, RunID: c.RunID, ScheduledAt: c.ScheduledAt, StartedAt: u.StartedAt,
		WorkerLabel: c.WorkerLabel, VersionLabel: c.VersionLabel, Labels: c.Labels, InProcess: c.InProcess,
		TTL: c.TTL, OnCrash: c.OnCrash, StaleAfter: c.StaleAfter, Retries: c.Retries, BackoffMin: c.BackoffMin, BackoffMax: c.BackoffMax,
		RetryLost: c.RetryLost, TwoPeople: c.TwoPeople,
		Host: w.Host, Machine: w.Machine, Boot: w.Boot, PIDNS: w.PIDNS, TimeNS: w.TimeNS, PID: w.PID, StartTicks: w.StartTicks,
		GrantedRunID: u.RunID, Attempt: u.Attempt, Token: c.Granted,
	}
	line, err := jsonLine(r)
	if err != nil {
		return nil, 0, err
	}
	endAt = (len(line) + endRoom - 1) / endRoom * endRoom
	return append(padTo(line, endAt), padTo([]byte{'\n'}, endRoom)...), endAt, nil
}

func (r spoolRecord) unclaimed() Unclaimed {
	return Unclaimed{
		Store: r.Store, StartedAt: r.StartedAt, Proven: r.Proven, RunID: r.GrantedRunID, Attempt: r.Attempt,
		Worker: onerun.Worker{
			Label: r.WorkerLabel, Host: r.Host, Machine: r.Machine, Boot: r.Boot, PIDNS: r.PIDNS, TimeNS: r.TimeNS, PID: r.PID, StartTicks: r.StartTicks,
		},
		Claim: onerun.Claim{
			Namespace: r.Namespace, Job: r.Job, Partition: r.Partition, BusinessDate: r.BusinessDate, Lock: r.Lock, LockMode: r.LockMode,
			Owner: r.Owner, RunID: r.RunID, ScheduledAt: r.ScheduledAt, InProcess: r.InProcess, Granted: r.Token,
			WorkerLabel: r.WorkerLabel, VersionLabel: r.VersionLabel, Labels: r.Labels,
			Policy: onerun.Policy{
				TTL: r.TTL, OnCrash: r.OnCrash, StaleAfter: r.StaleAfter, Retries: r.Retries, BackoffMin: r.BackoffMin, BackoffMax: r.BackoffMax,
				RetryLost: r.RetryLost, TwoPeople: r.TwoPeople,
			},
		},
	}
}

// encodeEnd gives the text of an end, which fills its block. Only its error is cut for that.
func encodeEnd(o Outcome) ([]byte, error) {
	o.Signal = cut(o.Signal, idMax)
	for limit := 4 * onerun.MaxError; ; limit /= 2 {
		o.Error = cut(onerun.CutError(o.Error), limit)
		text, err := jsonLine(o)
		if err == nil && limit == 0 && len(text) > endRoom {
			err = fmt.Errorf("spool file: an end of %d bytes, more than the %d that there is room for", len(text), endRoom)
		}
		if err != nil || len(text) <= endRoom {
			return padTo(text, endRoom), err
		}
	}
}

func jsonLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("spool file: %w", err)
	}
	return b.Bytes(), nil
}

// parse takes the text of a whole file, and gives where the end begins in it.
func (s *Spooled) parse(b []byte) (endAt int, err error) {
	bad := func(format string, args ...any) (int, error) {
		return 0, fmt.Errorf("%w: %s", errNote, fmt.Sprintf(format, args...))
	}
	line, _, ok := bytes.Cut(b, []byte{'\n'})
	endAt = len(line) + 1
	if !ok || endAt%endRoom != 0 || len(b) < endAt+endRoom {
		return bad("it is not whole")
	}
	var r spoolRecord
	if err := json.Unmarshal(bytes.TrimRight(line, " "), &r); err != nil { // the decoder would look at each blank
		return bad("%s", err)
	}
	if r.Owner != s.Owner || r.Job == "" || r.Namespace == "" || r.Lock == "" || r.RunID == "" {
		return bad("it names no run of the owner that its name names")
	}
	s.Run, s.Begun, s.Outcome = r.unclaimed(), false, nil
	end, output := bytes.TrimSpace(b[endAt:endAt+endRoom]), b[endAt+endRoom:]
	if len(end) == 0 {
		return endAt, nil
	}
	var o Outcome
	if err := json.Unmarshal(end, &o); err != nil {
		return bad("its end: %s", err)
	}
	s.Begun = true
	if o.Status == onerun.Running {
		return endAt, nil
	}
	out := o.Outcome()
	var printed spoolOutput
	if text, _, whole := bytes.Cut(output, []byte{'\n'}); whole && json.Unmarshal(text, &printed) == nil {
		out.Output = &onerun.Output{Text: printed.Text, Total: printed.Total, Truncated: printed.Truncated}
	}
	s.Outcome = &out
	return endAt, nil
}
