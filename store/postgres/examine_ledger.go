package postgres

import (
	"context"
	_ "embed" // queries
	"fmt"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

//go:embed sql/examine_chains.sql
var sqlExamineChains string

// chains reckons every event's hash again. A row that was changed, moved, inserted, or whose
// forerunner was removed shows. After it the chain goes on from the hash that stands there,
// so that one fault is one row, or two.
func (x *examination) chains() {
	const check = "event-chain"
	var rows, chains, broken int64
	var faults []string
	limit := x.third()
	err := x.in(limit, func(t *tx) error { return t.row(sqlExamineChains).Scan(&rows, &chains, &broken, &faults) })
	switch {
	case code(err) == codeCanceled:
		x.add(check, onerun.FindingUnknown, fmt.Sprintf("to look at all events takes longer than %s", limit.Round(100*time.Millisecond)), "give it more time with --store-timeout")
	case !x.unless(err, check):
	case broken > 0:
		if broken > int64(len(faults)) {
			faults = append(faults, fmt.Sprintf("and %d more rows", broken-int64(len(faults))))
		}
		x.add(check, onerun.FindingDanger, strings.Join(faults, "; ")+": it was changed, moved or inserted, or one before it was removed",
			"find out who can write to "+quoted(x.schema)+".onerun_event; a backup shows what stood there")
	default:
		x.add(check, onerun.FindingOK, fmt.Sprintf("%d events in %d chains, each follows from the one before it", rows, chains), "")
	}
}

// stale looks for suspects.
func (x *examination) stale() {
	const check = "stale-runs"
	var suspects []onerun.Run
	running := 0
	err := x.in(0, func(t *tx) error {
		suspects = nil
		found, err := t.runs("WHERE status = 'RUNNING' ORDER BY started_at")
		running = len(found)
		for _, r := range found {
			if run := r.Seen(); run.Stale {
				suspects = append(suspects, run)
			}
		}
		return err
	})
	if !x.unless(err, check) {
		return
	}
	for _, r := range suspects {
		x.add(check, onerun.FindingWarning, fmt.Sprintf("%s is RUNNING since %s: %s", r.Name(), r.StartedAt.Local().Format(time.DateTime), r.Evidence), "look at it: onerun stale; then onerun resolve KEY")
		x.about(r.Job)
	}
	x.fine(check, fmt.Sprintf("%d runs are RUNNING, none of them a suspect", running))
}

// JobNames lists the jobs that have runs, in the order of their names.
func (s *Store) JobNames(ctx context.Context, namespace string) (names []string, err error) {
	err = s.read(ctx, "list the jobs", func(t *tx) (err error) {
		names, err = t.JobNames(namespace)
		return err
	})
	return names, err
}
