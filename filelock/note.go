package filelock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/onerun-dev/onerun"
)

// noteMax is the room of a note in bytes: one block of nearly every file system, so
// that a note, once written, can be replaced without allocating anything.
const noteMax = 4096

// Bounds of texts in a note that come from outside, in bytes. Names have at most 100
// characters of 4 bytes; an id has 36, a host name 64 (uname(2)).
const (
	labelMax = 400
	idMax    = 64
)

// The states of a note say how far the work has come, and so what has to be shown gone
// before it may be called dead.
const (
	StateStarting  = "starting"   // before the fork: there is no job
	StateForking   = "forking"    // from the fork on: whatever carries ONERUN_OWNER, which may have ended already
	StateRunning   = "running"    // the process group is noted
	StateInProcess = "in_process" // the work is a function of the wrapper's own process
	StateEnded     = "ended"      // the wrapper or the guard saw it end; the outcome is noted
)

// Note is what stands in a lock file: one JSON object on the first line, at most
// 4096 bytes. It says who holds the lock and what is needed to prove that owner
// dead. A field that could not be read is zero and proves nothing.
//
// Partitions, arguments, labels and the environment never stand in a note.
type Note struct {
	Kind      string `json:"kind"` // job, key or name
	Name      string `json:"name"` // of kind key: the job alone
	Namespace string `json:"namespace"`

	Owner        string    `json:"owner"` // random id of the acquisition, hexadecimal
	RunID        string    `json:"run_id,omitempty"`
	Attempt      int       `json:"attempt,omitempty"`
	Token        int64     `json:"token,omitempty"`
	VersionLabel string    `json:"version_label,omitempty"`
	StartedAt    time.Time `json:"started_at"` // for people: no decision compares it with a clock

	// Ledger names the store that knows the run, without its secrets; empty: the one on this host.
	Ledger string `json:"ledger,omitempty"`

	// Unclaimed: the run is executed without a claim, so it has no token. Its end, and all that
	// else is known of it, stands in a spool file of its owner's; see Spool.
	Unclaimed bool `json:"unclaimed,omitempty"`
	Manual    bool `json:"manual,omitempty"` // the owner's policy is onerun.CrashManual; not noted where the ledger is on this host

	// The wrapper: one process of one kernel, see onerun.Worker.
	Host       string `json:"host"`
	Machine    string `json:"machine,omitempty"`
	Boot       string `json:"boot"`
	PIDNS      uint64 `json:"pid_ns"`
	TimeNS     uint64 `json:"time_ns"`
	PID        int    `json:"pid"`
	UID        int    `json:"uid"` // its account
	StartTicks uint64 `json:"start_ticks"`

	State           string `json:"state"`           // one of those above
	Group           int    `json:"group,omitempty"` // the job's process group: the pid of its leader
	GroupStartTicks uint64 `json:"group_start_ticks,omitempty"`
	Guard           int    `json:"guard,omitempty"` // the guard process, if one was noted
	GuardStartTicks uint64 `json:"guard_start_ticks,omitempty"`

	Skip    *string  `json:"skip,omitempty"`    // the work has said that there is nothing to do, and why
	Outcome *Outcome `json:"outcome,omitempty"` // of StateEnded

	Flock    bool  `json:"flock"`              // this owner holds the flock as well
	Released bool  `json:"released,omitempty"` // this owner gave the lock back; only its outcome is left, for somebody to take up
	Left     *Left `json:"left,omitempty"`     // what an earlier owner left and nobody has taken up yet

	// Proven are earlier owners whose work was proven over before this note took the place of
	// theirs, for as long as no ledger is known to have been told.
	Proven []Proven `json:"proven,omitempty"`
}

// Proven is an owner whose work is proven over.
type Proven struct {
	Owner    string `json:"owner"`
	Void     bool   `json:"void,omitempty"`   // its job never started
	Manual   bool   `json:"manual,omitempty"` // see Note.Manual
	Evidence string `json:"evidence,omitempty"`
}

// provenMax bounds a list of Proven, and evidenceMax the evidence of each in bytes: should so
// many starts after each other die while they ask, the oldest has a lease that runs out.
const (
	provenMax   = 8
	evidenceMax = 120
)

// Outcome is what became of the work: what a claim needs to deliver it to the ledger.
type Outcome struct {
	Status     onerun.Status `json:"status"`
	Reason     onerun.Reason `json:"reason,omitempty"`
	ExitCode   *int          `json:"exit_code,omitempty"`
	Signal     string        `json:"signal,omitempty"`
	Error      string        `json:"error,omitempty"` // cut so that the note keeps to its room
	Processed  *int64        `json:"processed,omitempty"`
	Failed     *int64        `json:"failed,omitempty"`
	FinishedAt time.Time     `json:"finished_at"`
	Void       bool          `json:"void,omitempty"` // the job was never started
}

// Left is an outcome that its owner could not deliver.
type Left struct {
	Owner   string  `json:"owner"`
	RunID   string  `json:"run_id,omitempty"`
	Attempt int     `json:"attempt,omitempty"`
	Token   int64   `json:"token,omitempty"`
	Outcome Outcome `json:"outcome"`
}

// NewOutcome takes an outcome as the ledger knows it. What the work printed has no room
// here.
func NewOutcome(o onerun.Outcome) Outcome {
	return Outcome{o.Status, o.Reason, o.ExitCode, o.Signal, o.Error, o.Processed, o.Failed, o.FinishedAt, o.Void}
}

// Outcome gives it back as the ledger knows it.
func (o Outcome) Outcome() onerun.Outcome {
	return onerun.Outcome{
		Status: o.Status, Reason: o.Reason, ExitCode: o.ExitCode, Signal: o.Signal, Error: o.Error,
		Processed: o.Processed, Failed: o.Failed, FinishedAt: o.FinishedAt, Void: o.Void,
	}
}

// LockName is the lock that the note is about; of kind key without its partition.
func (n Note) LockName() onerun.LockName { return onerun.LockName(n.Kind + "/" + n.Name) }

// Worker is the noted wrapper.
func (n Note) Worker() onerun.Worker {
	return onerun.Worker{
		Host: n.Host, Machine: n.Machine, Boot: n.Boot, PIDNS: n.PIDNS, TimeNS: n.TimeNS,
		PID: n.PID, StartTicks: n.StartTicks,
	}
}

// setWorker notes a wrapper.
func (n *Note) setWorker(w onerun.Worker) {
	n.Host, n.Machine, n.Boot, n.PIDNS, n.TimeNS = w.Host, w.Machine, w.Boot, w.PIDNS, w.TimeNS
	n.PID, n.StartTicks = w.PID, w.StartTicks
}

// left is what a later owner has to carry on until it is taken up: the note's own
// outcome, else what the note carried itself.
func (n *Note) left() *Left {
	switch {
	case n == nil:
		return nil
	case n.Outcome != nil && !n.Unclaimed: // else it stands in the spool
		return &Left{Owner: n.Owner, RunID: n.RunID, Attempt: n.Attempt, Token: n.Token, Outcome: *n.Outcome}
	}
	return n.Left
}

// encode gives the text of a note, line feed included, in at most noteMax bytes.
// Only free texts are cut for it, the errors first.
func (n Note) encode() ([]byte, error) {
	n.VersionLabel, n.Ledger = cut(n.VersionLabel, labelMax), cut(n.Ledger, labelMax)
	for _, id := range []*string{&n.RunID, &n.Host, &n.Machine, &n.Boot} {
		*id = cut(*id, idMax)
	}
	if n.Proven != nil {
		n.Proven = slices.Clone(n.Proven[max(0, len(n.Proven)-provenMax):])
		for i := range n.Proven {
			n.Proven[i].Evidence = cut(n.Proven[i].Evidence, evidenceMax)
		}
	}
	for limit := 4 * onerun.MaxError; ; limit /= 2 {
		if n.Outcome != nil {
			o := *n.Outcome
			o.Signal, o.Error = cut(o.Signal, idMax), cut(onerun.CutError(o.Error), limit)
			n.Outcome = &o
		}
		if n.Skip != nil {
			why := cut(onerun.CutError(*n.Skip), limit/8) // an end of its own needs more
			n.Skip = &why
		}
		if n.Left != nil {
			l := *n.Left
			l.RunID, l.Outcome.Signal = cut(l.RunID, idMax), cut(l.Outcome.Signal, idMax)
			l.Outcome.Error = cut(onerun.CutError(l.Outcome.Error), limit)
			n.Left = &l
		}
		if limit == 0 {
			n.VersionLabel = "" // control characters grow sixfold in JSON
			for i := range n.Proven {
				n.Proven[i].Evidence = ""
			}
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(n); err != nil {
			return nil, fmt.Errorf("note: %w", err)
		}
		if b.Len() <= noteMax {
			return b.Bytes(), nil
		}
		if limit == 0 {
			return nil, fmt.Errorf("note: %d bytes, more than the %d that a lock file has room for", b.Len(), noteMax)
		}
	}
}

// cut shortens s to at most limit bytes at a character boundary.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

var (
	errEmpty = errors.New("empty")
	errNote  = errors.New("not a note of onerun")
)

// parseNote reads the first line of a lock file. Whatever follows is the rest of an
// older, longer text, or padding. errEmpty means that nothing is noted.
func parseNote(b []byte) (*Note, error) {
	line, _, ended := bytes.Cut(b, []byte{'\n'})
	if len(line) == 0 {
		return nil, errEmpty
	}
	if len(line) > noteMax || !ended && len(b) >= noteMax {
		return nil, fmt.Errorf("%w: its first line is longer than %d bytes", errNote, noteMax)
	}
	var n Note
	if err := json.Unmarshal(line, &n); err != nil {
		return nil, fmt.Errorf("%w: %w", errNote, err)
	}
	switch {
	case !isOwner(n.Owner):
		return nil, fmt.Errorf("%w: no owner id", errNote)
	case n.Left != nil && !isOwner(n.Left.Owner):
		return nil, fmt.Errorf("%w: no owner id in what was left", errNote)
	case n.State == StateEnded && n.Outcome == nil:
		return nil, fmt.Errorf("%w: ended without an outcome", errNote)
	}
	return &n, nil
}
