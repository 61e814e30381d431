package onerun

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What can be wrong when a store is asked. Every error of a store matches exactly
// one of these with errors.Is, whatever the technology beneath; the command line
// maps each to one exit code. None of them is ever a refusal: not being able to
// ask is not the answer "no".
var (
	// ErrUsage: the request itself is malformed (exit 64).
	ErrUsage = errors.New("usage")
	// ErrUnavailable: the store can't be reached or doesn't answer in time (exit 69).
	ErrUnavailable = errors.New("store unavailable")
	// ErrInternal: a bug in onerun, caught by a check such as a unique index (exit 70).
	ErrInternal = errors.New("internal error")
	// ErrCreate: a file can't be created: missing or read-only directory, a symbolic link in the way (exit 73).
	ErrCreate = errors.New("can't create")
	// ErrIO: reading or writing failed: disk full, corrupt database (exit 74).
	ErrIO = errors.New("I/O error")
	// ErrPermission: the account may not (exit 77).
	ErrPermission = errors.New("permission denied")
	// ErrConfig: the store is not what this program can work with: newer schema, unknown scheme (exit 78).
	ErrConfig = errors.New("configuration")
)

// ErrClosed means that the store was closed by this program itself. It is why a store is unavailable then, and
// no reason to ask again.
var ErrClosed = errors.New("the store is closed")

// ErrState means that an operator's action doesn't fit the state that was found, or
// that the state changed since it was looked at. Nothing was changed (exit 1).
var ErrState = errors.New("the state doesn't allow it")

// ErrNotFound means that there is no such run (exit 1).
var ErrNotFound = errors.New("not found")

// ErrLost means that the caller doesn't own what it thought it owned: the lock or
// the run vanished, was taken over or was closed by somebody else. Nothing was changed.
// It is final: an owner that was told so must stop its work.
var ErrLost = errors.New("lease lost")

// ErrStopped is why the context of work is cancelled that an operator has stopped.
var ErrStopped = errors.New("stopped")

// StoreError is an error of a store in words for people: what, why and what to do.
type StoreError struct {
	Kind error  // one of the sentinels above
	What string // "open the store", "lock file"
	Path string // the file or address, without secrets; may be empty
	Do   string // what the reader can do about it; may be empty
	Err  error  // the cause
}

func (e *StoreError) Error() string {
	var b strings.Builder
	b.WriteString(e.What)
	if e.Path != "" {
		fmt.Fprintf(&b, " %s", e.Path)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %s", e.Err)
	}
	if e.Do != "" {
		fmt.Fprintf(&b, "; %s", e.Do)
	}
	return oneLine(b.String())
}

// Unwrap gives the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// Is matches the kind.
func (e *StoreError) Is(target error) bool { return target == e.Kind }

// StateError is an ErrState with its reason in words.
type StateError struct{ Why string }

func (e *StateError) Error() string { return oneLine(e.Why) }

// Is makes a StateError an ErrState.
func (e *StateError) Is(target error) bool { return target == ErrState }

// Refusal is the answer "no" to a claim: a skip, a normal outcome. It says which
// rule of the claim table refused, and who stands in the way. Get it with
// errors.As; nothing else has this type.
type Refusal struct {
	Reason    Reason
	Namespace string
	Job       string
	Key       string
	Lock      LockName
	Holder    Holder
	RetryAt   time.Time  // ReasonRetryNotDue: when the retry is due, by the store's clock
	At        time.Time  // when this was decided, by the store's clock
	Closed    []Run      // runs whose owners were found dead on the way, and that were closed
	Delivered []Delivery // ends of earlier owners that were delivered on the way
	Count     int64      // how often this refusal, equal in key, reason and holder, has been recorded; 0: not recorded
}

func (r *Refusal) Error() string {
	name := r.Key
	if name == "" {
		name = r.Job
	}
	if name == "" {
		name = r.Lock.Name()
	}
	msg := fmt.Sprintf("%s skipped: %s", name, r.Reason)
	if !r.RetryAt.IsZero() {
		msg += " until " + r.RetryAt.Format(time.RFC3339)
	}
	if h := r.Holder.String(); h != "" {
		msg += " (" + h + ")"
	}
	return msg
}

// Failure is the error of a job that ran and failed. A function given to
// Runner.Do may return one to say more than an ordinary error can; any other
// error becomes a Failure with ReasonExit, and so does what a Runner.Do inside of it returned:
// that another job was stopped is no reason not to retry this one. A Reason of one's own is up to
// MaxReason bytes of what can be printed; any other counts as ReasonExit.
type Failure struct {
	Reason   Reason
	ExitCode *int
	Signal   string // "SIGKILL"
	Void     bool   // the job was never started, as for want of a process: it costs no retry, and may start again at once
	Err      error

	// RetryLater leaves the retry to a later start, as Job.RetryLater does: whoever
	// started the job has been told to stop, say.
	RetryLater bool

	done bool // Runner.Do has returned it: it tells of that job, and of none that it was started in
}

func (f *Failure) Error() string {
	if f.Err != nil {
		return f.Err.Error()
	}
	switch {
	case f.Signal != "":
		return fmt.Sprintf("%s: ended by %s", f.Reason, f.Signal)
	case f.ExitCode != nil:
		return fmt.Sprintf("%s: status %d", f.Reason, *f.ExitCode)
	}
	return string(f.Reason)
}

// Unwrap gives the cause, unless that is the refusal of another claim, made inside
// the job: this job ran and failed, and nobody may take it for skipped.
func (f *Failure) Unwrap() error {
	var r *Refusal
	if errors.As(f.Err, &r) {
		return nil
	}
	return f.Err
}

// NotRecordedError says that the work ended, but the store could not be told in time. Job
// holds the job's own failure, nil when it succeeded (exit 76, else the job's own
// code).
type NotRecordedError struct {
	Outcome Outcome
	Job     error
	Err     error
}

func (e *NotRecordedError) Error() string {
	return fmt.Sprintf("the job ended (%s), but its result is not recorded yet: %s", e.Outcome.Status, oneLine(e.Err.Error()))
}

// Unwrap gives the store's error and the job's own.
func (e *NotRecordedError) Unwrap() []error {
	if e.Job == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Job}
}

// oneLine keeps words of somebody else's on one line, and from moving the reader's
// cursor.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, strings.Join(strings.Fields(s), " "))
}
