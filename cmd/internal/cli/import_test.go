package cli

import (
	"os"
	"strings"
	"testing"
)

// put writes a file of the bed's.
func (b *bed) put(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// taken says that a configuration is one of the program's own: it reads the whole file, strictly, before it answers.
func (b *bed) taken(t *testing.T, text, job, command string) {
	t.Helper()
	b.put(t, "made.yaml", text)
	r := b.run("explain", job, "--settings", "--config", "made.yaml").exits(t, 0)
	for line := range strings.Lines(r.out) {
		if fields := strings.Fields(line); fields[0] == "command" {
			if !strings.Contains(line, command) {
				t.Errorf("%s executes %q, want %q", job, line, command)
			}
			return
		}
	}
	t.Errorf("%s has no command: %s", job, r.out)
}

func TestImportCrontab(t *testing.T) {
	b := newBed(t)
	b.put(t, "tab", "GREETING='good day'\n0 1 * * *\techo \"$GREETING\" 50\\%\n@reboot cat%warm\n")
	r := b.run("import", "crontab", "tab", "--tz", "Asia/Seoul").exits(t, 0)
	if r.err != "" || !strings.Contains(r.out, "\ntimezone: Asia/Seoul\n") || !strings.Contains(r.out, "# next: ") {
		t.Errorf("it says %q and\n%s", r.err, r.out)
	}
	b.taken(t, r.out, "echo", `export GREETING='good day'; echo "$GREETING" 50%`)
	// What is executed is what cron executes.
	if did := b.run("run", "echo", "--config", "made.yaml").exits(t, 0); did.out != "good day 50%\n" {
		t.Errorf("the job prints %q and %q", did.out, did.err)
	}
	if did := b.run("run", "cat", "--config", "made.yaml").exits(t, 0); did.out != "warm\n" {
		t.Errorf("the job prints %q and %q", did.out, did.err)
	}

	b.put(t, "tab", "0 1 * * * app /srv/a\n0 25 * * * app /srv/b\n#0 2 * * * app /srv/c\n")
	r = b.run("import", "crontab", "tab", "--system", "--tz", "UTC").exits(t, 1)
	if !strings.HasPrefix(r.err, "tab:2: the schedule ") || !strings.Contains(r.err, "\ntab:3: commented out, so not translated: ") || strings.Count(r.err, "\n") != 2 {
		t.Errorf("it reports %q", r.err)
	}
	b.taken(t, r.out, "a", "runuser -u app -- /bin/sh -c HOME=~app USER=app LOGNAME=app; export HOME USER LOGNAME; cd 2>/dev/null || cd /; /srv/a")
	r = b.run("import", "crontab", "tab", "--no-system", "--tz", "UTC").exits(t, 1)
	b.taken(t, r.out, "app", "app /srv/a")

	cmd := b.command("import", "crontab", "-", "--tz", "UTC")
	cmd.Stdin = strings.NewReader("@daily from-a-pipe")
	r = outcome(cmd).exits(t, 0)
	if !strings.HasPrefix(r.err, "standard-input:1: the last line has no newline") {
		t.Errorf("it reports %q", r.err)
	}
	b.taken(t, r.out, "from-a-pipe", "from-a-pipe")
}

func TestImportSystemd(t *testing.T) {
	b := newBed(t)
	b.put(t, "it.timer", "[Timer]\nOnCalendar=Sat *-*-1..7 18:00\nPersistent=true\nOnClockChange=yes\n")
	b.put(t, "it.service", "[Service]\nType=oneshot\nExecStart=/bin/echo 'it  is' done\nTimeoutStartSec=5min\n")
	r := b.run("import", "systemd", "it.timer", "--tz", "UTC").exits(t, 1)
	if !strings.HasPrefix(r.err, "it.timer:4: OnClockChange=yes ") {
		t.Errorf("it reports %q", r.err)
	}
	b.taken(t, r.out, "it", "/bin/echo it  is done")
	if did := b.run("run", "it", "--config", "made.yaml").exits(t, 0); did.out != "it  is done\n" {
		t.Errorf("the job prints %q and %q", did.out, did.err)
	}
}

func TestImportKubernetes(t *testing.T) {
	b := newBed(t)
	b.put(t, "k.yaml", `apiVersion: batch/v1
kind: CronJob
metadata: {name: it}
spec:
  schedule: "30 2 * * *"
  timeZone: America/New_York
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 200
  jobTemplate: {spec: {activeDeadlineSeconds: 60, template: {spec: {containers: [{name: c, image: i, command: [/bin/sh, -c, "echo here"]}]}}}}
`)
	r := b.run("import", "kubernetes", "k.yaml").exits(t, 0)
	if r.err != "" {
		t.Errorf("it reports %q", r.err)
	}
	b.taken(t, r.out, "it", "/bin/sh -c echo here")
	if did := b.run("run", "it", "--config", "made.yaml").exits(t, 0); did.out != "here\n" {
		t.Errorf("the job prints %q and %q", did.out, did.err)
	}
}

// TestImportRefuses: what is no usage, or can't be read, is said on one line, and nothing is written.
func TestImportRefuses(t *testing.T) {
	b := newBed(t)
	b.put(t, "tab", "@daily a\n")
	for _, c := range []struct {
		code int
		args []string
	}{
		{64, []string{"crontab"}},
		{64, []string{"at", "tab"}},
		{64, []string{"crontab", "tab", "--system", "--no-system"}},
		{64, []string{"systemd", "tab", "--system"}},
		{64, []string{"crontab", "tab", "--tz", "Mars/Crater"}},
		{78, []string{"crontab", "missing"}},
		{74, []string{"crontab", "store"}},
		{74, []string{"crontab", "/dev/tty"}},
	} {
		b.run(append([]string{"import"}, c.args...)...).exits(t, c.code).oneLine(t)
	}
	// A report is one line, whatever stands in the file.
	b.put(t, "tab", "x \x1b[2J\u2028 y password=hunter2 z\n")
	r := b.run("import", "crontab", "tab", "--tz", "UTC").exits(t, 1)
	if strings.Count(r.err, "\n") != 1 || strings.ContainsAny(r.err, "\x1b\u2028") || strings.ContainsAny(r.out, "\x1b\u2028") {
		t.Errorf("it reports %q and writes %q", r.err, r.out)
	}
}
