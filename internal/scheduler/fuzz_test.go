package scheduler

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/fuzzbound"
	"github.com/onerun-dev/onerun/schedule"
)

// fuzzedJob fires each minute.
func fuzzedJob(t testing.TB) *Job {
	t.Helper()
	c, err := schedule.ParseCron("* * * * *")
	if err != nil {
		t.Fatal(err)
	}
	return &Job{Name: "j", Schedule: schedule.Schedule{Cron: c, Zone: time.UTC}, CatchUp: CatchUp{Policy: CatchUpAll, Window: time.Hour, Cap: 10}}
}

// FuzzPage: whatever stands in a job's note, a scheduler goes on from it in a bounded way: what it takes is taken, it
// never goes back, and what it writes is no larger than it should be and reads back the same.
func FuzzPage(f *testing.F) {
	now := time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC)
	good, err := json.Marshal(memo{
		Digest: "d", Generation: 3, Since: now.Add(-time.Hour), Done: now.Add(-2 * time.Minute),
		Taken: []taken{{Slot: now.Add(-time.Minute), By: "other", Missed: &Missed{Count: 2, First: now, Last: now}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		string(good), "", "null", "{}", "[]", `{"done":"9999-12-31T23:59:59Z"}`, `{"done":"0001-01-01T00:00:00Z","taken":[{"slot":"0001-01-01T00:01:00Z","by":"x"}]}`,
		`{"taken":[{},{},{}]}`, `{"taken":[{"slot":"2026-09-15T01:00:00+09:00","by":"x","missed":{"count":-1,"first":"2026-09-15T00:59:00Z","last":"9999-12-31T00:00:00Z"}}]}`, `{"generation":1e99}`,
	} {
		f.Add(text, int64(0))
	}
	j := fuzzedJob(f)
	f.Fuzz(func(t *testing.T, text string, seconds int64) {
		fuzzbound.Run(t, 64*len(text), func() { // each slot of a page is looked at with each other
			p, err := parsePage(onerun.Note{Name: "schedule/j", Text: text, Version: 7})
			if p.version != 7 {
				t.Errorf("%q is version %d", text, p.version)
			}
			if err != nil {
				return
			}
			slot := now.Add(time.Duration(seconds%(365*24*3600)) * time.Second)
			after := p.with(taken{Slot: slot, By: "me"}, j.Schedule)
			if after.Done.Before(p.Done) || len(after.Taken) > max(mostTaken, leastTaken) {
				t.Errorf("%q: %+v after %+v", text, after, p.memo)
			}
			if by := after.by(slot); by != "me" && slices.ContainsFunc(after.Taken, func(t taken) bool { return t.Slot.Equal(slot) }) {
				t.Errorf("%q: %s is taken by %q", text, slot, by)
			}
			run, missed := j.due(now.Add(-2*time.Hour), now, p.memo)
			if len(run) > 2*60 || missed.Count < 0 || missed.Count > mostMissed || !slices.IsSortedFunc(run, time.Time.Compare) {
				t.Errorf("%q: due are %v, missed %+v", text, run, missed)
			}
			for _, slot := range run {
				if p.by(slot) != "" || slot.After(now) {
					t.Errorf("%q: %s is due, and taken by %q", text, slot, p.by(slot))
				}
			}
			out, err := json.Marshal(after)
			if err != nil {
				return // a year that JSON has no form for, which nothing is made of
			}
			back, err := parsePage(onerun.Note{Name: "schedule/j", Text: string(out)})
			if err != nil || !back.Done.Equal(after.Done) || len(back.Taken) != len(after.Taken) || back.Digest != after.Digest && json.Valid([]byte(text)) {
				t.Errorf("%q: %+v, read back as %+v: %v", text, after, back.memo, err)
			}
		})
	})
}

// FuzzAsks: whatever stands in the note of what people asked for, one more request stands there afterwards, or is refused;
// and nothing grows without end.
func FuzzAsks(f *testing.F) {
	now := time.Date(2026, 9, 15, 1, 0, 0, 0, time.UTC)
	good, err := json.Marshal(asks{Starts: []Request{{ID: "a", At: now, By: "x"}, {ID: "b", At: now, Done: now}}, Reruns: []rerun{{"p", now}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(good), "", "null", "{}", `{"starts":[{}]}`, `{"starts":null,"reruns":[{}]}`, `[1]`, `{"starts":[{"id":"a","done":"9999-01-01T00:00:00Z"}]}`} {
		f.Add(text, "id")
	}
	f.Fuzz(func(t *testing.T, text, id string) {
		fuzzbound.Run(t, len(text)+len(id), func() {
			a := parseAsks(onerun.Note{Text: text})
			before := len(a.Starts)
			if err := a.add(Request{ID: id, At: now}, "j"); err != nil {
				return
			}
			if len(a.Starts) > before+1 || !a.open() || a.Starts[len(a.Starts)-1].ID != id {
				t.Errorf("%q: %d requests became %d", text, before, len(a.Starts))
			}
			out, err := json.Marshal(a)
			if err != nil {
				return // a year that JSON has no form for
			}
			if back := parseAsks(onerun.Note{Text: string(out)}); len(back.Starts) != len(a.Starts) || len(back.Reruns) != len(a.Reruns) {
				t.Errorf("%q: %+v, read back as %+v", text, a, back)
			}
		})
	})
}
