package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newServe is a bed with a configuration file; DIR in its text is the bed's directory.
func newServe(t *testing.T, config string) *bed {
	t.Helper()
	b := newBed(t)
	b.write("onerun.yaml", config)
	b.env = append(b.env, "ONERUN_CONFIG="+b.path("onerun.yaml"))
	return b
}

func (b *bed) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), []byte(strings.ReplaceAll(text, "DIR", b.dir)), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// sees waits until the lines of a file are as wanted, and gives them.
func (b *bed) sees(name string, enough func(lines []string) bool) (lines []string) {
	b.t.Helper()
	if !eventually(func() bool {
		text, _ := os.ReadFile(b.path(name))
		lines = strings.Split(strings.TrimSpace(string(text)), "\n")
		return len(text) > 0 && enough(lines)
	}) {
		b.t.Fatalf("waited in vain for the file %s, which has %q", name, lines)
	}
	return lines
}

func atLeast(n int) func([]string) bool { return func(lines []string) bool { return len(lines) >= n } }

// serving is an `onerun serve`, whose lines go to a file: what it starts has them, too, and outlives it.
type serving struct {
	t   *testing.T
	cmd *exec.Cmd
	log string
}

func (b *bed) serve(t *testing.T, args ...string) *serving {
	t.Helper()
	return b.serveAs(t, b.command(append([]string{"serve"}, args...)...))
}

func (b *bed) serveAs(t *testing.T, cmd *exec.Cmd) *serving {
	t.Helper()
	s := &serving{t: t, cmd: cmd, log: b.path("serve.log")}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	err = s.cmd.Start()
	_ = log.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	return s
}

func (s *serving) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for its end.
func (s *serving) ends(code int) {
	s.t.Helper()
	if got := codeOf(s.cmd.Wait()); got != code {
		s.t.Errorf("exit status %d, want %d: %s", got, code, s.printed())
	}
}

func (s *serving) printed() string {
	text, _ := os.ReadFile(s.log)
	return string(text)
}

// TestServe: jobs start when they are due, by their keys and environment; what is killed with the scheduler is
// the scheduler alone; the next one goes on.
func TestServe(t *testing.T) {
	t.Parallel()
	b := newServe(t, `
timezone: UTC
jobs:
  tick: {schedule: "* * * * * *", command: [sh, -c, "echo $ONERUN_KEY $ONERUN_CONFIG ${ONERUN_SERVED-no} ${ONERUN_CONFIG_AS-no} >>DIR/ticks"]}
  once: {schedule: "@every 1s", period: day, shell: "echo $ONERUN_KEY $ONERUN_BUSINESS_DATE >>DIR/once"}
  boot: {schedule: "@reboot", shell: "echo $ONERUN_KEY >>DIR/boot"}
  long: {schedule: "@reboot", shell: "echo $$ >DIR/long; read x <DIR/gate; echo done >>DIR/long"}
  other: {command: [touch, DIR/unscheduled]}
`)
	if err := syscall.Mkfifo(b.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.serve(t)
	ticks := b.sees("ticks", atLeast(3))
	for _, line := range ticks {
		key, rest, _ := strings.Cut(line, " ")
		if at, err := time.Parse("tick:2006-01-02T15:04:05Z", key); err != nil || time.Since(at) > time.Minute || rest != b.path("onerun.yaml")+" no no" {
			t.Errorf("a job has %q", line)
		}
	}
	b.sees("boot", atLeast(1))
	b.sees("long", atLeast(1))
	p.signal(syscall.SIGKILL)
	p.ends(137)
	q := b.serve(t)
	before := len(b.sees("ticks", atLeast(1)))
	b.sees("ticks", atLeast(before+2))
	if err := os.WriteFile(b.path("gate"), []byte("\n"), 0); err != nil { // it has outlived its scheduler
		t.Fatal(err)
	}
	b.sees("long", atLeast(2))
	if !eventually(func() bool { return b.list(t, "history", "long")[0]["status"] == "SUCCEEDED" }) {
		t.Errorf("history: %v", b.list(t, "history", "long"))
	}
	q.signal(syscall.SIGTERM)
	q.ends(0)
	today := time.Now().UTC().Format(time.DateOnly)
	if lines := b.sees("once", atLeast(1)); lines[0] != "once:"+today+" "+today && lines[0] < "once:2" || len(b.list(t, "history", "once")) > 2 {
		t.Errorf("once a day: %q", lines)
	}
	if lines := b.sees("boot", atLeast(1)); len(lines) != 1 {
		t.Errorf("once per boot: %q", lines)
	}
	if _, err := os.Stat(b.path("unscheduled")); err == nil {
		t.Error("a job without a schedule was started")
	}
	seen := map[string]bool{}
	for _, line := range b.sees("ticks", atLeast(1)) {
		if seen[line] {
			t.Errorf("%s ran twice", line)
		}
		seen[line] = true
	}
}

// TestServeReload: SIGHUP takes over a file that is right; with a mistake in it everything goes on as it was, by the text
// as it was.
func TestServeReload(t *testing.T) {
	t.Parallel()
	file := "timezone: UTC\njobs:\n  tick: {schedule: \"* * * * * *\", shell: \"echo %s >>DIR/ticks\"%s}\n"
	b := newServe(t, fmt.Sprintf(file, "old", ""))
	p := b.serve(t)
	b.sees("ticks", atLeast(1))
	b.write("onerun.yaml", fmt.Sprintf(file, "broken", ", shedule: x"))
	p.signal(syscall.SIGHUP)
	n := len(b.sees("ticks", atLeast(1)))
	b.sees("ticks", atLeast(n+3))
	b.write("onerun.yaml", fmt.Sprintf(file, "new", ""))
	p.signal(syscall.SIGHUP)
	lines := b.sees("ticks", func(lines []string) bool { return lines[len(lines)-1] == "new" })
	for _, line := range lines {
		if line != "old" && line != "new" {
			t.Errorf("it ran %q", line)
		}
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
	if log := p.printed(); strings.Count(log, "reload_failed") != 1 || !strings.Contains(log, `did you mean \"schedule\"`) {
		t.Errorf("it printed %s", log)
	}
}

// TestServeDrain: --drain waits for what was started.
func TestServeDrain(t *testing.T) {
	t.Parallel()
	b := newServe(t, "jobs: {j: {schedule: \"@reboot\", shell: \"echo up >DIR/up; read x <DIR/gate; echo done >DIR/done\"}}\n")
	if err := syscall.Mkfifo(b.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.serve(t, "--drain", "5m")
	b.sees("up", atLeast(1))
	p.signal(syscall.SIGTERM)
	if err := os.WriteFile(b.path("gate"), []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	p.ends(0)
	if _, err := os.Stat(b.path("done")); err != nil {
		t.Error("it didn't wait for its job")
	}
}

// TestServeAlerts: whom notify names below alerts is told by the scheduler, and not by the job's own start as well.
func TestServeAlerts(t *testing.T) {
	t.Parallel()
	b := newServe(t, `
timezone: UTC
alerts: {ops: {url: "command:cat >>DIR/told"}}
jobs:
  bad: {schedule: "*/2 * * * * *", shell: "exit 3", notify: [ops]}
`)
	p := b.serve(t)
	told := b.sees("told", atLeast(1))
	for _, want := range []string{`"event":"failure"`, "exit 3", "onerun show bad:", `"exit_code":3`} {
		if !strings.Contains(told[0], want) {
			t.Errorf("the message lacks %s: %s", want, told[0])
		}
	}
	failed := func() int { return len(b.list(t, "history", "bad", "--status", "failed")) }
	n := failed()
	if !eventually(func() bool { return failed() >= n+3 }) {
		t.Fatal("it fails no more")
	}
	if told = b.sees("told", atLeast(1)); len(told) != 1 {
		t.Errorf("one failure that goes on was told %d times", len(told))
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
	b.run("run", "bad", "--partition", "by-hand").exits(t, 3) // without a scheduler the start tells
	if told = b.sees("told", atLeast(2)); len(told) != 2 {
		t.Errorf("told: %q", told)
	}
}

// TestServeRerun: a rerun that was approved is started, without waiting for the next fire of its key.
func TestServeRerun(t *testing.T) {
	t.Parallel()
	b := newServe(t, "jobs: {j: {schedule: \"@every 8760h\", partition: one, shell: \"echo $ONERUN_ATTEMPT >>DIR/ran\"}}\n")
	b.run("run", "j").exits(t, 0)
	p := b.serve(t)
	b.run("rerun", "j:one", "--reason", "two orders came late").exits(t, 0)
	if lines := b.sees("ran", atLeast(2)); lines[1] != "2" {
		t.Errorf("attempts: %q", lines)
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

// TestServeSystemd: it says when it is ready, reloads, and ends, and feeds the watchdog.
func TestServeSystemd(t *testing.T) {
	t.Parallel()
	b := newServe(t, "jobs: {j: {schedule: \"@reboot\", shell: \"test -z \\\"$NOTIFY_SOCKET\\\" && echo none >DIR/ran\"}}\n")
	path := filepath.Join(t.TempDir(), "n") // short enough for a socket's name
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	b.env = append(b.env, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=200000")
	p := b.serve(t)
	hears := func(want string) {
		t.Helper()
		if err := l.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		for buf := make([]byte, 4096); ; {
			n, err := l.Read(buf)
			if err != nil {
				t.Fatalf("waited in vain for %s: %v", want, err)
			}
			if strings.HasPrefix(string(buf[:n]), want) {
				return
			}
		}
	}
	hears("READY=1")
	hears("WATCHDOG=1")
	p.signal(syscall.SIGHUP)
	hears("RELOADING=1\nMONOTONIC_USEC=")
	hears("READY=1")
	b.sees("ran", atLeast(1))
	p.signal(syscall.SIGTERM)
	hears("STOPPING=1")
	p.ends(0)
}

// TestServeRefuses: a file with mistakes is refused as a whole, each with its line.
func TestServeRefuses(t *testing.T) {
	t.Parallel()
	b := newServe(t, `
alerts: {ops: {url: "command:true", on: [failure, sometimes]}, nobody: {remind: 1h}}
groups: {db: none}
jobs:
  a: {schedule: "61 * * * *", command: ["true"]}
  b: {schedule: "0 1 * * *", command: ["true"], catch_up: {policy: some, windo: 1h}}
  c: {schedule: "0 1 * * *", command: ["true"], overlap: "queue:0"}
  d: {schedul: "0 1 * * *", command: ["true"], jitter: soon}
`)
	r := b.run("serve", "--check").exits(t, 78)
	for _, want := range []string{":2:", "sometimes", ":3:", ":5:", ":6:", "windo", ":7:", "queue:0", ":8:", `did you mean "schedule"`, "soon"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("it doesn't say %q: %s", want, r.err)
		}
	}
	b.write("onerun.yaml", `
alerts: {nobody: {remind: 1h}}
jobs:
  a: {schedule: "0 1 * * *", command: ["true"]}
  b: {schedule: "0 1 * * *", tz: UTC}
  c: {schedule: "0 1 * * *", tz: UTC, command: ["true"], notify: [ops], group: db}
`)
	r = b.run("serve", "--check").exits(t, 78)
	for _, want := range []string{"nobody has no url", `no "ops" below alerts`, `no "db" below groups`, ":4:", "needs a zone", ":5:", "no command or shell"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("it doesn't say %q: %s", want, r.err)
		}
	}
	b.write("onerun.yaml", `
jobs:
  a: {schedule: "0 1 * * *", command: ["true"]}
  b: {schedule: "0 1 * * *", tz: UTC}
  c: {schedule: "0 1 * * *", tz: UTC, date: business-day, command: ["true"]}
`)
	r = b.run("serve", "--check").exits(t, 78)
	for _, want := range []string{":3:", "needs a zone", ":4:", "no command or shell", ":5:", "calendar"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("it doesn't say %q: %s", want, r.err)
		}
	}
	b.run("serve").exits(t, 78)
	b.env = b.env[:len(b.env)-1]
	b.run("serve").exits(t, 64).oneLine(t)
}

// TestCheckTooLong: what the kernel starts no program with is no command.
func TestCheckTooLong(t *testing.T) {
	t.Parallel()
	b := newServe(t, "")
	longest := strings.Repeat("#", 128<<10-1)
	text := "jobs:\n  j:\n    command:\n      - \"true\"\n      - \"%s\"\n"
	if got := checked(t, b, fmt.Sprintf(text, longest)); got != nil {
		t.Errorf("the longest is refused: %.200q", got)
	}
	b.run("run", "j").exits(t, 0)
	if got := checked(t, b, fmt.Sprintf(text, longest+"#")); len(got) != 1 || !strings.HasPrefix(got[0], "5:9: command: it has 131072 bytes") {
		t.Errorf("one more: %.200q", got)
	}
	if got := checked(t, b, "jobs: {j: {shell: \"true "+longest+"\"}}\n"); len(got) != 1 || !strings.HasPrefix(got[0], "1:19: shell: it has 131076 bytes") {
		t.Errorf("a shell line: %.200q", got)
	}
}

// TestSchema: the schema for editors that stands in docs is that of this program.
func TestSchema(t *testing.T) {
	t.Parallel()
	text, err := jsonSchema()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("../../../docs/onerun.schema.json")
	if err != nil || string(kept) != string(text) {
		t.Errorf("docs/onerun.schema.json is not what onerun serve --schema prints: %v", err)
	}
}

// TestNextJob: the fires of a file's jobs, with their keys' dates.
func TestNextJob(t *testing.T) {
	t.Parallel()
	b := newServe(t, `
timezone: Asia/Seoul
jobs:
  settle: {schedule: "0 1 * * *", period: day, date: yesterday, command: ["true"]}
  rates: {schedule: "0 */12 * * *", tz: UTC, command: ["true"]}
  none: {command: ["true"]}
`)
	got := b.list(t, "next", "settle", "--from", "2026-09-15", "--count", "2")
	if len(got) != 2 || got[0]["job"] != "settle" || got[0]["at"] != "2026-09-14T16:00:00Z" || got[0]["local"] != "2026-09-15T01:00:00+09:00" || got[0]["business_date"] != "2026-09-14" {
		t.Errorf("next settle: %v", got)
	}
	got = b.list(t, "next", "--from", "2026-09-15T00:00:00Z", "--count", "3")
	var order []string
	for _, f := range got {
		order = append(order, fmt.Sprint(f["job"], " ", f["at"]))
	}
	if s := strings.Join(order, ", "); s != "rates 2026-09-15T12:00:00Z, settle 2026-09-15T16:00:00Z, rates 2026-09-16T00:00:00Z" {
		t.Errorf("next: %s", s)
	}
	b.run("next", "none").exits(t, 1).oneLine(t)
	b.run("next", "settle", "--cron", "@daily").exits(t, 64).oneLine(t)
	for _, args := range [][]string{{"settle", "--tz", "UTC"}, {"--tz", "UTC"}, {"settle", "--dst", "skip"}} {
		if r := b.run(append([]string{"next"}, args...)...).exits(t, 64).oneLine(t); !strings.Contains(r.err, args[len(args)-2]+" goes with --cron") {
			t.Errorf("%q: %s", args, r.err)
		}
	}
}

// TestStart: a person asks for a start: one for each id, with who and why in the ledger.
func TestStart(t *testing.T) {
	t.Parallel()
	b := newServe(t, `
timezone: UTC
jobs:
  yearly: {schedule: "0 0 1 1 *", shell: "echo $ONERUN_KEY >>DIR/ran", label: {team: money}}
`)
	says := func(want string, code int, args ...string) {
		t.Helper()
		if r := b.run(append([]string{"start", "yearly"}, args...)...).exits(t, code); !strings.Contains(r.out+r.err, want) {
			t.Errorf("%q says %q and %q, want %q", args, r.out, r.err, want)
		}
	}
	says("no scheduler has ever had the job yearly", 1, "--reason", "why")
	p := b.serve(t)
	if !eventually(func() bool { // asked again, it is the same request
		r := b.run("start", "yearly", "--request-id", "r1", "--reason", "the bank asked")
		return r.code == 0 && strings.Contains(r.out, "onerun show yearly:start+r1")
	}) {
		t.Fatal("no request is taken: ", p.printed())
	}
	for range 3 {
		says("onerun show yearly:start+r1", 0, "--request-id", "r1", "--reason", "again")
	}
	var o map[string]any
	if !eventually(func() bool {
		o = b.object(t, "start", "yearly", "--request-id", "r2", "--reason", "why")
		return o["key"] == "yearly:start+r2" && o["started"] == true
	}) {
		t.Errorf("as JSON: %v", o)
	}
	b.sees("ran", atLeast(2))
	var runs []map[string]any
	eventually(func() bool { runs = b.list(t, "history", "yearly", "--status", "SUCCEEDED"); return len(runs) == 2 })
	if len(runs) != 2 || len(b.sees("ran", atLeast(2))) != 2 {
		t.Fatalf("ran: %v", runs)
	}
	labels, _ := runs[1]["labels"].(map[string]any)
	if runs[1]["key"] != "yearly:start+r1" || labels["request_id"] != "r1" || labels["request_reason"] != "the bank asked" || labels["team"] != "money" || labels["requested_by"] == "" {
		t.Errorf("the run is %v", runs[1])
	}
	says("request id", 64, "--reason", "why", "--request-id", "a b")
	says("at most 60", 64, "--reason", "why", "--request-id", strings.Repeat("a", 61))
	says("--reason", 64)
	p.signal(syscall.SIGTERM)
	p.ends(0)
	says("waits: no scheduler has taken it yet", 0, "--request-id", "r3", "--reason", "why")
}
