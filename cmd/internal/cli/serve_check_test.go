package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/onerun-dev/onerun"
)

// checked is what serve --check says of a file, without the name of that.
func checked(t *testing.T, b *bed, text string) []string {
	t.Helper()
	b.write("onerun.yaml", text)
	r := b.run("serve", "--check")
	if r.code == 0 {
		return nil
	}
	r.exits(t, 78)
	lines := strings.Split(strings.TrimSpace(r.err), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "onerun: "+b.path("onerun.yaml:"))
	}
	return lines
}

// TestCheckFindsWhatNoRunMayHave: each mistake is told, with its place, by --check, and a start by hand refuses the same.
func TestCheckFindsWhatNoRunMayHave(t *testing.T) {
	t.Parallel()
	b := newServe(t, "")
	for _, c := range []struct {
		defaults, job, want string
		code                int // of a start by hand
	}{
		{"{on_crash: manual}", "if_unavailable: run", "4:58: if_unavailable: run and on_crash: manual contradict each other", 64},
		{"{if_unavailable: run, on_crash: manual}", "grace: 5s", "2:43: if_unavailable: run and on_crash: manual contradict each other", 64},
		{"{if_unavailable: run, on_crash: manual}", "on_crash: auto", "", 0},
		{"{}", "lock: x, scope: key", "4:58: lock and scope: key name two locks", 64},
		{"{lock: x}", "scope: key", "", 64}, // which needs a key; the schedule gives it one
		{"{}", "wait: 5m, no_wait: true", "4:61: no_wait and wait contradict each other", 64},
		{"{wait: 5m}", "no_wait: true", "", 0},
		{"{}", "period: week, date: today", "4:50: job j: period \"week\": --date names a day", 64},
		{"{}", "date: today, partition: x", "4:48: job j: date \"today\": --partition names the partition already", 64},
	} {
		text := fmt.Sprintf("timezone: UTC\ndefaults: %s\njobs:\n  j: {schedule: \"@daily\", shell: \"true\", %s}\n", c.defaults, c.job)
		got := checked(t, b, text)
		if c.want == "" && got != nil || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s\nsays %q\nwant %q", text, got, c.want)
		}
		b.run("run", "j").exits(t, c.code)
		if c.want != "" {
			b.run("next").exits(t, 78)
		}
		unscheduled := strings.Replace(text, "schedule: \"@daily\", ", "", 1)
		if got := checked(t, b, unscheduled); c.code == 64 && strings.Contains(c.want, "contradict") && len(got) != 1 {
			t.Errorf("without a schedule it says %q", got)
		}
	}
	if got := checked(t, b, "defaults: {on_crash: manual, if_unavailable: run}\njobs: {a: {shell: x}, b: {shell: y}, c: {shell: z}}\n"); len(got) != 1 {
		t.Errorf("what the defaults have wrong is told once: %q", got)
	}
}

// TestCheckReboot: the key of @reboot is the boot's id. What the defaults say of other jobs' keys is in nobody's way.
func TestCheckReboot(t *testing.T) {
	t.Parallel()
	b := newServe(t, "")
	const text = "defaults: {%s}\njobs:\n  j: {schedule: \"@reboot\", shell: \"true\"%s}\n"
	for _, key := range []string{"date: today", "date: 2026-09-15", "period: 1m", "partition: x", "period: day"} {
		if got := checked(t, b, fmt.Sprintf(text, key, "")); got != nil {
			t.Errorf("%s of the defaults: %q", key, got)
		}
		if got := checked(t, b, fmt.Sprintf(text, "", ", "+key)); len(got) != 1 || !strings.HasPrefix(got[0], "3:") || !strings.Contains(got[0], "the key of @reboot is the boot's id") {
			t.Errorf("%s of the job itself: %q", key, got)
		}
	}
}

// TestServeReboot: it runs once, whatever the period is that the defaults have, and whenever the scheduler starts.
func TestServeReboot(t *testing.T) {
	t.Parallel()
	b := newServe(t, "defaults: {period: day, tz: UTC, date: yesterday}\njobs: {j: {schedule: \"@reboot\", shell: \"echo $ONERUN_KEY >>DIR/ran\"}}\n")
	p := b.serve(t, "--drain", "1m")
	lines := b.sees("ran", atLeast(1))
	p.signal(syscall.SIGTERM)
	p.ends(0)
	if len(lines) != 1 || lines[0] != "j:boot-"+bootID() {
		t.Errorf("it ran as %q", lines)
	}
}

// TestCheckLooksAtWhatIsNamed: the store's URL, files with addresses, the address of the pages.
func TestCheckLooksAtWhatIsNamed(t *testing.T) {
	t.Parallel()
	b := newServe(t, "")
	b.write("urls", "# nobody\n")
	b.write("bad", "sekret://hunter2@x\n")
	b.write("shadow", "root:hunter2\n")
	b.write("good", "command:true\n")
	b.write("two", "http://a/b\nhttp://a/c\n")
	b.write("postgres", "postgress://u:hunter2@h/db\n")
	const wants = "needs the program onerun-full beside this one"
	for text, want := range map[string]string{
		"store: postgress://u:hunter2@h/db":      `1:8: store: store "postgress://***@h/db" has an unknown scheme`,
		"\nstore: '@postgres'":                   `2:8: store: store "postgress://***@h/db" has an unknown scheme`,
		"store: '@/nonexistent'":                 "1:8: store: file with the store's URL /nonexistent: no such file",
		"store: '@urls'\n":                       "1:8: store: the store's URL has no scheme",
		"store: '@shadow'\n":                     "1:8: store: the store's URL has an unknown scheme",
		"store: hunter2\n":                       "1:8: store: the store's URL has no scheme",
		"store: 'sqlite:x?network=no'":           "1:8: store: store sqlite:DIR/x?network=no: unknown setting",
		"store: 'sqlite:not/yet/there.db'":       "",
		"store: 'redis://:hunter2@h:bad/0'":      "1:8: store: store redis://***@h:bad/0: it " + wants,
		"store: etcd://h":                        "1:8: store: store etcd://h: it needs the program onerun-etcd",
		"listen: nonsense":                       `1:9: listen: "nonsense" is no address to listen at`,
		"listen: 'http://127.0.0.1:80'":          `1:9: listen: "http://127.0.0.1:80" is no address to listen at`,
		"listen: 127.0.0.1:99999":                `1:9: listen: "127.0.0.1:99999" is no address to listen at`,
		"listen: ':9180'":                        "",
		"listen: '[::1]:http'":                   "",
		"alerts: {ops: {url: '@missing'}}":       "1:21: url: file with URLs to tell DIR/missing: no such file",
		"alerts: {ops: {url: '@good'}}":          "",
		"alerts: {ops: {url: '@urls'}}":          "1:21: url: file with URLs to tell DIR/urls: there is none in it",
		"defaults: {ping: '@two'}":               "1:18: ping: file with URLs to tell DIR/two: there are 2 in it",
		"defaults: {notify: ['@good', '@bad']}":  `1:30: notify: file with URLs to tell DIR/bad: "sekret" is no way to tell anybody`,
		"jobs:\n  j:\n    ping: '@/nonexistent'": "3:11: ping: file with URLs to tell /nonexistent: no such file",
		"jobs:\n  j:\n    notify:\n      - command:true\n      - '@/nonexistent'": "5:9: notify: file with URLs to tell /nonexistent: no such file",
	} {
		want = strings.ReplaceAll(want, "DIR", b.dir)
		got := checked(t, b, text+"\n")
		if want == "" && got != nil || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%s\nsays %q\nwant %q", text, got, want)
		}
		if strings.Contains(strings.Join(got, ""), "hunter2") {
			t.Errorf("%s\ngives away its secret: %q", text, got)
		}
	}
	if got := checked(t, b, "store: mysql://h/db\ndefaults: {order: fifo}\n"); len(got) != 2 || !strings.Contains(got[1], "2:19: order: this store keeps no order") {
		t.Errorf("an order: %q", got)
	}
	cmd := b.command("serve", "--check", "--config", "/dev/stdin")
	cmd.Stdin = strings.NewReader("store: mysql://h/db\n")
	if r := outcome(cmd).exits(t, 0); !strings.Contains(r.out, "by its scheme alone") {
		t.Errorf("of what it can't look at it says %q", r.out)
	}
}

// TestMessagesStayWhole: what is masked of a message is what it repeats, and not onerun's own words beside that.
func TestMessagesStayWhole(t *testing.T) {
	t.Parallel()
	b := newServe(t, "")
	for text, want := range map[string]string{
		"alerts: {ops: {url: 'nonsense://x'}}":                                     `1:21: url: "nonsense" is no way to tell anybody; use http, https, command`,
		"defaults: {ping: 'http:'}":                                                "1:18: ping: the URL has no host; write http://HOST/PATH",
		"timezone: ../../etc/passwd":                                               `1:11: timezone: "../../etc/passwd": that is not the form of a zone name; give an IANA name`,
		"defaults: {day_start: 'password: hunter2'}":                               `1:23: day_start: "password: ***": that`,
		"store: '@/run/db-password'":                                               "1:8: store: file with the store's URL /run/db-password: no such file or directory",
		"jobs: {j: {schedule: '@daily', tz: UTC, shell: x, calendar: /no.passwd}}": "1:22: job j: calendar /no.passwd: no such file or directory; name",
	} {
		if got := checked(t, b, text+"\n"); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s\nsays %q\nwant %q", text, got, want)
		}
	}
	b.write("onerun.yaml", "{}\n")
	for want, args := range map[string][]string{
		`--tz "../../etc/passwd": that is not the form of a zone name`:          {"next", "--cron", "@daily", "--tz", "../../etc/passwd"},
		"file with the store's URL /run/db-password: no such file or directory": {"status", "--store", "@/run/db-password"},
	} {
		if r := b.run(args...).oneLine(t); !strings.HasPrefix(r.err, "onerun: "+want) {
			t.Errorf("%q says %s", args, r.err)
		}
	}
}

// TestToldMasks: what a message repeats splits no name of a secret from its value.
func TestToldMasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, cause, want string }{
		{"/etc/passwd", "permission denied", "read /etc/passwd: permission denied"},
		{"word", "password: hunter2", "read word: password: ***"},
		{"x?token=hunter2", "password=hunter2", "read x?token=***: password=***"},
		{"", "db-password: hunter2", "read: db-password: ***"},
	} {
		err := fmt.Errorf("the password: hunter2 of word: x: %w", &onerun.StoreError{Kind: onerun.ErrIO, What: "read", Path: c.path, Err: errors.New(c.cause)})
		if got := told(onerun.Redact, err); strings.Contains(got, "hunter2") || !strings.HasSuffix(got, c.want) && c.path != "word" {
			t.Errorf("%q: %s", c.path, got)
		}
		if got := told(onerun.Redact, errors.Unwrap(err)); got != c.want {
			t.Errorf("%q: %s, want %s", c.path, got, c.want)
		}
	}
}

// TestServeWithoutAnAddress: a file with an address that isn't there keeps no job from being started, and is told of.
func TestServeWithoutAnAddress(t *testing.T) {
	t.Parallel()
	b := newServe(t, "timezone: UTC\nalerts: {ops: {url: '@missing'}}\njobs: {j: {schedule: \"* * * * * *\", shell: \"echo >>DIR/ran\"}}\n")
	p := b.serve(t)
	b.sees("ran", func(lines []string) bool { return true })
	p.signal(syscall.SIGTERM)
	p.ends(0)
	if log := p.printed(); !strings.Contains(log, "unreadable") || !strings.Contains(log, "onerun.yaml:2:21") {
		t.Errorf("it printed %s", log)
	}
}

// TestServeNothing: a file in which nothing stands, as while it is being written, says nothing of the jobs.
func TestServeNothing(t *testing.T) {
	t.Parallel()
	b := newServe(t, "")
	for _, text := range []string{"", "\n", "# jobs:\n", "\ufeff---\n"} {
		if got := checked(t, b, text); len(got) != 1 || !strings.HasPrefix(got[0], "1:1: nothing stands in the file") {
			t.Errorf("%q: %q", text, got)
		}
		b.run("serve").exits(t, 78)
		b.run("run", "j", "--", "true").exits(t, 0) // which needs nothing of it
	}
	if got := checked(t, b, "jobs: {}\n"); got != nil {
		t.Errorf("no jobs: %q", got)
	}
	text := "timezone: UTC\njobs:\n  tick: {schedule: \"* * * * * *\", shell: \"echo x >>DIR/ticks\"}\n"
	b.write("onerun.yaml", text)
	p := b.serve(t)
	n := len(b.sees("ticks", atLeast(1)))
	b.write("onerun.yaml", "")
	p.signal(syscall.SIGHUP)
	eventually(func() bool { return strings.Contains(p.printed(), "reload_failed") })
	b.sees("ticks", atLeast(n+3))
	p.signal(syscall.SIGTERM)
	p.ends(0)
	if log := p.printed(); !strings.Contains(log, "reload_failed") {
		t.Errorf("it printed %s", log)
	}
}
