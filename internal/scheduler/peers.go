package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/onerun-dev/onerun"
)

// An instance says that it lives in a note of its own: instance/N, the first that nobody who lives has.
// Who lives is told by the store's clock alone.
const (
	peerPrefix = "instance/"
	aliveEvery = 5 * time.Second
	deadAfter  = 30 * time.Second

	standWithin = time.Second // a store that hangs keeps no instance from its end: the others find it dead
)

// peer is the text of such a note; empty: its instance has left.
type peer struct {
	ID         string `json:"id"`
	Who        string `json:"who"`
	Generation int64  `json:"generation"` // of its configuration
}

// seat is this instance's note.
type seat struct {
	name    string
	version int64
}

// keepAlive renews this instance's note, and looks for those of instances that died, until ctx ends.
func (e *Engine) keepAlive(ctx context.Context) {
	var own seat
	var last, since time.Time // when the store answered last; since when it has, after it had not
	rescued := map[string]bool{}
	for ctx.Err() == nil {
		peers, err := e.sit(ctx, &own)
		now := e.Clock.Now()
		if err != nil || !last.IsZero() && now.Sub(last).Abs() > deadAfter/2 { // the others could not renew their notes either
			since = now
		}
		if err == nil {
			last = now
		}
		if err == nil && (since.IsZero() || now.Sub(since).Abs() > deadAfter) {
			for _, p := range peers {
				if !rescued[p.ID] && e.rescue(ctx, p) == nil {
					rescued[p.ID] = true
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-e.Clock.After(aliveEvery):
		}
	}
	e.starts.Wait()
	e.stand(own)
}

// sit writes this instance's note, and gives the instances that are dead.
func (e *Engine) sit(ctx context.Context, own *seat) (dead []peer, err error) {
	e.mu.Lock()
	gen := e.gen
	e.mu.Unlock()
	text, err := json.Marshal(peer{e.self, e.Who, gen})
	if err != nil {
		return nil, err
	}
	if own.name != "" {
		n, err := e.Store.SetNote(ctx, e.Namespace, own.name, own.version, string(text))
		switch {
		case err == nil || isState(err) && n.Text == string(text):
			own.version = n.Version
		case isState(err): // somebody took this one for dead
			*own = seat{}
		default:
			return nil, err
		}
	}
	notes, err := e.Store.Notes(ctx, e.Namespace, peerPrefix)
	if err != nil {
		return nil, err
	}
	e.answered.Store(e.Clock.Now().UnixNano())
	var now time.Time // by the store
	for _, n := range notes {
		if n.At.After(now) {
			now = n.At
		}
	}
	free := onerun.Note{Name: fmt.Sprintf("%s%04d", peerPrefix, len(notes))}
	for _, n := range notes {
		var p peer
		if n.Text != "" && json.Unmarshal([]byte(n.Text), &p) == nil && p.ID != e.self {
			if now.Sub(n.At) <= deadAfter {
				if p.Generation > gen {
					e.newer.Store(e.Clock.Now().UnixNano())
				}
				continue
			}
			dead = append(dead, p)
		}
		// The seat of a dead one is taken when its slots have been looked at, and only when nothing is free.
		if n.Text == "" && free.Version == 0 {
			free = n
		}
	}
	if own.name == "" {
		n, err := e.Store.SetNote(ctx, e.Namespace, free.Name, free.Version, string(text))
		if err == nil {
			*own = seat{n.Name, n.Version}
		} else if !isState(err) {
			return dead, err
		}
	}
	return dead, nil
}

// stand gives the note up: nobody has to look after this instance's slots. If it has left some, the note stays until
// the others find it dead.
func (e *Engine) stand(own seat) {
	if own.name == "" || e.left.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), standWithin)
	defer cancel()
	_, _ = e.Store.SetNote(ctx, e.Namespace, own.name, own.version, "")
}

// rescue starts what an instance took before it died, and the ledger doesn't know.
func (e *Engine) rescue(ctx context.Context, dead peer) error {
	e.mu.Lock()
	mine := maps.Clone(e.jobs)
	e.mu.Unlock()
	notes, err := e.Store.Notes(ctx, e.Namespace, memoPrefix)
	if err != nil {
		return err
	}
	var failed error
	others := false // another instance has jobs of the dead one that this one hasn't
	for _, n := range notes {
		p, err := parsePage(n)
		if err != nil {
			continue
		}
		x := mine[n.Name[len(memoPrefix):]]
		for _, t := range p.Taken {
			switch {
			case t.By != dead.ID || t.Again: // those can be taken again each minute
			case x == nil || p.Digest != x.job.Load().Digest:
				others = true
			default:
				failed = errors.Join(failed, e.rescueSlot(ctx, x, p, t))
			}
		}
	}
	if failed == nil && !others {
		e.clear(ctx, dead)
	}
	return failed
}

// rescueSlot starts a fire that somebody took who died, unless the ledger knows its key.
func (e *Engine) rescueSlot(ctx context.Context, x *entry, p page, t taken) error {
	j := x.job.Load()
	f, err := j.fire(t.Slot)
	old := e.Clock.Now().Sub(t.Slot) > max(j.CatchUp.Window, newestOnTime)
	if err != nil || old && !t.Waits { // it was started long ago
		return nil
	}
	if known, err := e.inLedger(ctx, f); err != nil || known {
		return err
	}
	own := t
	own.By = e.self
	for {
		if by := p.by(t.Slot); by != t.By && by != "" { // another one was faster
			return nil
		}
		if p, err = e.book.write(ctx, j.Name, p.version, p.with(own, j.Schedule)); err == nil {
			break
		}
		if !isState(err) {
			return err
		}
	}
	e.mu.Lock()
	x.page = p
	e.mu.Unlock()
	e.report(j, t.Slot, Rescued, nil)
	f.Late, f.kept = true, t.Waits
	e.starts.Go(func() {
		switch {
		case t.Missed != nil:
			e.miss(ctx, j, *t.Missed)
		case old:
			e.missFire(ctx, f)
			e.unkeep(ctx, f)
		default:
			e.start(ctx, f)
		}
	})
	return nil
}

// inLedger reports whether a fire has run, runs, or was refused.
func (e *Engine) inLedger(ctx context.Context, f *Fire) (bool, error) {
	runs, err := e.Store.Runs(ctx, onerun.Query{Namespace: e.Namespace, Job: f.Job.Name, Partition: f.Partition, Limit: 1})
	if err != nil || len(runs) > 0 {
		return err == nil, err
	}
	skips, err := e.Store.Skips(ctx, e.Namespace, f.Job.Name, f.Partition)
	return err == nil && len(skips) > 0, err
}

// clear frees the seat of an instance whose slots have been looked at.
func (e *Engine) clear(ctx context.Context, dead peer) {
	notes, err := e.Store.Notes(ctx, e.Namespace, peerPrefix)
	if err != nil {
		return
	}
	for _, n := range notes {
		var p peer
		if json.Unmarshal([]byte(n.Text), &p) == nil && p.ID == dead.ID {
			_, _ = e.Store.SetNote(ctx, e.Namespace, n.Name, n.Version, "")
		}
	}
}
