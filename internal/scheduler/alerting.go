package scheduler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

const (
	alertPrefix   = "alert/"
	alertEvery    = 10 * time.Second // a job whose start has just ended, or whose time is over
	alertAnyway   = time.Minute      // each job
	sendingTooOld = time.Minute      // whoever was telling has died
	tellAgain     = time.Minute      // whom something could not be sent to
	tellWithin    = 30 * time.Second
	tellAllWithin = 50 * time.Second // less than sendingTooOld
	tellAtOnce    = 64               // messages: each may be a process
	noteWithin    = 5 * time.Second  // to keep who was told, also at the end of this instance
)

// alertDesk knows which jobs are to be looked at.
type alertDesk struct {
	mu      sync.Mutex
	soon    map[string]bool
	seen    map[string]time.Time
	limits  map[string]time.Time // of a job: when the time of a fire is over next
	saw     map[string]*lastLook
	telling map[string]bool // jobs of which people are being told
	turns   chan struct{}   // to send a message
}

// begin says that people are being told of a job, which isn't looked at meanwhile.
func (d *alertDesk) begin(job string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.telling == nil {
		d.telling = map[string]bool{}
	}
	d.telling[job] = true
}

func (d *alertDesk) end(job string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.telling, job)
}

// inTurn sends one message, when not too many are being sent.
func (d *alertDesk) inTurn(ctx context.Context, send func(context.Context) error) error {
	select {
	case d.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.turns }()
	try, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	return send(try)
}

// recall is what the last look at a job saw; nil: there was none.
func (d *alertDesk) recall(job string) *lastLook {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.saw[job]
}

// remember keeps it for the next look.
func (d *alertDesk) remember(job string, m *lastLook) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.saw == nil {
		d.saw = map[string]*lastLook{}
	}
	d.saw[job] = m
}

// look makes that a job is looked at soon.
func (d *alertDesk) look(job string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.soon == nil {
		d.soon = map[string]bool{}
	}
	d.soon[job] = true
}

// due reports whether a job is to be looked at now.
func (d *alertDesk) due(j *Job, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.telling[j.Name] {
		return false
	}
	if d.seen == nil {
		d.seen, d.limits = map[string]time.Time{}, map[string]time.Time{}
	}
	last, ok := d.seen[j.Name]
	if !ok { // not all jobs at once
		d.seen[j.Name] = now.Add(share(j.Name, alertAnyway) - alertAnyway)
		d.limits[j.Name] = j.nextLimit(now)
		return d.soon[j.Name]
	}
	limit := d.limits[j.Name]
	over := !limit.IsZero() && !now.Before(limit)
	if !d.soon[j.Name] && !over && now.Sub(last) < alertAnyway && !now.Before(last) {
		return false
	}
	delete(d.soon, j.Name)
	d.seen[j.Name], d.limits[j.Name] = now, j.nextLimit(now)
	return true
}

// watchAlerts tells people what is wrong, until ctx ends. Every instance looks; the job's note makes that one
// of them tells. Nobody waits for whom another job's message goes to.
func (e *Engine) watchAlerts(ctx context.Context) {
	var telling sync.WaitGroup
	defer telling.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.Clock.After(alertEvery):
		}
		e.mu.Lock()
		var jobs []*entry
		for _, x := range e.jobs {
			if len(x.job.Load().Alerts) > 0 && !x.stands.Load() && x.known {
				jobs = append(jobs, x)
			}
		}
		e.mu.Unlock()
		now := e.Clock.Now()
		for _, x := range jobs {
			if e.alerts.due(x.job.Load(), now) {
				if tell := e.alert(ctx, x, e.Clock.Now()); tell != nil {
					telling.Go(tell)
				}
			}
		}
	}
}

// alert looks at one job, and gives what tells what is new, over, or to be said again; nil: there is nothing. What can't be done
// now is by the next look.
func (e *Engine) alert(ctx context.Context, x *entry, now time.Time) (tells func()) {
	e.mu.Lock()
	j, since := x.job.Load(), x.page.Since
	e.mu.Unlock()
	name := alertPrefix + j.Name
	note, err := e.Store.Note(ctx, e.Namespace, name)
	if err != nil {
		return nil
	}
	known := parseOpen(note)
	s, err := e.see(ctx, j, since, now)
	if err != nil {
		return nil
	}
	troubles, err := s.troubles(ctx, known)
	if err != nil {
		return nil
	}
	e.alerts.remember(j.Name, s.remembered())
	tell, changed := j.compare(known, troubles, e.reach(j, known), now)
	for i := range tell {
		tell[i].ID = e.idOf(tell[i])
		o := known[tell[i].About]
		o.Sending = now
		known[tell[i].About] = o
	}
	if !changed && len(tell) == 0 {
		return nil
	}
	if note, err = e.write(ctx, note, name, known); err != nil || len(tell) == 0 {
		return nil // another instance tells, or the next look does
	}
	e.alerts.begin(j.Name)
	return func() {
		defer e.alerts.end(j.Name)
		sent := e.tellAll(ctx, tell)
		// Whoever looks meanwhile leaves this alone, but may write of other troubles.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteWithin)
		defer cancel()
		for {
			for i, t := range tell {
				told(known, t, sent[i], now)
			}
			if note, err = e.write(ctx, note, name, known); !isState(err) {
				return
			}
			known = parseOpen(note)
		}
	}
}

func (e *Engine) write(ctx context.Context, n onerun.Note, name string, known map[AlertKind]open) (onerun.Note, error) {
	text, err := json.Marshal(known)
	if err != nil {
		return n, err
	}
	return e.Store.SetNote(ctx, e.Namespace, name, n.Version, string(text))
}

// reach are the places of each alert. Those of one that can't be asked for now are the ones that are known, else one without a
// name: so that telling it fails, and says why.
func (e *Engine) reach(j *Job, known map[AlertKind]open) func(Alert) []string {
	asked := map[string][]string{}
	return func(a Alert) []string {
		places, ok := asked[a.Name]
		if ok {
			return places
		}
		var err error
		if places = []string{""}; e.Places != nil {
			places, err = e.Places(a.Name)
		}
		if err != nil {
			places = nil
			for _, o := range known {
				places = append(places, o.placesOf(a.Name)...)
			}
			if slices.Sort(places); len(places) == 0 {
				places = []string{""}
			}
			places = slices.Compact(places)
		}
		asked[a.Name] = places
		return places
	}
}

// idOf names a message, the same however often it is sent, and whoever sends it.
func (e *Engine) idOf(t Telling) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		e.Namespace, t.Job, t.Alert.Name, t.Place, string(t.About), string(t.Kind), t.cause, strconv.FormatInt(t.Opened.UnixNano(), 10), strconv.Itoa(t.Count),
	}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// tellAll sends messages, and says which were. Places don't wait for each other; what goes to one goes in order.
func (e *Engine) tellAll(ctx context.Context, tell []Telling) (sent []bool) {
	ctx, cancel := context.WithTimeout(ctx, tellAllWithin)
	defer cancel()
	sent = make([]bool, len(tell))
	var all sync.WaitGroup
	begun := map[string]bool{}
	for _, first := range tell {
		at := placeKey(first.Alert.Name, first.Place)
		if begun[at] {
			continue
		}
		begun[at] = true
		all.Go(func() {
			for i, t := range tell {
				if placeKey(t.Alert.Name, t.Place) != at {
					continue
				}
				err := e.alerts.inTurn(ctx, func(try context.Context) error { return e.Tell(try, t) })
				sent[i] = err == nil
				e.Report(Event{Kind: Alerted, At: e.Clock.Now(), Job: t.Job, Detail: string(t.About) + " to " + t.Alert.Name + ": " + t.Title, Err: err})
			}
		})
	}
	all.Wait()
	return sent
}
