package scheduler

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// askPrefix is before the job's name in the name of the note with what people have asked for.
const askPrefix = "ask/"

// asks is what people have asked for, of one job.
type asks struct {
	Starts []Request `json:"starts,omitempty"`
	Reruns []rerun   `json:"reruns,omitempty"`
}

// rerun is an approval of one more execution that a scheduler is to use.
type rerun struct {
	Partition string    `json:"partition"`
	At        time.Time `json:"at"`
}

// parseAsks reads a job's note. A text that nobody of us wrote asks for nothing.
func parseAsks(n onerun.Note) (a asks) {
	if n.Text == "" || json.Unmarshal([]byte(n.Text), &a) != nil {
		return asks{}
	}
	return a
}

// open reports whether something is to be done.
func (a asks) open() bool {
	return len(a.Reruns) > 0 || slices.ContainsFunc(a.Starts, func(r Request) bool { return r.Done.IsZero() })
}

// change changes what is asked for of a job; false from f leaves it as it is.
func change(ctx context.Context, notes onerun.Notebook, namespace, job string, f func(*asks) (bool, error)) error {
	n, err := notes.Note(ctx, namespace, askPrefix+job)
	for err == nil {
		a := parseAsks(n)
		write, wrong := f(&a)
		if wrong != nil || !write {
			return wrong
		}
		if n, err = writeAsks(ctx, notes, namespace, n, a); !isState(err) {
			return err
		}
		err = nil // somebody else has changed it meanwhile
	}
	return err
}

func writeAsks(ctx context.Context, notes onerun.Notebook, namespace string, n onerun.Note, a asks) (onerun.Note, error) {
	text, err := json.Marshal(a)
	if err != nil {
		return n, err
	}
	return notes.SetNote(ctx, namespace, n.Name, n.Version, string(text))
}

// watchAsks deals with what was asked for.
func (e *Engine) watchAsks(ctx context.Context, now time.Time) error {
	notes, err := e.Store.Notes(ctx, e.Namespace, askPrefix)
	if err != nil {
		return err
	}
	for _, n := range notes {
		if e.settled[n.Name] == n.Version {
			continue
		}
		x := e.mine(strings.TrimPrefix(n.Name, askPrefix))
		if x == nil {
			continue
		}
		j := x.job.Load()
		a := parseAsks(n)
		if !a.open() {
			e.settled[n.Name] = n.Version
			continue
		}
		if n, err = e.watchRequests(ctx, j, n, a, now); err == nil {
			e.watchReruns(ctx, j.Name, n, parseAsks(n), now)
		}
	}
	return nil
}
