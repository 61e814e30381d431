package cli

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/scheduler"
	"github.com/onerun-dev/onerun/schedule"
)

// TestLauncherResults: only what ended well needs no look into the ledger. Whatever else ended a process may have done so before its
// claim.
func TestLauncherResults(t *testing.T) {
	t.Parallel()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	dir := t.TempDir()
	if err := syscall.Mkfifo(dir+"/gate", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		script string
		want   scheduler.Result
	}{
		{"exit 0", scheduler.Ran},
		{"exit 3", scheduler.Unknown},
		{"exit 69", scheduler.Unknown},
		{"exit 2", scheduler.Unknown},
		{"kill -KILL $$", scheduler.Unknown},
		{"no program", scheduler.Unknown},
		{": >DIR/up; read go <DIR/gate", scheduler.Away},
	} {
		t.Run(c.script, func(t *testing.T) {
			path := dir + "/program"
			if c.script != "no program" {
				if err := os.WriteFile(path, []byte("#!/bin/sh\n"+strings.ReplaceAll(c.script, "DIR", dir)+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			} else {
				path += "-that-is-not-there"
			}
			var own children
			l := &launcher{program: path, file: file, children: &own, complain: func(error) {}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.want == scheduler.Away {
				go func() {
					eventually(func() bool { _, err := os.Stat(dir + "/up"); return err == nil })
					cancel()
				}()
				defer func() {
					if err := os.WriteFile(dir+"/gate", []byte("\n"), 0); err != nil {
						t.Error(err)
					}
					own.running.Wait()
				}()
			}
			if got := l.start(ctx, &scheduler.Fire{Job: &scheduler.Job{Name: "j"}, Slot: time.Now()}); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

// TestLauncherSkippedTime (B02): what a time stands for that the clock skips, its instant doesn't tell.
func TestLauncherSkippedTime(t *testing.T) {
	t.Parallel()
	nuuk, err := schedule.LoadZone("America/Nuuk")
	if err != nil {
		t.Fatal(err)
	}
	every, err := schedule.ParseCron("30 23 * * *")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec schedule.Spec
		slot string
		want string
	}{
		{schedule.Spec{Period: "day"}, "2026-03-29T01:00:00Z", "--date 2026-03-28"},
		{schedule.Spec{Date: "yesterday"}, "2026-03-29T01:00:00Z", "--date 2026-03-27"},
		{schedule.Spec{Period: "hour"}, "2026-03-29T01:00:00Z", "--partition 2026-03-28T23-02:00"},
		{schedule.Spec{Period: "day"}, "2026-03-30T00:30:00Z", ""},
		{schedule.Spec{}, "2026-03-29T01:00:00Z", "--partition 2026-03-29T01:00:00Z"},
	} {
		slot, err := time.Parse(time.RFC3339, c.slot)
		if err != nil {
			t.Fatal(err)
		}
		c.spec.Zone = "America/Nuuk"
		f, err := (&scheduler.Job{Name: "j", Schedule: schedule.Schedule{Cron: every, Zone: nuuk}, Spec: c.spec}).Try(slot)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.TrimSpace("run j --at " + c.slot + " " + c.want)
		if got := strings.Join((&launcher{}).args(f), " "); got != want {
			t.Errorf("%+v: %s, want %s", c.spec, got, want)
		}
	}
}
