package cli

import (
	"slices"
	"testing"

	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/internal/scheduler"
)

// TestAlertsThatHearOfSkips: skip in on, or skips, is enough to be told; one that contradicts the other is refused.
func TestAlertsThatHearOfSkips(t *testing.T) {
	t.Parallel()
	for row, want := range map[string]int{
		"on: [skip]":              1,
		"on: [skip], skips: 3":    3,
		"skips: 3":                3,
		"remind: 1h":              0,
		"on: [failure]":           0,
		"on: [failure], skips: 3": -1,
	} {
		file, err := config.Parse("conf", []byte("alerts: {ops: {url: 'https://x', "+row+"}}\njobs: {j: {schedule: '@daily', command: [x], notify: [ops]}}\n"), schema())
		if err != nil {
			t.Fatal(err)
		}
		if refused := len(checkFile(file)) > 0; refused || want < 0 {
			if refused != (want < 0) {
				t.Errorf("%s: refused: %v", row, checkFile(file))
			}
			continue
		}
		a := (&env{file: file}).alertsOf(file.Jobs["j"])
		if hears := slices.Contains(a[0].On, scheduler.AlertSkip); hears != (want > 0) || hears && a[0].Skips != want {
			t.Errorf("%s: %+v", row, a)
		}
	}
}
