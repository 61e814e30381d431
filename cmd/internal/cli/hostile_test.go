package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestJobKillsItsWrapperAtOnce: a wrapper that died when its job was just started leaves
// it open whether the job ran. Nobody may take that for "it never started" and run it
// again: the date is blocked until a person has looked.
func TestJobKillsItsWrapperAtOnce(t *testing.T) {
	b := newBed(t)
	killer, effects := b.path("killer"), b.path("effects")
	if out, err := exec.Command("gcc", "-O1", "-o", killer, "testdata/killer.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	const keys = 80
	told := map[string]bool{} // a start that did nothing said so
	for i := range keys {
		key := fmt.Sprint("p", i)
		first := b.run("run", "pay", "--partition", key, "--", killer, effects, key)
		told[key] = first.code == exitBlocked
		b.run("run", "pay", "--partition", key, "--", "sh", "-c", `echo "$ONERUN_PARTITION" >> "$1"`, "sh", effects)
	}
	text, err := os.ReadFile(effects)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, key := range strings.Fields(string(text)) {
		times[key]++
	}
	for key, n := range times {
		if n != 1 {
			t.Errorf("%s was paid %d times", key, n)
		}
	}
	for key, blocked := range told {
		if times[key] == 0 && !blocked {
			t.Errorf("%s was not paid, and nobody was told", key)
		}
	}
}

// TestReaderOfTheLogIsGone: whoever reads onerun's own lines may go away, or stop
// reading, without any effect on the job, its record and the exit status.
func TestReaderOfTheLogIsGone(t *testing.T) {
	for _, reader := range []string{"gone", "stopped"} {
		for name, c := range map[string]struct {
			args   []string
			status int
			want   string
		}{
			"success": {[]string{"--", "true"}, 0, "SUCCEEDED"},
			"failure": {[]string{"--", "sh", "-c", "exit 3"}, 3, "FAILED"},
			"timeout": {[]string{"--timeout", "1", "--grace", "1", "--", "sleep", "60"}, 124, "FAILED"},
		} {
			t.Run(reader+"/"+name, func(t *testing.T) {
				b := newBed(t)
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = w.Close() }()
				if reader == "gone" {
					_ = r.Close()
				} else {
					defer func() { _ = r.Close() }()
					fill(t, w)
				}
				cmd := b.command(append([]string{"run", "J", "--date", "2026-09-15", "--log-level", "debug"}, c.args...)...)
				cmd.Stderr = w
				_ = cmd.Run()
				if got := cmd.ProcessState.ExitCode(); got != c.status {
					t.Errorf("status %d, want %d (%s)", got, c.status, cmd.ProcessState)
				}
				if runs := b.list(t, "history", "J"); len(runs) != 1 || runs[0]["status"] != c.want {
					t.Errorf("recorded as %v, want %s", runs, c.want)
				}
			})
		}
	}
}

// fill writes to a pipe until it takes no more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}
