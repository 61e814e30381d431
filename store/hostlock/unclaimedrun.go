package hostlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// noClaim is what a run can't do that has none.
func noClaim(what string) error {
	return &onerun.StoreError{
		Kind: onerun.ErrUnavailable, What: what, Err: errors.New("the store could not be asked when this run began, so it has no claim"),
		Do: "what has to be safe against a second run can't be done in this one",
	}
}

// Heartbeat implements onerun.Claimer.
func (u *Unclaimed) Heartbeat(context.Context, onerun.Lease) (onerun.Beat, error) {
	return onerun.Beat{}, noClaim("ask for the lock")
}

// Report implements onerun.Claimer. What is reported stands in the end.
func (u *Unclaimed) Report(context.Context, onerun.Lease, onerun.Progress) error {
	return noClaim("report")
}

// BeginItem implements onerun.ItemKeeper.
func (u *Unclaimed) BeginItem(context.Context, onerun.ItemClaim) (onerun.Item, error) {
	return onerun.Item{}, noClaim("begin an item")
}

// EndItem implements onerun.ItemKeeper.
func (u *Unclaimed) EndItem(context.Context, onerun.ItemEnd) error { return noClaim("end an item") }

// NoteStart implements onerun.Noter. The spool comes first: it must not say that nothing began
// when somebody has used the lock since, whose note took this one's place.
func (u *Unclaimed) NoteStart(l onerun.Lease) error {
	h, err := u.Mine(l)
	if err == nil {
		u.hook("begin the spool")
		err = h.Spool.Begin()
	}
	if err != nil {
		return err
	}
	return u.Store.NoteStart(l)
}

// NoteEnd implements onerun.EndNoter: the end stands in the spool, and on the disk, when it
// returns.
func (u *Unclaimed) NoteEnd(l onerun.Lease, out onerun.Outcome) error {
	h, err := u.Mine(l)
	if err != nil {
		return err
	}
	return u.noteEnd(h, out)
}

// noteEnd writes the end to the spool before the lock's note says that there is one.
func (u *Unclaimed) noteEnd(h *filelock.Holding, out onerun.Outcome) error {
	u.hook("spool the end")
	err := h.Spool.End(out)
	h.Noted = h.Noted || err == nil
	u.hook("note the end")
	if e := h.Lock.SetOutcome(filelock.NewOutcome(out)); err != nil { // should the spool have failed, this is all there is
		return errors.Join(err, e, h.Lock.Sync())
	}
	return nil
}

// Finish implements onerun.Claimer. It returns nil when the store has the run.
func (u *Unclaimed) Finish(ctx context.Context, l onerun.Lease, out onerun.Outcome) error {
	h, err := u.Mine(l)
	if err != nil {
		return err
	}
	if h.Lease != l || h.Spool == nil {
		return fmt.Errorf("%w: this process holds another lease", onerun.ErrLost)
	}
	var noted error
	if w := &h.Spooled; w.Outcome == nil { // the first try
		noted = u.noteEnd(h, out)
		w.Outcome = &out
	}
	u.hook("deliver the run")
	d, err := u.deliverSpooled(ctx, h.Spooled)
	if err != nil {
		return errors.Join(err, noted)
	}
	u.hook("clear the note")
	u.letGo(h)
	if d.Kind != onerun.DeliveredBefore {
		u.told(d)
	}
	return nil
}

// Deliver implements onerun.Claimer: a run without a claim has no attempt in the store.
func (u *Unclaimed) Deliver(_ context.Context, l onerun.Lease, _ onerun.Outcome) (onerun.Delivery, error) {
	return onerun.Delivery{}, fmt.Errorf("%w: run %s has no claim", onerun.ErrLost, l.RunID)
}

// Inherit is Store.Inherit for a run without a claim.
func (u *Unclaimed) Inherit(l onerun.Lease, mode onerun.LockMode, job string, files []int) (noted *onerun.Outcome, skip *string, err error) {
	lock, note, err := u.dir.Inherit(filelock.Request{Namespace: l.Namespace, Lock: l.Lock, Mode: mode, Owner: l.Owner, Job: job}, files)
	if err != nil {
		return nil, nil, err
	}
	spool, w, err := u.dir.OpenSpool(l.Namespace, l.Lock, l.Owner)
	if err != nil {
		return nil, nil, err
	}
	if spool == nil {
		return nil, nil, fmt.Errorf("%w: run %s is delivered", onerun.ErrLost, l.RunID)
	}
	noted, w.Outcome = w.Outcome, nil
	if noted == nil && note.Outcome != nil {
		out := note.Outcome.Outcome()
		noted = &out
	}
	u.Hold(&filelock.Holding{Lock: lock, Lease: l, Mode: mode, Spool: spool, Spooled: w})
	return noted, note.Skip, nil
}
