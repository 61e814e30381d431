package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/scheduler"
)

// TestMonitoringNames: the rules and the dashboard ask for series, and events, that there are.
func TestMonitoringNames(t *testing.T) {
	t.Parallel()
	d := &daemon{env: &env{}}
	d.engine = scheduler.New(scheduler.Options{})
	var text strings.Builder
	d.writeMetrics(&text)
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		asked, err := os.ReadFile("../../../docs/monitoring/" + file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`onerun_scheduler_[a-z_]+`).FindAllString(string(asked), -1)
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			if !strings.Contains(text.String(), "\n"+name+"{") && !strings.Contains(text.String(), "\n"+name+" ") {
				t.Errorf("%s asks for %s, which there is not", file, name)
			}
		}
		for _, name := range regexp.MustCompile(`onerun_job_[a-z_]+`).FindAllString(string(asked), -1) {
			if !slices.ContainsFunc(textSeries[:], func(s struct{ name, help string }) bool { return s.name == name }) {
				t.Errorf("%s asks for %s, which no text file has", file, name)
			}
		}
		for _, m := range regexp.MustCompile(`reason=~?\\?"([a-z_|]+)`).FindAllStringSubmatch(string(asked), -1) {
			for reason := range strings.SplitSeq(m[1], "|") {
				if !slices.Contains(textReasons[:], onerun.Reason(reason)) {
					t.Errorf("%s asks for the reason %s, which there is not", file, reason)
				}
			}
		}
		for _, m := range regexp.MustCompile(`event=~?\\?"([a-z_|]+)`).FindAllStringSubmatch(string(asked), -1) {
			for event := range strings.SplitSeq(m[1], "|") {
				if !strings.Contains(text.String(), `event="`+event+`"`) {
					t.Errorf("%s asks for the event %s, which there is not", file, event)
				}
			}
		}
	}
}
