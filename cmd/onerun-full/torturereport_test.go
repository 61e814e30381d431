package main_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// report is what one run of the torture has seen.
type report struct {
	Store      string         `json:"store"`
	Seed       int64          `json:"seed"`
	Seconds    int            `json:"seconds"`
	Starts     int            `json:"starts"`
	Contended  int            `json:"contended"` // starts that met another one in their life, and had an answer from the store
	Executions int            `json:"executions"`
	Operations int            `json:"operations"` // of the histories that were searched
	Struck     int            `json:"struck"`     // all faults
	Faults     map[string]int `json:"faults"`
	Operators  map[string]int `json:"operators"` // what was granted to them
	Reasons    map[string]int `json:"reasons"`   // how attempts have ended
	Codes      map[int]int    `json:"codes"`     // how starts have ended
	Overlaps   int            `json:"overlaps"`
	Lost       int            `json:"lost"`     // outcomes
	Excepted   int            `json:"excepted"` // overlaps and lost outcomes of the listed exceptions
	Violations []string       `json:"violations"`
}

func (w *world) violate(kind, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch kind {
	case "overlap":
		w.report.Overlaps++
	case "lost outcome":
		w.report.Lost++
	}
	w.report.Violations = append(w.report.Violations, kind+": "+fmt.Sprintf(format, args...))
}

// has reports whether there is a violation of a kind.
func (r *report) has(kind string) bool {
	return slices.ContainsFunc(r.Violations, func(v string) bool { return strings.HasPrefix(v, kind+": ") })
}

// tell sums up.
func (w *world) tell() *report {
	r := &w.report
	r.Starts, r.Codes = len(w.starts), map[int]int{}
	all := slices.SortedFunc(slices.Values(w.starts), func(a, b *start) int { return cmp.Compare(a.from, b.from) })
	last := int64(0) // until when those before have lived
	for i, s := range all {
		r.Codes[s.code]++
		met := s.from <= last || i+1 < len(all) && all[i+1].from <= s.to
		if met && s.answered() {
			r.Contended++
		}
		last = max(last, s.to)
	}
	for _, n := range r.Faults {
		r.Struck += n
	}
	r.Seconds = int(time.Since(w.begun).Seconds())
	text, err := json.Marshal(r)
	w.t.Logf("%s %v", text, err)
	return r
}

// write adds the report to the file that TORTURE_REPORT names.
func (r *report) write(t *testing.T) {
	t.Helper()
	path := os.Getenv("TORTURE_REPORT")
	if path == "" {
		return
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
