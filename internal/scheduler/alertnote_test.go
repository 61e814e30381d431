package scheduler

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// heard are the messages so far, by who heard them.
func (b *bed) heard() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string][]string{}
	for _, m := range b.told {
		words := string(m.Kind)
		if m.Again {
			words += " again"
		}
		at := strings.TrimSuffix(m.Alert.Name+"/"+m.Place, "/")
		all[at] = append(all[at], words)
	}
	b.told = nil
	said := map[string]string{}
	for at, words := range all {
		said[at] = strings.Join(words, ", ")
	}
	return said
}

// TestPlacesOfAnAlert: a place that can't be reached keeps nothing from the others, and makes nothing be told twice; what it is
// told in the end is the message that it missed.
func TestPlacesOfAnAlert(t *testing.T) {
	for _, deaf := range []string{"p1", "p2"} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			b.places = map[string][]string{"ops": {"p1", "p2"}}
			b.deaf = deaf
			j := b.job("minutely", "* * * * *")
			j.Alerts = []Alert{{Name: "ops", On: everything(), Remind: time.Hour}}
			b.failing("minutely", errors.New("no money"))
			b.starts("a", 1, j)
			b.starts("b", 1, j)
			pass(2*time.Hour + 5*time.Minute)
			hears := map[string]string{"p1": "ops/p2", "p2": "ops/p1"}[deaf]
			if got := b.heard(); len(got) != 1 || got[hears] != "failure, failure again, failure again" {
				t.Errorf("while %s was deaf: %q", deaf, got)
			}
			b.mu.Lock()
			b.deaf = ""
			ids := map[string]int{}
			for _, m := range b.tried {
				ids[m.ID]++
			}
			n := len(b.tried)
			b.mu.Unlock()
			if len(ids) != 4 || n < 60 || n > 150 {
				t.Errorf("%d tries of %d messages", n, len(ids))
			}
			pass(3 * time.Minute)
			if got := b.heard(); len(got) != 1 || got["ops/"+deaf] != "failure" {
				t.Errorf("when it could hear: %q", got)
			}
			b.failing("minutely", nil)
			pass(3 * time.Minute)
			if got := b.heard(); len(got) != 2 || got["ops/p1"] != "recovery" || got["ops/p2"] != "recovery" {
				t.Errorf("when it was over: %q", got)
			}
			pass(time.Hour)
			if got := b.heard(); len(got) != 0 {
				t.Errorf("later: %q", got)
			}
		})
	}
}

// TestEachAlertForItself: how often one is reminded, and of how many skips it wants to hear, is nothing to the others.
func TestEachAlertForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		on := []AlertKind{AlertFailure, AlertSkip, AlertRecovery}
		j := b.job("minutely", "* * * * *")
		j.Alerts = []Alert{{Name: "ops", On: on, Remind: 4 * time.Hour, Skips: 10}, {Name: "chat", On: on, Remind: 15 * time.Minute, Skips: 3}, {Name: "once", On: on}}
		b.failing("minutely", errors.New("no money"))
		b.starts("a", 1, j)
		pass(time.Hour + 30*time.Second)
		if got := b.heard(); got["ops"] != "failure" || got["once"] != "failure" || got["chat"] != "failure, failure again, failure again, failure again" {
			t.Errorf("of failures: %q", got)
		}
		b.failing("minutely", nil)
		pass(5 * time.Minute)
		b.heard()
		b.mu.Lock()
		b.takes = 7 * time.Minute // so many that one hears of
		b.mu.Unlock()
		pass(3 * time.Minute)
		b.mu.Lock()
		b.takes = 0
		b.mu.Unlock()
		pass(10 * time.Minute)
		if got := b.heard(); len(got) != 1 || got["chat"] != "skip, recovery" {
			t.Errorf("of a few skips: %q", got)
		}
		b.mu.Lock()
		b.takes = 20 * time.Minute
		b.mu.Unlock()
		pass(14 * time.Minute)
		if got := b.heard(); len(got) != 2 || got["chat"] != "skip" || got["ops"] != "skip" {
			t.Errorf("of many: %q", got)
		}
		pass(time.Hour)
	})
}

// TestOlderNotes: what an older version of this program has told isn't told again, and is over when it is; whom it could not tell is
// told.
func TestOlderNotes(t *testing.T) {
	for _, c := range []struct{ note, first, over string }{
		{`{"failure":{"cause":"exit","title":"t","since":"2000-01-01T00:00:00Z","told":"2000-01-01T00:00:30Z","sending":"0001-01-01T00:00:00Z","count":1}}`, "map[]", "map[chat:recovery ops:recovery]"},
		{`{"failure":{"cause":"exit","title":"t","since":"2000-01-01T00:00:00Z","told":"0001-01-01T00:00:00Z","sending":"2000-01-01T00:00:30Z","count":0,"heard":["ops failure"]}}`, "map[chat:failure]", "map[chat:recovery ops:recovery]"},
		{`{"failure":{"cause":"exit","title":"t","since":"2000-01-01T00:00:00Z","told":"2000-01-01T00:00:10Z","sending":"2000-01-01T00:00:30Z","count":1,"heard":["ops recovery"]}}`, "map[ops:failure]", "map[chat:recovery ops:recovery]"},
		{`{"late":{"cause":"did not start","title":"t","since":"2000-01-01T00:00:00Z","told":"0001-01-01T00:00:00Z","sending":"0001-01-01T00:00:00Z","count":0}}`, "map[chat:failure ops:failure]", "map[chat:recovery ops:recovery]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t)
			if _, err := b.mem.SetNote(t.Context(), "default", alertPrefix+"minutely", 0, c.note); err != nil {
				t.Fatal(err)
			}
			j := b.job("minutely", "* * * * *")
			j.Alerts = []Alert{{Name: "ops", On: everything()}, {Name: "chat", On: everything()}}
			b.failing("minutely", errors.New("no money"))
			b.byHand("minutely", func() error { return errors.New("no money") }, "start+0")
			b.starts("a", 1, j)
			pass(10 * time.Minute)
			if got := fmt.Sprint(b.heard()); got != c.first {
				t.Errorf("told after %s: %s", c.note, got)
			}
			b.failing("minutely", nil)
			pass(3 * time.Minute)
			if got := fmt.Sprint(b.heard()); got != c.over {
				t.Errorf("told when it was over, after %s: %s", c.note, got)
			}
		})
	}
}

// TestToldWhileOthersWrite: that people were told is kept, whatever another instance writes down meanwhile.
func TestToldWhileOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.meddles = func() {
			note, err := b.mem.Note(t.Context(), "default", alertPrefix+"minutely")
			known := parseOpen(note)
			known[AlertOften] = open{Cause: "often"}
			text, _ := json.Marshal(known)
			if _, err2 := b.mem.SetNote(t.Context(), "default", note.Name, note.Version, string(text)); err != nil || err2 != nil {
				t.Error(err, err2)
			}
		}
		j := b.job("minutely", "* * * * *")
		j.Alerts = []Alert{{Name: "ops", On: everything()}}
		b.failing("minutely", errors.New("no money"))
		b.starts("a", 1, j)
		pass(20 * time.Minute)
		if said := strings.Join(b.said(), ", "); said != "failure" {
			t.Errorf("said %q", said)
		}
	})
}

// TestPlacesThatCannotBeAsked: an alert whose places are not known now is told when they are; those that were told are told
// nothing twice.
func TestPlacesThatCannotBeAsked(t *testing.T) {
	e := New(Options{Namespace: "default", Places: func(string) ([]string, error) { return nil, errors.New("no such file") }})
	j := &Job{Alerts: []Alert{{Name: "ops"}}}
	for _, c := range []struct {
		to   map[string]reached
		want []string
	}{
		{nil, []string{""}},
		{map[string]reached{"ops p2": {}, "ops p1": {}, "chat p3": {}}, []string{"p1", "p2"}},
	} {
		if got := e.reach(j, map[AlertKind]open{AlertFailure: {To: c.to}, AlertLate: {To: c.to}})(j.Alerts[0]); !slices.Equal(got, c.want) {
			t.Errorf("of %v: %q", c.to, got)
		}
	}
}

// TestNobodyWaitsForAHangingPlace: a place that takes its time holds up neither the other places nor the other jobs.
func TestNobodyWaitsForAHangingPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		var jobs []Job
		for i := range 20 {
			j := b.job(fmt.Sprint("hourly", i), "0 * * * *")
			j.Alerts = []Alert{{Name: "hangs", On: everything()}, {Name: "ops", On: everything()}}
			b.failing(j.Name, errors.New("no money"))
			jobs = append(jobs, j)
		}
		i := b.starts("a", 1, jobs...)
		pass(time.Hour + time.Minute)
		if all := b.heard()["ops"]; strings.Count(all, "failure") != len(jobs) {
			t.Errorf("heard: %s", all)
		}
		pass(10 * time.Minute)
		i.quits()
		if all := b.heard(); len(all) > 0 {
			t.Errorf("heard later: %q", all)
		}
	})
}

// TestEndWhileTelling: an instance that ends while somebody takes his time keeps who was told.
func TestEndWhileTelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		j := b.job("hourly", "0 * * * *")
		j.Alerts = []Alert{{Name: "hangs", On: everything()}, {Name: "ops", On: everything()}}
		b.failing("hourly", errors.New("no money"))
		i := b.starts("a", 1, j)
		pass(time.Hour + 15*time.Second)
		if got := b.heard(); got["ops"] != "failure" {
			t.Fatalf("heard: %q", got)
		}
		i.quits()
		b.starts("b", 1, j)
		pass(10 * time.Minute)
		if got := b.heard(); len(got) > 0 {
			t.Errorf("heard twice: %q", got)
		}
	})
}
