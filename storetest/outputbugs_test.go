package storetest_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

func outputBugs() []bug {
	as := func(f func(p *printer)) func(onerun.Store) onerun.Store {
		return func(s onerun.Store) onerun.Store {
			p := &printer{Store: s, kept: map[string]onerun.Output{}}
			f(p)
			return p
		}
	}
	ends := func(f func(o *onerun.Outcome)) func(onerun.Store) onerun.Store {
		return as(func(p *printer) { p.end = f })
	}
	answers := func(f func(o *onerun.Output)) func(onerun.Store) onerun.Store {
		return as(func(p *printer) { p.answer = f })
	}
	keyed := func(f func(namespace, runID string, attempt int) string) func(onerun.Store) onerun.Store {
		return as(func(p *printer) { p.key = f })
	}
	exact := func(namespace, runID string, attempt int) string { return fmt.Sprint(namespace, runID, attempt) }
	return []bug{
		{name: "no output is kept", caught: "output/kept with its attempt", disguise: ends(func(o *onerun.Outcome) { o.Output = nil })},
		{name: "only failures keep it", caught: "output/kept with its attempt", disguise: ends(func(o *onerun.Outcome) {
			if o.Status != onerun.Failed {
				o.Output = nil
			}
		})},
		{name: "how much it was is lost", caught: "output/kept with its attempt", disguise: answers(func(o *onerun.Output) { o.Total = 0 })},
		{name: "it has no time", caught: "output/kept with its attempt", disguise: answers(func(o *onerun.Output) { o.At = time.Time{} })},
		{name: "one output a run", caught: "output/of each attempt", disguise: keyed(func(namespace, runID string, _ int) string { return namespace + runID })},
		{name: "every namespace's", caught: "output/none", disguise: keyed(func(_, runID string, attempt int) string { return exact("", runID, attempt) })},
		{name: "twice is one after the other", caught: "output/of an end that is recorded twice", disguise: as(func(p *printer) { p.key, p.adds = exact, true })},
		{name: "whatever comes is kept", caught: "output/of an end that comes too late", disguise: as(func(p *printer) { p.key, p.always = exact, true })},
		{name: "a delivery loses it", caught: "output/of an end that is delivered", disguise: as(func(p *printer) { p.undelivered = true })},
		{name: "it outlives its run", caught: "output/pruned with its run", disguise: keyed(exact)},
		{name: "it is kept as it came", caught: "output/whatever it is", disguise: answers(func(o *onerun.Output) { o.Text = strings.ReplaceAll(o.Text, `\x00`, "\x00") })},
		{name: "a small column", caught: "output/whatever it is", disguise: answers(func(o *onerun.Output) { o.Text = o.Text[max(0, len(o.Text)-65535):] })},
		{name: "that it is cut isn't told", caught: "output/whatever it is", disguise: answers(func(o *onerun.Output) { o.Truncated = false })},
		{name: "a status is lost for its text", caught: "output/whatever it is", disguise: as(func(p *printer) { p.picky = true })},
		{name: "the beginning is kept", caught: "output/too much of it", disguise: ends(func(o *onerun.Outcome) {
			if o.Output != nil && len(o.Output.Text) > onerun.MaxOutput {
				o.Output.Text, o.Output.Truncated = o.Output.Text[:onerun.MaxOutput], true
			}
		})},
		{name: "secrets are kept", caught: "output/its secrets", disguise: answers(func(o *onerun.Output) { o.Text = strings.ReplaceAll(o.Text, onerun.Masked, "c4n4ry") })},
	}
}

// printer keeps outputs in ways that are wrong.
type printer struct {
	onerun.Store
	end         func(o *onerun.Outcome)
	answer      func(o *onerun.Output)
	key         func(namespace, runID string, attempt int) string // nil: the store keeps them
	adds        bool
	always      bool
	undelivered bool
	picky       bool
	kept        map[string]onerun.Output
}

func (p *printer) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if p.end != nil {
		p.end(&o)
	}
	if p.picky && o.Output != nil && strings.Contains(o.Output.Text, "\x00") {
		return fmt.Errorf("%w: invalid byte sequence for encoding \"UTF8\": 0x00", onerun.ErrInternal)
	}
	err := p.Store.Finish(ctx, l, o)
	if err == nil || p.always {
		p.keep(l, o)
	}
	return err
}

func (p *printer) Deliver(ctx context.Context, l onerun.Lease, o onerun.Outcome) (onerun.Delivery, error) {
	if p.undelivered {
		o.Output = nil
	}
	d, err := p.Store.Deliver(ctx, l, o)
	if d.Kind == onerun.DeliveredApplied || d.Kind == onerun.DeliveredCorrected {
		p.keep(l, o)
	}
	return d, err
}

func (p *printer) keep(l onerun.Lease, o onerun.Outcome) {
	if p.key == nil || o.Output == nil || o.Output.Text == "" {
		return
	}
	key := p.key(l.Namespace, l.RunID, l.Attempt)
	clean := o.Output.Cleaned()
	clean.At = o.FinishedAt.AddDate(1, 0, 0)
	if p.adds {
		clean.Text = p.kept[key].Text + clean.Text
	}
	p.kept[key] = clean
}

func (p *printer) Output(ctx context.Context, namespace, runID string, attempt int) (onerun.Output, error) {
	o, err := p.Store.Output(ctx, namespace, runID, attempt)
	if p.key != nil {
		var ok bool
		if o, ok = p.kept[p.key(namespace, runID, attempt)]; !ok {
			return o, onerun.ErrNotFound
		}
		err = nil
	}
	if p.answer != nil {
		p.answer(&o)
	}
	return o, err
}
