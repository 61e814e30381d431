package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/schedule"
)

// Exit statuses that are not the job's own; see sysexits(3) for 64 to 78.
const (
	exitState       = 1
	exitUsage       = 64
	exitUnavailable = 69
	exitInternal    = 70
	exitCreate      = 73
	exitIO          = 74
	exitLost        = 75
	exitUnrecorded  = 76
	exitPermission  = 77
	exitConfig      = 78
	exitBlocked     = 79
)

// statusError ends the command with a status. A nil cause has been reported, or is
// the job's own business.
type statusError struct {
	status int
	cause  error
}

func (e *statusError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.cause.Error()
}

func (e *statusError) Unwrap() error { return e.cause }

// checkExit refuses codes that no process can end with.
func checkExit(flag string, code int) error {
	if code < 0 || code > 255 {
		return usage("%s %d: that is no exit code; use 0 to 255", flag, code)
	}
	return nil
}

// report says on one line what went wrong, and returns the exit status. This is the
// one place that maps errors to statuses.
func report(e *env, err error) int {
	if err == nil {
		return 0
	}
	var s *statusError
	if errors.As(err, &s) {
		if s.cause != nil {
			complain(e, s.cause)
		}
		return s.status
	}
	var wrong config.Errors
	if errors.As(err, &wrong) {
		for _, one := range wrong { // each is a line of its own in the file, too
			complain(e, one)
		}
		return exitConfig
	}
	complain(e, err)
	return statusOf(err)
}

func complain(e *env, err error) {
	msg := strings.Join(strings.Fields(told(e.redacted, err)), " ")
	var store *onerun.StoreError
	if !e.placesLocks && errors.As(err, &store) && strings.Contains(store.Do, lockDirFlag) {
		msg = strings.Replace(msg, store.Do, withoutLockDir(store.Do), 1)
	}
	msg = strings.TrimPrefix(msg, onerun.ErrUsage.Error()+": ")
	_, _ = fmt.Fprintf(e.err, "onerun: %s\n", printable(msg))
}

const lockDirFlag = "--lock-dir"

// withoutLockDir is a remedy for a command that doesn't take that flag: what else it says, or
// that the directory itself has to be put right.
func withoutLockDir(do string) string {
	var left []string
	for part := range strings.SplitSeq(do, ", ") {
		if !strings.Contains(part, lockDirFlag) {
			left = append(left, strings.TrimPrefix(part, "or "))
		}
	}
	if len(left) == 0 {
		return "put that right, or look at it: onerun doctor"
	}
	return strings.Join(left, ", or ")
}

func statusOf(err error) int {
	var unrecorded *onerun.NotRecordedError
	var badSpec *schedule.UsageError
	switch {
	case errors.As(err, &badSpec), errors.Is(err, onerun.ErrUsage):
		return exitUsage
	case errors.As(err, &unrecorded):
		return exitUnrecorded
	case errors.Is(err, onerun.ErrLost):
		return exitLost
	case errors.Is(err, onerun.ErrState), errors.Is(err, onerun.ErrNotFound):
		return exitState
	case errors.Is(err, onerun.ErrConfig):
		return exitConfig
	case errors.Is(err, onerun.ErrPermission):
		return exitPermission
	case errors.Is(err, onerun.ErrCreate):
		return exitCreate
	case errors.Is(err, onerun.ErrUnavailable):
		return exitUnavailable
	case errors.Is(err, onerun.ErrIO):
		return exitIO
	}
	return exitInternal
}

const exitErrors = `  64  wrong usage                         69  the store can't be reached in time
  70  a bug in onerun                     73  can't create: directory missing or read-only, a link
  74  I/O error: disk full, corrupt file  77  permission denied
  78  configuration: unknown store, newer schema
`

const exitHelp = "Exit codes: 0 done; 1 the state doesn't allow it, or there is no such run; else:\n" + exitErrors

// exitHelps are the exit codes of the commands that have more of them.
var exitHelps = map[string]string{
	"run": `Exit codes: the job's own; 128+N when signal N ended it; when it did not run, or not to its end:
   0  skipped: running, locked, succeeded, skipped, paused (-E changes this)
  79  blocked: failed, stale, retry_not_due (--blocked-code changes this)
 124  timed out       126  not executable      127  not found
  71  can't fork      75  lease lost, job stopped
  76  the job succeeded, but its result is not recorded yet
` + exitErrors,
	"lock": `Exit codes: the command's own; 128+N when signal N ended it; when it did not run, or not to its end:
   1  the lock is held (-E changes this)
 124  timed out       126  not executable      127  not found
  71  can't fork
` + exitErrors,
	"item": `Exit codes: the command's own; 128+N when signal N ended it; when it did not run:
   0  skipped: done already, or being done (-E changes this)
  79  blocked: stale, conflict (--blocked-code changes this)
  75  the run's lease is lost             76  it is done, but that is not recorded
 126  not executable                     127  not found
` + exitErrors,
	"check": `Exit codes: 0 this run owns its lock; 75 it doesn't; 1 it is to stop; else:
` + exitErrors,
	"report": `Exit codes: 0 done; 75 the run's lease is lost; else:
` + exitErrors,
	"rerun": "Exit codes: 0 done; 1 the state doesn't allow it, or there is no such run; a command's own; else:\n" + exitErrors,
	"doctor": `Exit codes: 0 no danger was found, and with --strict no warning; with --checklist: no bad answer
   1  a danger, with --strict a warning; with --checklist a bad answer
` + exitErrors,
	"verify": `Exit codes: 0 all of it holds
   1  a check failed
 128+N  ended by signal N
` + exitErrors,
	"import": `Exit codes: 0 all is translated; 1 something is not, and the output has the rest; else:
` + exitErrors,
	"stale": "Exit codes: 0 done, or with --exit-code: no suspects; 1 with --exit-code: there are suspects; else:\n" + exitErrors,
}

// exitHelpOf are the exit codes of a command.
func exitHelpOf(name string) string {
	if text, ok := exitHelps[name]; ok {
		return text
	}
	return exitHelp
}
