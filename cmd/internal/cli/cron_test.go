package cli

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// crontab is a user's: settings, and lines whose commands cron gives to its shell.
const crontab = `
# m h dom mon dow  command
ONERUN_STORE=sqlite:DIR/store
PATH=BIN:/usr/bin:/bin
*/5 * * * *  onerun run fetch-rates -- DIR/job fetched
0 1 * * *    onerun run daily-settlement --date 2026-09-15 -- DIR/job "settled $(date -u +\%Z | tr A-Z a-z)"
`

// cronJob says that it is there by the file up, and ends when it can read a line from gate.
const cronJob = `#!/bin/sh
echo "$1" >>DIR/did
: >DIR/up
read go <DIR/gate
`

// cron is the part of cron(8) that executes a line: see crontab(5).
type cron struct {
	*bed
	gate  *os.File
	env   []string
	lines []string
}

func newCron(t *testing.T) *cron {
	t.Helper()
	c := &cron{bed: newBed(t)}
	fill := strings.NewReplacer("DIR", c.dir, "BIN", bin)
	if err := os.WriteFile(c.path("job"), []byte(fill.Replace(cronJob)), 0o700); err != nil {
		t.Fatal(err)
	}
	err := exec.Command("mkfifo", c.path("gate")).Run()
	if err == nil {
		c.gate, err = os.OpenFile(c.path("gate"), os.O_RDWR, 0) // both ends: nobody waits in open(2)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.gate.Close() })
	// cron gives its jobs these and no more, then the crontab's settings
	c.env = []string{"HOME=" + c.dir, "LOGNAME=somebody", "SHELL=/bin/sh", "PATH=/usr/bin:/bin"}
	for line := range strings.Lines(fill.Replace(crontab)) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0][0] == '#':
		case strings.Contains(fields[0], "="):
			c.env = append(c.env, line)
		default:
			rest := line
			for range 5 { // the time
				_, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
			}
			c.lines = append(c.lines, strings.ReplaceAll(strings.TrimLeft(rest, " "), `\%`, "%"))
		}
	}
	c.bed.env = c.env // the commands that look have what cron's jobs have
	return c
}

// fire starts a line as cron does. What it prints cron would mail.
func (c *cron) fire(line int) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", c.lines[line])
	cmd.Dir, cmd.Env = c.dir, append(slices.Clip(c.env), "TMPDIR="+tmp)
	return cmd
}

// began fires a line whose job then runs, and returns when it does, with its wrapper.
func (c *cron) began(t *testing.T, line int) *proc {
	t.Helper()
	p := launch(t, c.fire(line))
	if !eventually(func() bool { return os.Remove(c.path("up")) == nil }) {
		t.Fatalf("the job has not begun; %s", p.err.String())
	}
	return p
}

func (c *cron) letGo(t *testing.T) {
	t.Helper()
	if _, err := c.gate.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
}

// A job that runs every five minutes, and one for each business date, are fired again and
// again beside a long run of theirs, and beside the death of its wrapper. Cron mails what
// somebody should read and nothing else, and the record tells what happened.
func TestCrontabLine(t *testing.T) {
	c := newCron(t)
	long := c.began(t, 0)
	for range 4 {
		outcome(c.fire(0)).exits(t, 0).silent(t)
	}
	c.kill(t, "fetch-rates", long)
	// The next start takes over, which is news, and runs.
	next := c.began(t, 0)
	outcome(c.fire(0)).exits(t, 0).silent(t)
	c.letGo(t)
	if code := next.wait(); code != 0 || strings.Count(next.err.String(), "\n") != 1 || !strings.Contains(next.err.String(), "event=taken_over") {
		t.Errorf("after the kill: %d, mail: %s", code, next.err.String())
	}
	if runs := summaries(c.list(t, "history", "fetch-rates")); runs != "SUCCEEDED 1 skips; FAILED owner_died 4 skips" {
		t.Errorf("history: %s", runs)
	}
	c.says(t, "fetch-rates would run now\n", "explain", "fetch-rates")

	long = c.began(t, 1)
	for range 3 {
		outcome(c.fire(1)).exits(t, 0).silent(t)
	}
	c.says(t, "daily-settlement:2026-09-15 would not run now: it is running\n", "explain", "daily-settlement")
	c.kill(t, "daily-settlement", long)
	// What became of the settlement is not known, so it is not done again by itself: cron
	// mails that once, with the command to type.
	r := outcome(c.fire(1)).exits(t, 79)
	if !strings.Contains(r.err, `reason=failed`) || !strings.Contains(r.err, `next="onerun rerun daily-settlement:2026-09-15 --reason TEXT, or: `) {
		t.Errorf("mail: %s", r.err)
	}
	c.says(t, "daily-settlement:2026-09-15 would not run now: it has failed and no retry is left\n", "explain", "daily-settlement")
	c.run("rerun", "daily-settlement:2026-09-15", "--reason", "looked: nothing was booked").exits(t, 0)
	again := c.began(t, 1)
	outcome(c.fire(1)).exits(t, 0).silent(t)
	c.letGo(t)
	if code := again.wait(); code != 0 || again.err.String() != "" {
		t.Errorf("the rerun: %d, mail: %s", code, again.err.String())
	}
	for range 3 {
		outcome(c.fire(1)).exits(t, 0).silent(t)
	}
	c.says(t, "daily-settlement:2026-09-15 would not run now: it has succeeded, and a success is not executed again\n", "explain", "daily-settlement")
	if runs := summaries(c.list(t, "history", "daily-settlement")); runs != "SUCCEEDED 8 skips" {
		t.Errorf("history: %s", runs)
	}
	shown := c.object(t, "show", "daily-settlement:2026-09-15")
	if got := summaries(objects(shown["attempts"])); got != "FAILED owner_died; SUCCEEDED" {
		t.Errorf("attempts: %s", got)
	}
	reasons := map[any]float64{}
	for _, s := range objects(shown["skipped"]) {
		reasons[s["reason"]] += s["count"].(float64)
	}
	if len(reasons) != 3 || reasons["running"] != 4 || reasons["failed"] != 1 || reasons["succeeded"] != 3 {
		t.Errorf("skips: %v", reasons)
	}
	if got, want := c.read("did"), "fetched\nfetched\nsettled utc\nsettled utc\n"; got != want {
		t.Errorf("the jobs did %q, want %q", got, want)
	}
}

// kill is kill -9 of the onerun that owns the job's run, as the record has it, to the end
// of the job too.
func (c *cron) kill(t *testing.T, job string, fired *proc) {
	t.Helper()
	rows := c.list(t, "status", job)
	if len(rows) != 1 || rows[0]["pid"] == nil {
		t.Fatalf("status: %v", rows)
	}
	pid := int(rows[0]["pid"].(float64))
	group := 0
	if !eventually(func() bool { group = notedGroup(c.path("store/locks"), pid); return group != 0 }) {
		t.Fatalf("no lock file names the job of %d", pid)
	}
	// All at once, as by a loss of power: a guard that is left would record the end itself. A
	// stopped wrapper starts no other.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, child := range childrenOf(pid) {
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	fired.wait()
	if !eventually(func() bool { return members(group) == 0 }) {
		t.Fatalf("process group %d outlives its wrapper", group)
	}
}

func (b *bed) says(t *testing.T, want string, args ...string) {
	t.Helper()
	if r := b.run(args...); r.code != 0 || !strings.HasPrefix(r.out, want) {
		t.Errorf("%q says %q, want %q", args, r.out, want)
	}
}

func objects(v any) (rows []map[string]any) {
	for _, x := range v.([]any) {
		rows = append(rows, x.(map[string]any))
	}
	return rows
}

// summaries are runs, or attempts, in a few words each.
func summaries(rows []map[string]any) string {
	var words []string
	for _, r := range rows {
		s := r["status"].(string)
		if r["reason"] != nil {
			s += " " + r["reason"].(string)
		}
		if n, ok := r["skips"].(float64); ok {
			s += fmt.Sprintf(" %.0f skips", n)
		}
		words = append(words, s)
	}
	return strings.Join(words, "; ")
}
