package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// bound limits how long the store may take to answer.
func (e *env) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(e.StoreTimeout))
}

// consult opens the store to look at it, with a bound on its answers.
func (e *env) consult(ctx context.Context, lockDir string) (context.Context, onerun.Store, func(), error) {
	e.reading = true
	s, _, err := e.open(ctx, lockDir)
	if err != nil {
		return ctx, nil, nil, err
	}
	ctx, cancel := e.bound(ctx)
	return ctx, s, cancel, nil
}

func say(e *env, format string, args ...any) error {
	_, err := fmt.Fprintln(e.out, printable(fmt.Sprintf(format, args...)))
	return written(err)
}

// fieldsOf is a view as a map, so that fields can be added or emptied.
func fieldsOf(v any) map[string]any {
	b, err := json.Marshal(v)
	m := map[string]any{}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		panic(err) // the views hold nothing that JSON can't
	}
	return m
}

// selectRef narrows a query to what a person named: a run id, a key, or a job.
func selectRef(q *onerun.Query, ref string) error {
	if onerun.IsRunID(ref) {
		q.RunID = ref
		return nil
	}
	var err error
	q.Job, q.Partition, err = onerun.SplitKey(ref)
	return err
}

// narrow is selectRef for a listing, whose argument may be left out.
func narrow(q *onerun.Query, ref word) error {
	if ref == "" {
		return nil
	}
	return selectRef(q, string(ref))
}

// checkRef refuses what can name no run, before a store is opened and perhaps made.
func checkRef(ref string) error { return selectRef(&onerun.Query{}, ref) }

// find gives the run that a person named: a run id, a key, or a job, which means
// its RUNNING run, else its latest. found is false when there is none.
func find(ctx context.Context, e *env, s onerun.Store, ref string) (run onerun.Run, found bool, err error) {
	q := onerun.Query{Namespace: e.Namespace}
	if err := selectRef(&q, ref); err != nil {
		return onerun.Run{}, false, err
	}
	asked := []onerun.Query{q}
	if q.Job != "" && q.Partition == "" {
		running := q
		running.Statuses = []onerun.Status{onerun.Running}
		asked = []onerun.Query{running, q}
	}
	for _, q := range asked {
		q.Limit = 1
		runs, err := s.Runs(ctx, q)
		if err != nil {
			return onerun.Run{}, false, err
		}
		if len(runs) > 0 {
			if name := runs[0].Name(); !slices.Contains(e.names, name) {
				e.names = append(e.names, name)
			}
			return runs[0], true, nil
		}
	}
	return onerun.Run{}, false, nil
}

func noSuchRun(ref string) error {
	return &onerun.StoreError{Kind: onerun.ErrNotFound, What: ref, Err: errors.New("there is no such run"), Do: "see: onerun history"}
}
