package sqlite

import (
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// view is what was seen of a lock: by holding it, by finding it held, or by looking.
type view struct {
	held       bool           // somebody holds it; false: nobody does, or we do
	unreadable bool           // held by a file that nobody can read: until `onerun unlock`
	note       *filelock.Note // what its last owner noted; nil: nothing readable
	liveness   onerun.Liveness
	void       bool // the note's job never started
	evidence   string
	path       string         // the file that says so; of a look only
	left       *filelock.Left // an end that an earlier owner could not tell
}

func viewOf(l *filelock.Lock) view {
	return view{note: l.Previous, liveness: l.Verdict.Liveness, void: l.Verdict.Void, evidence: l.Verdict.Evidence, left: l.Left}
}

// fate is what can be said of the work of a RUNNING run.
type fate struct {
	liveness  onerun.Liveness
	stale     bool            // nobody runs it any more, but its end is not proven
	outcome   *onerun.Outcome // its end was seen, and noted, but not told to the ledger
	void      bool            // it never started
	decidable bool            // unknown, but its worker is gone for certain: a person may decide
	evidence  string
}

// fate judges a lock's last owner by the note alone.
func (v view) fate() fate {
	if v.unreadable {
		return fate{liveness: onerun.Unknown, stale: true, evidence: v.evidence}
	}
	if v.held && v.liveness == onerun.Unknown { // by a file that nobody can prove dead
		return fate{liveness: onerun.Unknown, stale: true, evidence: v.evidence}
	}
	if v.held {
		evidence := "its lock is held" + detail(v.evidence)
		if strings.HasPrefix(v.evidence, "its lock is held") { // said already
			evidence = v.evidence
		}
		return fate{liveness: onerun.Alive, evidence: evidence}
	}
	f := fate{liveness: v.liveness, void: v.void, evidence: v.evidence}
	f.stale = f.liveness == onerun.Unknown
	return f
}

// fateOf judges a RUNNING run. Proof of death needs the lock file of this host to
// name that owner: a note that is missing, or that names another, says nothing of
// the run's process group. Then only an earlier boot, or a worker that was its own
// work, is proof; a worker that is gone without it leaves the run to a person.
func (v view) fateOf(r *runRow) fate {
	if v.held {
		return v.fate()
	}
	if out := v.outcomeOf(r); out != nil {
		return fate{liveness: onerun.Dead, outcome: out, evidence: "its end was noted before the ledger could be told"}
	}
	if n := v.note; n != nil && n.RunID == r.RunID && n.Owner == r.Owner && n.Attempt == r.Attempt {
		return v.fate()
	}
	j := filelock.JudgeFree(workerNote(r.Worker, filelock.StateInProcess)) // of the worker alone
	f := fate{liveness: j.Liveness, evidence: "its lock file doesn't name it; " + j.Evidence}
	if j.Liveness == onerun.Dead && !r.inProcess && r.Worker.Boot == filelock.ThisWorker("").Boot {
		f.liveness, f.decidable = onerun.Unknown, true
	}
	f.stale = f.liveness == onerun.Unknown
	return f
}

// outcomeOf finds the noted end of a run: its own note's, or one that a later owner
// carries on because it could not be told to the ledger.
func (v view) outcomeOf(r *runRow) *onerun.Outcome {
	is := func(owner, runID string, attempt int) bool {
		return owner == r.Owner && runID == r.RunID && attempt == r.Attempt
	}
	if n := v.note; n != nil && n.Outcome != nil && is(n.Owner, n.RunID, n.Attempt) {
		out := n.Outcome.Outcome()
		return &out
	}
	left := v.left
	if left == nil && v.note != nil {
		left = v.note.Left
	}
	if left != nil && is(left.Owner, left.RunID, left.Attempt) {
		out := left.Outcome.Outcome()
		return &out
	}
	return nil
}

// workerNote is a note that names a worker.
func workerNote(w onerun.Worker, s string) filelock.Note {
	return filelock.Note{
		Host: w.Host, Machine: w.Machine, Boot: w.Boot, PIDNS: w.PIDNS, TimeNS: w.TimeNS, PID: w.PID, StartTicks: w.StartTicks, State: s,
	}
}

func detail(s string) string {
	if s == "" {
		return ""
	}
	return " (" + strings.TrimSpace(s) + ")"
}

// end is how a run with this fate is to be closed by the machine, and whether it
// may be: nil for a run that is alive, unknown, or a person's to decide.
func (f fate) end(policy onerun.OnCrash) *onerun.Outcome {
	switch {
	case f.outcome != nil:
		return f.outcome
	case f.liveness != onerun.Dead || policy == onerun.CrashManual:
		return nil
	case f.void:
		return &onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonOwnerDied, Void: true, Error: "the worker died before the job was started"}
	}
	return &onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonOwnerDied, Error: onerun.CutError(fmt.Sprintf("the worker died: %s", f.evidence))}
}
