package postgres_test

import (
	"syscall"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestDecisionsSurvive: what a person was told is decided, and the late end that its
// deliverer forgets from then on, are there after a crash of the server, even where the
// settings would let it forget.
func TestDecisionsSurvive(t *testing.T) {
	t.Parallel()
	server, err := newServer("-c", "synchronous_commit=off", "-c", "wal_writer_delay=10s", "-c", "wal_writer_flush_after=0")
	must(t, err, "start a server")
	stopsAfter(t, server)
	s := open(t, server.URL("postgres", "schema", "onerun"))
	who := onerun.Who{By: "ann", Reason: "because"}
	running := granted(t, s, claimOf("delivered", "2026-09-15"))
	failed := granted(t, s, claimOf("approved", "2026-09-15"))
	must(t, s.Finish(soon(t), failed.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}), "finish")
	run := detail(t, s, failed.Lease.RunID).Run
	for what, decide := range map[string]func() error{
		"a late end": func() error {
			_, err := s.Deliver(soon(t), running.Lease, onerun.Outcome{Status: onerun.Succeeded})
			return err
		},
		"an approval": func() error {
			_, err := s.Approve(soon(t), onerun.ApprovalRequest{Namespace: run.Namespace, RunID: run.RunID, Expect: onerun.Expected(run), Who: who})
			return err
		},
		"a pause": func() error {
			return s.Pause(soon(t), onerun.PauseRequest{Namespace: run.Namespace, Job: "paused", Who: who})
		},
		"a cancelled date": func() error {
			_, err := s.Resolve(soon(t), onerun.Resolution{Namespace: run.Namespace, Job: "cancelled", Partition: "2026-09-15", As: onerun.Skipped, Who: who})
			return err
		},
	} {
		must(t, decide(), what)
		server.Stop(syscall.SIGQUIT)
		must(t, server.Start(), "start the server again")
	}
	refused(t, s, claimOf("delivered", "2026-09-15"), onerun.RefusedSucceeded)
	granted(t, s, claimOf("approved", "2026-09-15"))
	refused(t, s, claimOf("paused", "2026-09-15"), onerun.RefusedPaused)
	refused(t, s, claimOf("cancelled", "2026-09-15"), onerun.RefusedSkipped)
}
