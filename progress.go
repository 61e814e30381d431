package onerun

import "context"

// Progress is how far an attempt has come while it runs. What is nil is left as it is.
type Progress struct {
	Processed *int64
	Failed    *int64
	Output    *Output // what it has printed so far; replaces what was kept before
}

// Report records how far the work has come, for those who look at the run while it runs; the
// last numbers also stand in its end. An error means that nobody sees them yet, except
// for one that matches ErrLost: then the run isn't this owner's any more. Other errors
// are no reason to stop.
func (o *Owner) Report(ctx context.Context, p Progress) error {
	if p.Output != nil {
		out := *p.Output
		out.Text = o.r.redact(out.Text)
		p.Output = &out
	}
	o.mu.Lock()
	if p.Processed != nil {
		o.progress.Processed = p.Processed
	}
	if p.Failed != nil {
		o.progress.Failed = p.Failed
	}
	o.mu.Unlock()
	if o.grant.Lease.RunID == "" {
		return nil // a lock alone: there is no run to look at
	}
	ctx, cancel := context.WithTimeout(ctx, o.r.storeTimeout)
	defer cancel()
	return o.r.store.Report(ctx, o.grant.Lease, p)
}

// Progress is what was reported last.
func (o *Owner) Progress() Progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progress
}

// Skip says that there was nothing to do, and why: if the work ends without an error, the
// run is SKIPPED instead of SUCCEEDED. An error means that it isn't noted, for the case that
// this process dies.
func (o *Owner) Skip(why string) error {
	why = CutError(o.r.redact(why))
	o.mu.Lock()
	o.skipped, o.why = true, why
	o.mu.Unlock()
	if n, ok := o.r.store.(EndNoter); ok {
		return n.NoteSkip(o.grant.Lease, why)
	}
	return nil
}

// NoteEnd notes how the work has ended, err being what fn is going to return, where the store
// keeps notes: for work that has ended while fn has something left to do, in which this
// process could be killed.
func (o *Owner) NoteEnd(ctx context.Context, err error) error {
	n, ok := o.r.store.(EndNoter)
	if !ok {
		return nil
	}
	o.mu.Lock()
	o.endedAt = o.r.clock.Now()
	o.mu.Unlock()
	return n.NoteEnd(o.grant.Lease, o.complete(endingOf(ctx, err).outcome))
}

// complete adds to an end what the work has said of itself.
func (o *Owner) complete(out Outcome) Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	out.Processed, out.Failed, out.Output, out.FinishedAt = o.progress.Processed, o.progress.Failed, o.output, o.endedAt
	if o.skipped && out.Status == Succeeded {
		out.Status, out.Error = Skipped, o.why
	}
	return out
}
