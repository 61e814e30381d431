package storetest

import (
	"fmt"
	"slices"

	"github.com/onerun-dev/onerun"
)

// invariants checks what must hold of a ledger whatever happened before.
func (t *trial) invariants(namespace string) {
	runs := t.runs(onerun.Query{Namespace: namespace})
	keys, running, tokens := map[string]string{}, map[onerun.LockName]onerun.Run{}, map[string]string{}
	for _, r := range runs {
		if k := r.Key(); k != "" {
			if other, ok := keys[k]; ok {
				t.failf("ledger: key %s has two runs, %s and %s", k, other, r.RunID)
			}
			keys[k] = r.RunID
		}
		if r.Status == onerun.Running {
			if other, ok := running[r.Lock]; ok {
				t.failf("ledger: two RUNNING runs under lock %s, %s and %s", r.Lock, other.RunID, r.RunID)
			}
			running[r.Lock] = r
		}
		if r.Attempt > 0 && r.Token != 0 { // what ran without its claim has none
			id := fmt.Sprintf("%s %d", r.Lock, r.Token)
			if other, ok := tokens[id]; ok {
				t.failf("ledger: token %d of lock %s was given to %s and to %s", r.Token, r.Lock, other, r.RunID)
			}
			tokens[id] = r.RunID
		}
		t.soundRun(r)
	}
	t.soundLocks(namespace, running)
}

func (t *trial) soundRun(r onerun.Run) {
	d, err := t.s.Detail(t.ctx, r.Namespace, r.RunID)
	t.must(err, "ledger: read run %s", r.RunID)
	if !sameExecution(r, d.Run) { // somebody may have delivered its end since it was listed
		r = t.listed(r)
		d, err = t.s.Detail(t.ctx, r.Namespace, r.RunID)
		t.must(err, "ledger: read run %s", r.RunID)
	}
	bad := func(format string, args ...any) {
		t.failf("ledger: run %s (%s, %s): %s", r.RunID, r.Name(), r.Status, fmt.Sprintf(format, args...))
	}
	switch {
	case !slices.Contains([]onerun.Status{onerun.Running, onerun.Succeeded, onerun.Failed, onerun.Skipped}, r.Status):
		bad("no such status")
	case len(d.Attempts) != r.Attempt && !(t.revived[r.RunID] && len(d.Attempts) < r.Attempt):
		bad("expected %d attempts, got %d", r.Attempt, len(d.Attempts))
	case (r.Status == onerun.Running) != r.FinishedAt.IsZero():
		bad("finished at %s", r.FinishedAt)
	case !r.NextRetryAt.IsZero() && (r.Status != onerun.Failed || r.Partition == ""):
		bad("has a retry at %s", r.NextRetryAt)
	case (r.Status == onerun.Running && t.h.Leases) == r.LeaseExpiresAt.IsZero():
		bad("lease expires at %s", r.LeaseExpiresAt)
	}
	earlier := r.Attempt - len(d.Attempts) // that a tombstone didn't know one by one
	for i, a := range d.Attempts {
		last := i == len(d.Attempts)-1
		switch {
		case a.Number != earlier+i+1:
			bad("expected attempt %d, got %d", earlier+i+1, a.Number)
		case a.Status == onerun.Running && !last:
			bad("attempt %d is RUNNING and not the last", a.Number)
		case (a.Status == onerun.Running) != a.FinishedAt.IsZero():
			bad("attempt %d is %s, finished at %s", a.Number, a.Status, a.FinishedAt)
		case last && (a.Owner != r.Owner || a.Token != r.Token || !a.StartedAt.Equal(r.StartedAt)):
			bad("its execution is not that of its last attempt")
		case last && (a.Status == onerun.Running) != (r.Status == onerun.Running):
			bad("its last attempt is %s", a.Status)
		}
	}
	t.soundApprovals(d, bad)
	for _, k := range d.Skips {
		if k.Count < 1 || k.LastAt.Before(k.FirstAt) && t.h.Advance == nil {
			bad("skip %s counted %d times, from %s to %s", k.Reason, k.Count, k.FirstAt, k.LastAt)
		}
	}
}

func (t *trial) soundApprovals(d onerun.Detail, bad func(string, ...any)) {
	spent := map[int]bool{}
	usable := 0
	for _, a := range d.Approvals {
		if a.UsedBy > 0 && spent[a.UsedBy] {
			bad("attempt %d spent two approvals", a.UsedBy)
		}
		spent[a.UsedBy] = true
		if a.UsedAt.IsZero() && a.ExpiresAt.IsZero() && a.Status == d.Run.Status && a.Attempt == d.Run.Attempt {
			usable++
		}
	}
	if usable > 1 {
		bad("%d approvals can be spent", usable)
	}
}

// listed is a run as the listing has it by now.
func (t *trial) listed(r onerun.Run) onerun.Run {
	runs := t.runs(onerun.Query{Namespace: r.Namespace, RunID: r.RunID})
	equal(t, len(runs), 1, "runs of id %s", r.RunID)
	return runs[0]
}

func sameExecution(a, b onerun.Run) bool { return a.Status == b.Status && a.Attempt == b.Attempt }

// soundLocks compares the listing of locks with RUNNING runs that were listed before it.
func (t *trial) soundLocks(namespace string, running map[onerun.LockName]onerun.Run) {
	held := map[onerun.LockName]string{}
	for _, l := range t.locks(namespace) {
		if _, ok := held[l.Lock]; ok {
			t.failf("ledger: lock %s is listed twice", l.Lock)
		}
		held[l.Lock] = ""
		if l.Run != nil {
			held[l.Lock] = l.Run.RunID
			equal(t, l.Run.Lock, l.Lock, "ledger: lock of the run that holds %s", l.Lock)
		}
	}
	for lock, r := range running {
		if held[lock] != r.RunID && sameExecution(r, t.listed(r)) { // it was RUNNING all the while
			t.failf("ledger: RUNNING run %s holds lock %s, but the listing of locks names %q", r.RunID, lock, held[lock])
		}
	}
}
