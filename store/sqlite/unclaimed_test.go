package sqlite_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// TestUnclaimedOfAnotherStore: the lock files are those of every store on the host. A run of
// another store that has no claim keeps its lock as long as its work lives; its end is none of
// this ledger's business, which knows nothing of it by its token either.
func TestUnclaimedOfAnotherStore(t *testing.T) {
	b := newBed(t)
	c := claimOf("settle", "2026-09-15")
	b.finish(b.granted(claimOf("settle", "2026-09-14")), onerun.Succeeded) // a token was given
	work := exec.Command("sleep", "1000")
	work.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Process.Kill(); _ = work.Wait() }()
	at, err := procfs.ReadStat(work.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	w := filelock.ThisWorker("")
	n := filelock.Note{
		Kind: "job", Name: "settle", Namespace: onerun.DefaultNamespace, Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()), Attempt: 1,
		Unclaimed: true, Flock: true, Host: w.Host, Machine: w.Machine, Boot: w.Boot, PIDNS: w.PIDNS, TimeNS: w.TimeNS, PID: w.PID, StartTicks: w.StartTicks - 1,
		State: filelock.StateRunning, Group: work.Process.Pid, GroupStartTicks: at.StartTicks,
	}
	put := func() {
		t.Helper()
		text, err := json.Marshal(n)
		if err == nil {
			err = os.WriteFile(b.LockPath(c.Lock), append(text, '\n'), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put()
	b.refused(c, onerun.RefusedLocked)
	out := filelock.NewOutcome(onerun.Outcome{Status: onerun.Succeeded})
	n.State, n.Outcome = filelock.StateEnded, &out
	put()
	if all, err := b.Flush(soon(t)); err != nil || len(all) != 0 {
		t.Errorf("flush: %+v, error %v", all, err)
	}
	b.finish(b.granted(c), onerun.Succeeded)
}
