// Package logline says what a log line about an observation holds: its level, and the fields of
// the documentation in their order. The command line's log and the library's are made of it, so
// that they say the same.
package logline

import (
	"log/slog"

	"github.com/onerun-dev/onerun"
)

// levels are the events that are not everyday ones.
var levels = map[string]slog.Level{
	onerun.EventHeartbeatFailed: slog.LevelWarn,
	onerun.EventClockStep:       slog.LevelWarn,
	onerun.EventLeaseLost:       slog.LevelError,
	onerun.EventTimeout:         slog.LevelWarn,
	onerun.EventStopped:         slog.LevelWarn,
	onerun.EventFailed:          slog.LevelError,
	onerun.EventTakenOver:       slog.LevelWarn,
	onerun.EventLateOutcome:     slog.LevelWarn,
	onerun.EventLockDeleted:     slog.LevelWarn,
	onerun.EventRetryLeft:       slog.LevelWarn,
}

// Level is the level of what happened. That a command under a lock alone failed is no news of
// onerun's, which only lent it the lock: flock(1) says nothing either.
func Level(o onerun.Observation) slog.Level {
	switch {
	case o.Refusal != nil && o.Refusal.Reason.Blocked():
		return slog.LevelWarn
	case o.Delivery != nil && o.Delivery.Kind == onerun.DeliveredKept:
		return slog.LevelError // a person has to look
	case o.Event == onerun.EventFailed && o.Run.RunID == "" && o.Outcome != nil &&
		(o.Outcome.Reason == onerun.ReasonExit || o.Outcome.Reason == onerun.ReasonSignal):
		return slog.LevelInfo
	}
	return levels[o.Event]
}

// Repeats reports whether a skip is one that others like it stand for already: equal ones are
// logged at counts 1, 2, 4, 8 …, since a flood must not drown the log.
func Repeats(o onerun.Observation) bool {
	r := o.Refusal
	return o.Event == onerun.EventSkipped && r != nil && r.Count > 0 && r.Count&(r.Count-1) != 0
}
