package scheduler

import (
	"slices"
	"time"
)

// CatchUp says what becomes of fires that were missed while nobody could start them.
type CatchUp struct {
	Policy CatchUpPolicy
	Window time.Duration // older ones never run
	Cap    int           // of CatchUpAll: how many at most, the newest
	Spread time.Duration // over which the starts of all jobs are spread
}

// CatchUpPolicy is a policy of CatchUp.
type CatchUpPolicy string

// The policies.
const (
	CatchUpNone   CatchUpPolicy = "none"
	CatchUpLatest CatchUpPolicy = "latest"
	CatchUpAll    CatchUpPolicy = "all"
)

// DefaultCatchUp is that of a job that says nothing: the newest fire of the last day.
var DefaultCatchUp = CatchUp{Policy: CatchUpLatest, Window: 24 * time.Hour, Cap: 100, Spread: 30 * time.Second}

// How late a fire may be noticed and not count as missed: any, and the newest of a job, so that a short stall
// drops nothing, and a long one makes one start of a job that fires each second.
const (
	onTime       = 5 * time.Second
	newestOnTime = time.Minute
)

// mostMissed is how many missed fires of one job are looked at, the newest.
const mostMissed = 10_000

// Missed are fires that don't run: those that nobody started in time.
type Missed struct {
	Count int       `json:"count"`
	More  bool      `json:"more,omitempty"` // there are more, that were not counted
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

// add adds an earlier one.
func (m *Missed) add(slot time.Time) {
	m.Count++
	m.First = slot
	if m.Last.IsZero() {
		m.Last = slot
	}
}

// due are the slots of a job in (from, now] that nobody has taken: those that are to run, oldest first, and those that were
// missed and don't.
func (j *Job) due(from, now time.Time, m memo) (run []time.Time, missed Missed) {
	taken, at := 0, now.Add(time.Nanosecond)
	for n := 0; ; n++ {
		slot, ok := j.Schedule.Previous(at)
		if !ok || !slot.After(from) {
			break
		}
		if n == mostMissed {
			missed.More = true
			break
		}
		at = slot
		if m.by(slot) != "" {
			taken++
			continue
		}
		late := now.Sub(slot) - j.Jitter // until then somebody may be waiting for its time
		if late > onTime && (late > newestOnTime || taken > 0) && !j.CatchUp.wants(late, taken) {
			missed.add(slot)
			continue
		}
		taken++
		run = append(run, slot)
	}
	slices.Reverse(run)
	return run, missed
}

// wants reports whether a fire that was missed is to run, after so many newer ones.
func (c CatchUp) wants(late time.Duration, taken int) bool {
	switch {
	case late > c.Window:
		return false
	case c.Policy == CatchUpAll:
		return taken < c.Cap
	}
	return c.Policy == CatchUpLatest && taken == 0
}
