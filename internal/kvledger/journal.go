package kvledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// link is the hash of an event: SHA-256, in hexadecimal, over a JSON array of the hash before it
// in its chain and of its own fields.
func link(before string, e onerun.Event) string {
	b, err := json.Marshal([]any{before, e.At.UnixMicro(), e.Name, e.Namespace, e.Job, e.Key, e.RunID, e.By, e.Terminal, e.Reason, e.Detail})
	if err != nil { // strings and a number always can be written
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// event appends to the journal. What people decide is one chain of the namespace; a run's own
// events are a chain each, whose end its record keeps, so that no claim and no finish ever meets
// another there. r may be nil for what is about a job as a whole. The run has to be put after.
func (t *tx) event(r *runRecord, run onerun.Run, name string, who onerun.Who, detail string) error {
	e := onerun.Event{
		At: t.now, Name: name, Namespace: run.Namespace, RunID: run.RunID, Job: run.Job, Key: run.Key(),
		By: who.By, Terminal: who.Terminal, Reason: who.Reason, Detail: detail,
	}
	last := chainRecord{}
	people := who.By != "" || r == nil
	if people {
		c, err := load[chainRecord](t, keyChain(run.Namespace))
		if err != nil {
			return err
		}
		if c != nil {
			last = *c
		}
	} else {
		last = chainRecord{ID: r.EventID, Hash: r.EventHash}
	}
	e.ID = max(last.ID+1, t.now.UnixMicro())
	if r != nil { // the two chains of a run are read as one
		e.ID = max(e.ID, r.EventID+1)
	}
	rec := eventRecord{Event: e, Hash: link(last.Hash, e)}
	kind, of := "job", run.Job
	if run.RunID != "" {
		kind, of = "run", run.RunID
	}
	t.put(keyEvent(run.Namespace, kind, of, e.ID), rec)
	if people {
		t.put(keyChain(run.Namespace), chainRecord{ID: e.ID, Hash: rec.Hash})
		if r != nil {
			r.EventID = e.ID
		}
		return nil
	}
	r.EventID, r.EventHash = e.ID, rec.Hash
	return nil
}

func (t *tx) runEvent(r *runRecord, name string, who onerun.Who, detail string) error {
	return t.event(r, r.Run, name, who, detail)
}

// events reads the journal of a run, or of a job, oldest first.
func (l *Ledger) events(ctx context.Context, ns, kind, of string) (out []onerun.Event, err error) {
	err = l.walk(ctx, path("event", segment(ns), kind, segment(of)), func(e Entry) (bool, error) {
		rec, err := decode[eventRecord](e.Key, e.Value)
		if err == nil {
			out = append(out, rec.Event)
		}
		return err == nil, err
	})
	return out, err
}

// Decisions implements onerun.Ledger.
func (l *Ledger) Decisions(ctx context.Context, namespace, job string) (out []onerun.Event, err error) {
	err = l.decide(ctx, "read the decisions", nil, func(*tx) error {
		out, err = l.events(ctx, namespace, "job", job)
		out = slices.DeleteFunc(out, func(e onerun.Event) bool { return e.By == "" })
		return err
	})
	return out, err
}

// RecordUnlock implements onerun.UnlockRecorder.
func (l *Ledger) RecordUnlock(ctx context.Context, u onerun.UnlockRequest) error {
	return l.decide(ctx, "record the decision", nil, func(t *tx) error {
		if err := t.clock(); err != nil {
			return err
		}
		if err := t.event(nil, onerun.Run{Namespace: u.Namespace, Job: u.Lock.Name()}, onerun.EventUnlocked, u.Who, string(u.Lock)); err != nil {
			return err
		}
		_, err := t.commit("record the decision")
		return err
	})
}

// Chains reckons the hash of every event of a namespace again, and says how many events there are
// and which is the first that doesn't follow from the one before it; "": all do.
func (l *Ledger) Chains(ctx context.Context) (events int, loose string, err error) {
	events, first, err := l.reckon(ctx)
	if err != nil || len(first) == 0 {
		return events, "", err
	}
	// The one before can have been written behind what was read already. It is there the next time.
	events, second, err := l.reckon(ctx)
	for _, e := range second {
		if slices.Contains(first, e) {
			return events, e, err
		}
	}
	return events, "", err
}

// reckon is one look at the journal.
func (l *Ledger) reckon(ctx context.Context) (events int, loose []string, err error) {
	type chain struct{ namespace, of string }
	all := map[chain][]eventRecord{}
	err = l.walk(ctx, "event", func(e Entry) (bool, error) {
		rec, err := decode[eventRecord](e.Key, e.Value)
		if err != nil {
			return false, err
		}
		c := chain{namespace: rec.Namespace}
		if rec.By == "" {
			c.of = rec.RunID
		}
		all[c] = append(all[c], *rec)
		events++
		return true, nil
	})
	for c, list := range all {
		slices.SortFunc(list, func(a, b eventRecord) int { return cmp.Compare(a.ID, b.ID) })
		before := ""
		for _, e := range list {
			if link(before, e.Event) != e.Hash {
				loose = append(loose, fmt.Sprintf("event %d (%s, %s) of namespace %s", e.ID, e.Name, e.At.Format(time.RFC3339), c.namespace))
			}
			before = e.Hash
		}
	}
	slices.Sort(loose)
	return events, loose, err
}
