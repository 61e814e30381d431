package hostlock_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// TestUnclaimed: a run without a claim has no token and no lease, and keeps its lock on this
// host. Its end waits here; until it is delivered this host refuses the key, and nothing else.
func TestUnclaimed(t *testing.T) {
	for end, reason := range map[onerun.Status]onerun.Reason{
		onerun.Succeeded: onerun.RefusedSucceeded, onerun.Failed: onerun.RefusedFailed, onerun.Skipped: onerun.RefusedSkipped,
	} {
		h := newHost(t)
		c := claimOf("pay", "a")
		h.unavailable(h, c)
		s := h.without()
		c.Owner, c.RunID = onerun.NewID(), onerun.NewRunID(time.Now())
		g := h.granted(s, c)
		if g.Lease.Token != 0 || g.Lease.TTL != 0 || g.Lease.RunID != c.RunID || g.Run.Status != onerun.Running || g.LockPath == "" {
			t.Fatalf("granted %+v", g)
		}
		if again := h.granted(s, c); !again.Adopted || again.Lease != g.Lease {
			t.Errorf("the same claim again: %+v", again)
		}
		h.refused(s, claimOf("pay", "a"), onerun.RefusedRunning)
		h.refused(s, claimOf("pay", "b"), onerun.RefusedLocked)
		h.refused(s, claimOf("pay", ""), onerun.RefusedLocked)
		out := onerun.Outcome{Status: end, Output: &onerun.Output{Text: "it printed this", Total: 15}}
		if err := s.Finish(soon(t), g.Lease, out); !errors.Is(err, onerun.ErrUnavailable) {
			t.Fatalf("finish: %v", err)
		}
		h.refused(s, claimOf("pay", "a"), onerun.RefusedRunning) // it still tries
		h.Leave(g.Lease)
		if n := h.note("job/pay"); n != nil {
			t.Errorf("left in the lock file: %+v", n)
		}
		r := h.refused(s, claimOf("pay", "a"), reason)
		if r.Holder.RunID != c.RunID || !strings.Contains(r.Holder.Detail, "onerun flush") {
			t.Errorf("refused with %+v", r.Holder)
		}
		other := claimOf("pay", "b")
		if err := h.runs(other, success); !errors.Is(err, onerun.ErrUnavailable) {
			t.Fatalf("another key: %v", err)
		}
		h.unavailable(h, claimOf("pay", "a"))
		if len(h.files()) != 2 {
			t.Fatalf("waiting: %v", h.files())
		}

		h.remote.away.Store(false)
		all, err := h.Flush(soon(t))
		if err != nil || len(all) != 2 || all[0].Run.RunID != c.RunID || all[0].Run.Status != end || all[1].Run.RunID != other.RunID || !all[0].Unclaimed {
			t.Fatalf("flush: %+v, error %v", all, err)
		}
		if got, err := h.remote.Output(soon(t), c.Namespace, c.RunID, 1); err != nil || got.Text != "it printed this" {
			t.Errorf("output: %+v, error %v", got, err)
		}
		if len(h.files()) != 0 {
			t.Errorf("left: %v", h.files())
		}
		if all, err := h.Flush(soon(t)); err != nil || len(all) != 0 {
			t.Errorf("flush again: %+v, error %v", all, err)
		}
		h.refused(h, claimOf("pay", "a"), reason)
	}
}

// TestUnclaimedFinish: a store that is back when the job has ended has the run at once.
func TestUnclaimedFinish(t *testing.T) {
	h := newHost(t)
	s := h.without()
	c := claimOf("pay", "a")
	g := h.granted(s, c)
	if err := s.Finish(soon(t), g.Lease, exited); !errors.Is(err, onerun.ErrUnavailable) || len(h.late) != 0 {
		t.Fatalf("finish: %v, told %v", err, h.late)
	}
	h.remote.away.Store(false)
	if err := s.Finish(soon(t), g.Lease, exited); err != nil {
		t.Fatal(err)
	}
	if len(h.late) != 1 || h.late[0].Kind != onerun.DeliveredApplied || len(h.files()) != 0 || h.note("job/pay") != nil {
		t.Errorf("told %+v, left %v and %+v", h.late, h.files(), h.note("job/pay"))
	}
	if d := h.detail("pay", "a"); d.Run.Status != onerun.Failed || d.Run.Owner != c.Owner {
		t.Errorf("recorded %+v", d.Run)
	}
	if err := s.Finish(soon(t), g.Lease, exited); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("finish again: %v", err)
	}
}

// TestUnclaimedCan: what needs a claim is not there, and nothing waits for that.
func TestUnclaimedCan(t *testing.T) {
	h := newHost(t)
	s := h.without()
	g := h.granted(s, claimOf("pay", "a"))
	h.remote.away.Store(false) // it has no claim all the same
	n := int64(1)
	_, beat := s.Heartbeat(soon(t), g.Lease)
	_, item := s.BeginItem(soon(t), onerun.ItemClaim{Lease: g.Lease, Name: "x", Owner: onerun.NewID()})
	for what, err := range map[string]error{
		"check": beat, "item": item, "end of an item": s.EndItem(soon(t), onerun.ItemEnd{}), "report": s.Report(soon(t), g.Lease, onerun.Progress{Processed: &n}),
	} {
		if !errors.Is(err, onerun.ErrUnavailable) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	manual, alone, inLine := claimOf("a", ""), claimOf("", ""), claimOf("a", "")
	manual.OnCrash, alone.Lock, inLine.Order = onerun.CrashManual, "name/x", onerun.OrderFIFO
	for _, c := range []onerun.Claim{manual, alone, inLine, {}} {
		if _, err := s.Claim(soon(t), c); !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("claim %+v: %v", c, err)
		}
	}
}

// TestUnclaimedDelivered: the next claim on the host delivers, whatever it is for; that of the
// same key is decided by what it has delivered.
func TestUnclaimedDelivered(t *testing.T) {
	h := newHost(t)
	if err := h.runs(claimOf("pay", "a"), success); !errors.Is(err, onerun.ErrUnavailable) {
		t.Fatal(err)
	}
	h.unavailable(h, claimOf("other", ""))
	h.remote.away.Store(false)
	g := h.granted(h, claimOf("other", ""))
	if len(g.Delivered) != 1 || g.Delivered[0].Run.Job != "pay" || !g.Delivered[0].Unclaimed || len(h.files()) != 0 {
		t.Errorf("delivered %+v, left %v", g.Delivered, h.files())
	}
	h.refused(h, claimOf("pay", "a"), onerun.RefusedSucceeded)

	h.remote.away.Store(true)
	if err := h.runs(claimOf("pay", "b"), success); !errors.Is(err, onerun.ErrUnavailable) {
		t.Fatal(err)
	}
	h.remote.away.Store(false)
	if r := h.refused(h, claimOf("pay", "b"), onerun.RefusedSucceeded); len(r.Delivered) != 1 {
		t.Errorf("delivered %+v", r.Delivered)
	}
}

// TestUnclaimedNotForgotten: a key whose run could not be delivered before isn't claimed, and
// another one is.
func TestUnclaimedNotForgotten(t *testing.T) {
	for hiccups, delivered := range []int{1, 1, 0} {
		h := newHost(t)
		_ = h.runs(claimOf("pay", "a"), success)
		h.remote.away.Store(false)
		h.remote.hiccups.Store(int32(hiccups)) // before the claim's own lock is had, and then
		if delivered == 0 {
			h.unavailable(h, claimOf("pay", "a"))
			h.remote.hiccups.Store(1)
			h.granted(h, claimOf("pay", "b"))
			continue
		}
		if r := h.refused(h, claimOf("pay", "a"), onerun.RefusedSucceeded); len(r.Delivered) != 1 || len(h.files()) != 0 {
			t.Errorf("after %d hiccups: delivered %+v, left %v", hiccups, r.Delivered, h.files())
		}
	}
}

// TestUnclaimedTwice: a file that stays is delivered again, which changes nothing.
func TestUnclaimedTwice(t *testing.T) {
	h := newHost(t)
	_ = h.runs(claimOf("pay", "a"), success)
	file := h.files()[0]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h.remote.away.Store(false)
	h.flushed(onerun.DeliveredApplied)
	before := h.detail("pay", "a")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	h.flushed(onerun.DeliveredBefore)
	if after := h.detail("pay", "a"); len(after.Attempts) != len(before.Attempts) || after.Run.Status != before.Run.Status || len(h.files()) != 0 {
		t.Errorf("it was %+v, and is %+v", before, after)
	}
}

// TestUnclaimedKept: a key that others have run meanwhile may have run twice, and whoever
// delivers is told.
func TestUnclaimedKept(t *testing.T) {
	h := newHost(t)
	s := h.without()
	g := h.granted(s, claimOf("pay", "a"))
	h.remote.away.Store(false)
	there, err := h.remote.Claim(soon(t), claimOf("pay", "a")) // by another host
	if err == nil {
		err = h.remote.Finish(soon(t), there.Lease, success)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Finish(soon(t), g.Lease, exited); err != nil {
		t.Fatal(err)
	}
	if len(h.late) != 1 || h.late[0].Kind != onerun.DeliveredKept || !strings.Contains(h.late[0].Words(), onerun.MayHaveRunTwice) {
		t.Errorf("told %+v", h.late)
	}
	if d := h.detail("pay", "a"); d.Run.Status != onerun.Succeeded {
		t.Errorf("the run is %+v", d.Run)
	}
}

// TestUnclaimedAfterLostAnswer: the claim that came before may have been granted. Nothing was
// executed under it, so it is void, and the run is no second one.
func TestUnclaimedAfterLostAnswer(t *testing.T) {
	for _, partition := range []string{"a", ""} {
		h := newHost(t)
		h.remote.away.Store(false)
		h.remote.deaf.Store(true)
		lost := claimOf("pay", partition)
		h.unavailable(h, lost)
		if err := h.runs(claimOf("pay", partition), success); !errors.Is(err, onerun.ErrUnavailable) {
			t.Fatal(err)
		}
		h.remote.away.Store(false)
		d := h.flushed(onerun.DeliveredApplied)
		runs, err := h.remote.Store.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace, Job: "pay", Statuses: []onerun.Status{onerun.Running}})
		if err != nil || len(runs) != 0 || d.Run.Status != onerun.Succeeded {
			t.Errorf("%q: delivered %+v; RUNNING %v, error %v", partition, d, runs, err)
		}
		if partition != "" {
			if all := h.detail("pay", "a").Attempts; len(all) != 2 || !all[0].Void || all[1].Status != onerun.Succeeded {
				t.Errorf("attempts %+v", all)
			}
		}
	}
}

// dies leaves a lock file as an owner does that has died, and lets the work of another process
// stand in it as its own.
func (h *host) dies(c onerun.Claim, n filelock.Note, work *exec.Cmd) {
	h.t.Helper()
	d, err := filelock.Open(h.dir, filelock.Options{Remote: true})
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	lock, held, err := d.Acquire(soon(h.t), filelock.Request{Namespace: c.Namespace, Lock: c.Lock, Owner: c.Owner})
	if err != nil || held != nil {
		h.t.Fatalf("held %v, error %v", held, err)
	}
	gone := exec.Command("true")
	if err := gone.Start(); err != nil {
		h.t.Fatal(err)
	}
	at, err := procfs.ReadStat(gone.Process.Pid)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := gone.Wait(); err != nil {
		h.t.Fatal(err)
	}
	me := filelock.ThisWorker("")
	n.RunID, n.Attempt, n.Host, n.Machine, n.Boot, n.PIDNS, n.TimeNS = c.RunID, 1, me.Host, me.Machine, me.Boot, me.PIDNS, me.TimeNS
	n.PID, n.StartTicks = gone.Process.Pid, at.StartTicks
	if work != nil {
		if at, err = procfs.ReadStat(work.Process.Pid); err != nil {
			h.t.Fatal(err)
		}
		n.State, n.Group, n.GroupStartTicks = filelock.StateRunning, work.Process.Pid, at.StartTicks
	}
	if err := errors.Join(lock.Write(n), lock.Release()); err != nil {
		h.t.Fatal(err)
	}
}

// TestUnclaimedBeside: what this host knows of the owner before is enough to refuse, and where
// only the store could say, the run doesn't begin.
func TestUnclaimedBeside(t *testing.T) {
	work := exec.Command("sleep", "1000")
	work.SysProcAttr = newGroup
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Process.Kill(); _ = work.Wait() }()
	ended := filelock.NewOutcome(success)
	for what, x := range map[string]struct {
		note    filelock.Note
		work    *exec.Cmd
		keyed   onerun.Reason // "": granted
		unkeyed onerun.Reason
	}{
		"its work lives":           {note: filelock.Note{Token: 1}, work: work, keyed: onerun.RefusedLocked, unkeyed: onerun.RefusedLocked},
		"an end":                   {note: filelock.Note{Token: 1, State: filelock.StateEnded, Outcome: &ended}, keyed: "away", unkeyed: "away"},
		"died in the middle":       {note: filelock.Note{Token: 1, State: filelock.StateInProcess}, keyed: "away"},
		"likewise, of manual":      {note: filelock.Note{Token: 1, State: filelock.StateInProcess, Manual: true}, keyed: onerun.RefusedStale, unkeyed: onerun.RefusedStale},
		"never started":            {note: filelock.Note{Token: 1, State: filelock.StateStarting}},
		"was asking":               {note: filelock.Note{State: filelock.StateStarting}},
		"without a claim, lives":   {note: filelock.Note{Unclaimed: true}, work: work, keyed: onerun.RefusedLocked, unkeyed: onerun.RefusedLocked},
		"without a claim, ended":   {note: filelock.Note{Unclaimed: true, State: filelock.StateEnded, Outcome: &ended}},
		"proven by an asking note": {note: filelock.Note{State: filelock.StateStarting, Proven: []filelock.Proven{{Owner: onerun.NewID()}}}, keyed: "away"},
		"likewise, void":           {note: filelock.Note{State: filelock.StateStarting, Proven: []filelock.Proven{{Owner: onerun.NewID(), Void: true, Manual: true}}}},
	} {
		for partition, want := range map[string]onerun.Reason{"a": x.keyed, "": x.unkeyed} {
			h := newHost(t)
			h.dies(claimOf("pay", "z"), x.note, x.work)
			before := h.note("job/pay")
			_, err := h.without().Claim(soon(t), claimOf("pay", partition))
			var r *onerun.Refusal
			switch {
			case want == "" && err == nil, want == "away" && errors.Is(err, onerun.ErrUnavailable), errors.As(err, &r) && r.Reason == want:
			default:
				t.Errorf("%s, %q: %v, want %q", what, partition, err, want)
			}
			if after := h.note("job/pay"); want != "" && (after == nil || after.Owner != before.Owner) {
				t.Errorf("%s, %q: the note became %+v", what, partition, after)
			}
		}
	}
}

// TestUnclaimedDies: a run whose owner has died, and that nobody has seen end, has failed; one
// that never began may begin again.
func TestUnclaimedDies(t *testing.T) {
	for _, began := range []bool{true, false} {
		h := newHost(t)
		c := claimOf("pay", "a")
		h.begins(c, began)
		if !began {
			h.remote.away.Store(false)
			d := h.flushed(onerun.DeliveredApplied)
			if d.Run.Status != onerun.Failed || !h.detail("pay", "a").Attempts[0].Void || h.note("job/pay") != nil {
				t.Errorf("delivered %+v, left %+v", d, h.note("job/pay"))
			}
			h.granted(h, claimOf("pay", "a"))
			continue
		}
		h.refused(h.without(), claimOf("pay", "a"), onerun.RefusedFailed)
		h.unavailable(h, claimOf("pay", "a"))
		h.remote.away.Store(false)
		if d := h.flushed(onerun.DeliveredApplied); d.Run.Reason != onerun.ReasonOwnerDied || h.detail("pay", "a").Attempts[0].Void {
			t.Errorf("delivered %+v", d)
		}
	}
}

// begins is a run whose owner dies.
func (h *host) begins(c onerun.Claim, began bool) {
	h.t.Helper()
	s := h.without()
	g := h.granted(s, c)
	if began {
		if err := s.(onerun.Noter).NoteStart(g.Lease); err != nil {
			h.t.Fatal(err)
		}
	}
	h.Leave(g.Lease)
	n := *h.note(c.Lock)
	h.dies(c, n, nil)
}

// TestUnclaimedElsewhere: a key that runs without a claim under another lock is not claimed, as
// soon as the store can be asked again; its lock is listed.
func TestUnclaimedElsewhere(t *testing.T) {
	h := newHost(t)
	s := h.without()
	c := claimOf("pay", "a")
	c.Lock = "name/shared"
	g := h.granted(s, c)
	h.refused(s, claimOf("pay", "a"), onerun.RefusedRunning)
	h.remote.away.Store(false)
	r := h.refused(h, claimOf("pay", "a"), onerun.RefusedLocked)
	if r.Holder.RunID != c.RunID {
		t.Errorf("refused with %+v", r.Holder)
	}
	h.refused(h, c2(c), onerun.RefusedLocked)
	locks, err := h.Locks(soon(t), c.Namespace)
	if err != nil || len(locks) != 1 || locks[0].Lock != c.Lock || locks[0].Holder.RunID != c.RunID || locks[0].Liveness != onerun.Alive {
		t.Errorf("locks %+v, error %v", locks, err)
	}
	if all, err := h.Flush(soon(t)); err != nil || len(all) != 0 {
		t.Errorf("flush while it runs: %+v, error %v", all, err)
	}
	if err := s.Finish(soon(t), g.Lease, success); err != nil {
		t.Fatal(err)
	}
	h.refused(h, claimOf("pay", "a"), onerun.RefusedSucceeded)
}

// c2 is the same claim by another owner.
func c2(c onerun.Claim) onerun.Claim {
	c.Owner, c.RunID = onerun.NewID(), onerun.NewRunID(time.Now())
	return c
}

// TestUnclaimedExplained: explain foresees what a claim would deliver first.
func TestUnclaimedExplained(t *testing.T) {
	h := newHost(t)
	_ = h.runs(claimOf("pay", "a"), success)
	h.remote.away.Store(false)
	r, err := h.Explain(soon(t), claimOf("pay", "a"))
	if err != nil || r == nil || r.Reason != onerun.RefusedSucceeded {
		t.Errorf("explained %v, error %v", r, err)
	}
	if r, err := h.Explain(soon(t), claimOf("pay", "b")); r != nil || err != nil {
		t.Errorf("another key: %v, error %v", r, err)
	}
	if len(h.files()) != 1 {
		t.Error("to explain has delivered it")
	}
}

// TestUnclaimedOfAnotherStore: stores that share a lock directory deliver their own runs alone, and
// say that others wait.
func TestUnclaimedOfAnotherStore(t *testing.T) {
	h := newHost(t)
	_ = h.runs(claimOf("pay", "a"), success)
	mine := h.Store
	h.open("another")
	h.remote.away.Store(false)
	if all, err := h.Flush(soon(t)); err != nil || len(all) != 0 {
		t.Fatalf("flush: %+v, error %v", all, err)
	}
	if all, err := h.Spooled(soon(t)); err != nil || len(all) != 1 || all[0].Store != "store" {
		t.Errorf("waiting: %+v, error %v", all, err)
	}
	h.granted(h, claimOf("pay", "a"))
	h.Store = mine
	g := h.granted(h, claimOf("other", "")) // by the mark that nobody has taken away
	if len(g.Delivered) != 1 {
		t.Errorf("delivered %+v", g.Delivered)
	}
}

// TestUnclaimedFlushGoesOn: a run that can't be judged keeps no other one back.
func TestUnclaimedFlushGoesOn(t *testing.T) {
	h := newHost(t)
	bad := claimOf("bad", "")
	h.begins(bad, true)
	_ = h.runs(claimOf("pay", "a"), success)
	lock := filepath.Join(h.dir, filelock.FileName(bad.Namespace, bad.Lock)+".lock")
	if err := errors.Join(os.Remove(lock), os.Mkdir(lock, 0o700)); err != nil {
		t.Fatal(err)
	}
	h.remote.away.Store(false)
	all, err := h.Flush(soon(t))
	if err != nil || len(all) != 2 || !errors.Is(all[0].Err, onerun.ErrCreate) || all[1].Err != nil || all[1].Kind != onerun.DeliveredApplied {
		t.Errorf("flush: %+v, error %v", all, err)
	}
}

// TestUnclaimedUnreadable: a file that can't be understood keeps its lock from being taken, since
// it may be of any key, and no other one.
func TestUnclaimedUnreadable(t *testing.T) {
	h := newHost(t)
	_ = h.runs(claimOf("pay", "a"), success)
	if err := os.WriteFile(h.files()[0], []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.without().Claim(soon(t), claimOf("pay", "b")); !errors.Is(err, onerun.ErrIO) {
		t.Errorf("without a claim: %v", err)
	}
	h.granted(h.without(), claimOf("other", "b"))
	h.remote.away.Store(false)
	if _, err := h.Claim(soon(t), claimOf("pay", "b")); !errors.Is(err, onerun.ErrIO) {
		t.Errorf("with one: %v", err)
	}
	h.granted(h, claimOf("third", "b"))
	all, err := h.Flush(soon(t))
	if err != nil || len(all) != 1 || !errors.Is(all[0].Err, onerun.ErrIO) {
		t.Errorf("flush: %+v, error %v", all, err)
	}
}

var newGroup = &syscall.SysProcAttr{Setpgid: true}
