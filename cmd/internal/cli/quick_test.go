package cli

import (
	"io"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// slowly parses by kong alone.
func slowly(args []string) (command, common, bool) {
	e := &env{out: io.Discard, err: io.Discard}
	_, cmd, _, err := parseAll(args, e)
	return cmd, e.common, cmd != nil && err == nil
}

// TestQuickly: whatever the quick parser accepts, kong accepts too, and understands in
// the same way. Words are drawn so that most lines are nearly right.
func TestQuickly(t *testing.T) {
	words := []string{
		"J", "--", "true", "-n", "-w", "5", "forever", "2d", "--wait=3s", "--partition", "p", "--partition=p1", "--date", "2026-09-15", "--tz", "UTC",
		"--scope", "key", "job", "--scope=elsewhere", "--lock", "L", "--lock-mode", "create", "--order", "fifo", "--order=any", "--ttl", "90", "-E", "75", "--skip-code=3", "--blocked-code",
		"--label", "a=b", "--on-crash", "manual", "-c", "a | b", "--timeout=1m", "--grace", "bad", "--store", "sqlite:x", "--namespace", "staging", "--log-format=json",
		"--log-level", "info", "--help", "--no-such", "-x", "", "-", "--version-label", "v1", "--finish-wait", "0", "--lock-dir", "/x", "--stale-after", "1h30m",
		"--conflict-code", "-9", "--store-timeout", "1s", "--if-unavailable", "skip", "--par", "--retries", "3", "--retries=-1", "--backoff", "1s..2m", "--backoff=5s", "2m..1s", "--retry-later", "--retry-lost", "--no-wait", "--no-wait=false", "--log-paths", "short",
		"--notify", "https://h/x", "--notify=command:x", "--notify-on", "late,skip", "--notify-on=skip", "failure", "--ping", "@file", "--ping=", "--textfile-dir", "--textfile-dir=d",
		"--output", "never", "on-failure", "--capture", "none", "1K", "--capture=2M",
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"run", "lock"}).Draw(t, "command")
		args := rapid.SliceOfN(rapid.SampledFrom(words), 0, 9).Draw(t, "args")
		if rapid.Bool().Draw(t, "named") {
			args = append([]string{"J"}, args...)
		}
		e, cmd := &env{}, lookup(name).make()
		if !quickly(args, e, cmd) {
			return
		}
		accepted++
		want, wantCommon, ok := slowly(append([]string{name}, args...))
		if !ok {
			t.Fatalf("%s %q: accepted quickly, refused by kong", name, args)
		}
		if !reflect.DeepEqual(cmd, want) || !reflect.DeepEqual(e.common, wantCommon) {
			t.Fatalf("%s %q:\nquickly %+v %+v\nkong    %+v %+v", name, args, cmd, e.common, want, wantCommon)
		}
	})
	if accepted == 0 {
		t.Error("nothing was accepted: the test shows nothing")
	}
}

// TestQuicklyUsual: the lines that stand in crontabs are parsed quickly.
func TestQuicklyUsual(t *testing.T) {
	for _, line := range [][]string{
		{"run", "J", "--partition", "P", "--", "true"},
		{"run", "daily-settlement", "--date", "yesterday", "--tz", "Asia/Seoul", "--on-crash", "manual", "--timeout", "2h", "./settle", "--all"},
		{"run", "--store", "sqlite:/x", "J", "-w", "30s", "--scope", "key", "--period=hour", "--", "sh", "-c", "exit 3"},
		{"run", "J", "-c", "a | b"},
		{"run", "J", "--partition", "P", "--retries", "3", "--backoff", "10s..10m", "--retry-later", "--", "true"},
		{"run", "J", "--notify", "@/etc/onerun/ops", "--notify=command:x", "--notify-on", "failure,skip", "--ping", "@/etc/onerun/ping", "--", "true"},
		{"lock", "-n", "N", "--", "true"},
	} {
		if !quickly(line[1:], &env{}, lookup(line[0]).make()) {
			t.Errorf("%q is left to kong", line)
		}
	}
}
