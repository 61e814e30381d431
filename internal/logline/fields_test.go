package logline

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

func names(fields []slog.Attr) string {
	var n []string
	for _, f := range fields {
		n = append(n, f.Key)
	}
	return strings.Join(n, " ")
}

func value(fields []slog.Attr, name string) string {
	i := slices.IndexFunc(fields, func(a slog.Attr) bool { return a.Key == name })
	if i < 0 {
		return ""
	}
	return fields[i].Value.String()
}

// TestBeside: what only the logger knows stands in its place.
func TestBeside(t *testing.T) {
	b := Beside{Store: "sqlite:/x", Worker: func() string { return "box1" }, Path: filepath.Base, Next: "look"}
	run := onerun.Run{Namespace: "default", Job: "daily", Lock: onerun.JobLock("daily")}
	for _, c := range []struct {
		what string
		seen onerun.Observation
		want string
	}{
		{"a skip", onerun.Observation{
			Event: onerun.EventSkipped, Run: run, LockPath: "/locks/a.lock",
			Refusal: &onerun.Refusal{Reason: onerun.RefusedFailed, At: time.Now(), Count: 2, Holder: onerun.Holder{Name: "daily", Since: time.Now()}},
		}, "namespace store job worker pid lock lock_path acquired reason holder holder_age count next"},
		{
			"an end that isn't recorded",
			onerun.Observation{Event: onerun.EventFailed, Run: run, LockPath: "/locks/a.lock", Detail: "so", Err: errors.New("no")},
			"namespace store job worker pid lock lock_path detail next error",
		},
	} {
		f := Fields(c.seen, b)
		if got := names(f); got != c.want {
			t.Errorf("%s: %s\nwant %s", c.what, got, c.want)
		}
		for name, want := range map[string]string{"store": "sqlite:/x", "worker": "box1", "lock_path": "a.lock", "next": "look"} {
			if got := value(f, name); got != want {
				t.Errorf("%s: %s is %q", c.what, name, got)
			}
		}
	}
}

// TestLateEnds: a line about a late end is about the attempt that it is the end of, not about
// the run's last one, nor about the lock of whoever delivered it.
func TestLateEnds(t *testing.T) {
	run := onerun.Run{Job: "daily", Attempt: 2, Lock: onerun.JobLock("daily"), Execution: onerun.Execution{Worker: onerun.Worker{Label: "later", PID: 7}}}
	run.Status = onerun.Succeeded
	seen := onerun.Observation{
		Event: onerun.EventLateOutcome, Run: run, Lease: onerun.Lease{Lock: onerun.JobLock("other"), Attempt: 9}, LockPath: "/locks/other.lock",
		Delivery: &onerun.Delivery{Kind: onerun.DeliveredKept, Attempt: 1, Run: run},
	}
	f := Fields(seen, Beside{})
	if value(f, "attempt") != "1" || value(f, "worker") != "" || value(f, "lock_path") != "" || value(f, "status") != "SUCCEEDED" {
		t.Errorf("fields: %v", f)
	}
	if Level(seen) != slog.LevelError {
		t.Errorf("an end that was only kept is at level %s", Level(seen))
	}
	seen.Delivery = &onerun.Delivery{Kind: onerun.DeliveredApplied, Attempt: 2, Run: run}
	seen.Lease.Lock = run.Lock
	f = Fields(seen, Beside{})
	if value(f, "attempt") != "2" || value(f, "worker") != "later" || value(f, "pid") != "7" || value(f, "lock_path") != "/locks/other.lock" {
		t.Errorf("fields: %v", f)
	}
	if Level(seen) != slog.LevelWarn {
		t.Errorf("a late end is at level %s", Level(seen))
	}
}
