package main_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

// TestDoctorDatabase: of a store on a server it tells what the store finds itself, and looks
// at the jobs in its ledger. It makes none.
func TestDoctorDatabase(t *testing.T) {
	url := schema(t)
	h := newHost(t, url)
	doctor := func(want int, words ...string) {
		t.Helper()
		r := h.run("doctor", words[0])
		if r.code != want || r.err != "" {
			t.Errorf("onerun doctor %s: status %d, %s", words[0], r.code, r.err)
		}
		for _, w := range words[1:] {
			if !regexp.MustCompile(w).MatchString(r.out) {
				t.Errorf("onerun doctor %s: %q is not in:\n%s", words[0], w, r.out)
			}
		}
	}
	doctor(1, "settle", "danger +durability +fsync is off", "unknown +store +there is no store yet")
	s, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := onerun.NewRunner(s).Do(t.Context(), onerun.Job{Name: "settle", Partition: "2026-09-15"}, func(context.Context, *onerun.Owner) error { return nil }); err != nil {
		t.Fatal(err)
	}
	doctor(1, "settle", "ok +schema ", "ok +event-chain ", "ok +stale-runs ", "ok +history +", "warning +privileges +role keeper is SUPERUSER",
		"ok +program +one program: \\S+/onerun +-\n") // although it is onerun-full that looks
	doctor(1, "other", "unknown +history +other has no runs")
}
