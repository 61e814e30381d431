package full

import (
	"slices"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/internal/notify"
)

// TestServices: onerun takes the URLs of the services that the library has, and no others.
func TestServices(t *testing.T) {
	library := Services()
	slices.Sort(library)
	if ours := notify.Services(); !slices.Equal(ours, library) {
		t.Errorf("the table in internal/notify/services.go has\n%q, the library\n%q", ours, library)
	}
}

// TestSendRefuses: what is no letter, and a URL that the service refuses, end at once and for good.
func TestSendRefuses(t *testing.T) {
	for in, want := range map[string]int{
		"":                                  exitUsage,
		"slack://x":                         exitUsage,
		`{"url":"nonsense://x","text":"x"}`: 1,
		`{"url":"slack://x","text":"x"}`:    1,
		`{"url":"opsgenie://127.0.0.1:1/key","text":"x"}`: notify.ExitPassing,
	} {
		var errs strings.Builder
		if got := Send(strings.NewReader(in), &errs); got != want || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: status %d, want %d, with %q", in, got, want, errs.String())
		}
	}
}
