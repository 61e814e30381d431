package storetest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// view is what can be read of a namespace.
type view struct {
	Runs  []onerun.Detail
	Jobs  []onerun.JobState
	Locks []onerun.LockState
	Skips []onerun.Skip
}

// look reads the runs and jobs of the case's namespace, and the skips of the claims'
// keys. What is found out anew at each reading (evidence, liveness) is left out.
func (t *trial) look(claims ...onerun.Claim) view {
	var v view
	for _, r := range t.runs(onerun.Query{Namespace: t.ns}) {
		d := t.detail(r.RunID)
		v.Skips = append(v.Skips, d.Skips...)
		d.Skips = nil
		d.Run = still(d.Run)
		v.Runs = append(v.Runs, d)
	}
	for _, c := range claims {
		if c.Job != "" {
			v.Skips = append(v.Skips, t.skips(c)...)
		}
	}
	var err error
	v.Jobs, err = t.s.Jobs(t.ctx, t.ns)
	t.must(err, "list jobs")
	return v
}

// lookAll reads the locks too, for which some stores have to look at many files.
func (t *trial) lookAll(claims ...onerun.Claim) view {
	v := t.look(claims...)
	for _, l := range t.locks(t.ns) {
		l.Liveness, l.Evidence, l.Holder.Detail = "", "", ""
		if l.Run != nil {
			r := still(*l.Run)
			l.Run = &r
		}
		v.Locks = append(v.Locks, l)
	}
	return v
}

func still(r onerun.Run) onerun.Run {
	r.Stale, r.Liveness, r.Evidence, r.Skips = false, "", "", 0
	return r
}

// unchanged compares two views.
func (t *trial) unchanged(before, after view, by string) {
	if reflect.DeepEqual(before, after) {
		return
	}
	// They may still say the same: a time in another form, and nil for an empty list.
	b, err := json.MarshalIndent(before, "", " ")
	t.must(err, "write down what was read")
	a, err := json.MarshalIndent(after, "", " ")
	t.must(err, "write down what was read")
	if string(a) == string(b) {
		return
	}
	bl, al := strings.Split(string(b), "\n"), strings.Split(string(a), "\n")
	i := 0
	for i < len(bl) && i < len(al) && bl[i] == al[i] {
		i++
	}
	t.failf("%s must change nothing: expected %q, got %q", by, line(bl, i), line(al, i))
}

func line(lines []string, i int) string {
	if i >= len(lines) {
		return "(nothing more)"
	}
	return strings.TrimSpace(lines[i])
}

func (t *trial) runs(q onerun.Query) []onerun.Run {
	rs, err := t.s.Runs(t.ctx, q)
	t.must(err, "list runs")
	return rs
}

func (t *trial) run(runID string) onerun.Run {
	return t.detail(runID).Run
}

func (t *trial) detail(runID string) onerun.Detail {
	d, err := t.s.Detail(t.ctx, t.ns, runID)
	t.must(err, "read run %s", runID)
	equal(t, d.Run.RunID, runID, "id of the run that was read")
	return d
}

func (t *trial) skips(c onerun.Claim) []onerun.Skip {
	ks, err := t.s.Skips(t.ctx, c.Namespace, c.Job, c.Partition)
	t.must(err, "list skips of %s", nameOf(c))
	return ks
}

func (t *trial) locks(namespace string) []onerun.LockState {
	ls, err := t.s.Locks(t.ctx, namespace)
	t.must(err, "list locks")
	slices.SortFunc(ls, func(a, b onerun.LockState) int { return strings.Compare(string(a.Lock), string(b.Lock)) })
	return ls
}

// locked finds a lock in the listing.
func (t *trial) locked(name onerun.LockName) (onerun.LockState, bool) {
	for _, l := range t.locks(t.ns) {
		if l.Lock == name {
			return l, true
		}
	}
	return onerun.LockState{}, false
}

// attempt gives one attempt of a run.
func (t *trial) attempt(runID string, number int) onerun.Attempt {
	for _, a := range t.detail(runID).Attempts {
		if a.Number == number {
			return a
		}
	}
	t.failf("attempt %d of run %s: expected it in Detail, got none", number, runID)
	return onerun.Attempt{}
}

// now is the store's time, as a grant tells it.
func (t *trial) now() time.Time {
	g := t.grantedBy(t.s, t.lockOnly("clock"))
	t.finish(g, succeeded)
	return g.At
}
