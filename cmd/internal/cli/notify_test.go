package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// holds fails for each field of a message that isn't as wanted.
func holds(t testing.TB, m, want map[string]any) {
	t.Helper()
	for field, w := range want {
		if m[field] != w {
			t.Errorf("%v: %s is %v, want %v", m["event"], field, m[field], w)
		}
	}
}

// TestNotifyFailure: who is to be told of a failure gets all that the ledger has of it, what to
// type, and the end of what it printed.
func TestNotifyFailure(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	b.run("run", "settle", "--date", "2026-09-15", "--namespace", "prod", "--notify", r.URL+"/x", "--version-label", "v7", "--label", "team=pay",
		"--worker-label", "box", "--", "sh", "-c", "head -c 9000 /dev/zero | tr '\\0' x; echo; echo the last line; exit 3").exits(t, 3)
	m := r.told(t, "failure")
	run := b.object(t, "show", "settle:2026-09-15", "--namespace", "prod")
	for _, field := range []string{
		"namespace", "job", "key", "business_date", "run_id", "attempt", "status", "reason", "exit_code", "signal", "error",
		"started_at", "finished_at", "worker", "host", "next_retry_at", "version_label",
	} {
		if fmt.Sprint(m[field]) != fmt.Sprint(run[field]) && field != "finished_at" {
			t.Errorf("%s is %v, and %v in show", field, m[field], run[field])
		}
	}
	holds(t, m, map[string]any{"status": "FAILED", "reason": "exit", "exit_code": 3.0, "holder": nil, "version_label": "v7", "worker": "box"})
	for _, field := range []string{"time", "started_at", "finished_at"} {
		if typeOf(m[field]) != "time" {
			t.Errorf("%s is %v", field, m[field])
		}
	}
	if labels := m["labels"].(map[string]any); labels["team"] != "pay" {
		t.Errorf("labels are %v", labels)
	}
	if m["title"] != fmt.Sprintf("[prod] settle:2026-09-15 failed on %s: exit code 3", m["host"]) {
		t.Errorf("the title is %q", m["title"])
	}
	for _, line := range []string{" show settle:2026-09-15", " logs settle:2026-09-15", " rerun settle:2026-09-15 --reason TEXT"} {
		if !strings.Contains(m["text"].(string), "\nonerun --namespace prod"+line) {
			t.Errorf("the text doesn't say to type %q: %s", line, m["text"])
		}
	}
	if out := m["output"].(string); len(out) != 4096 || !strings.HasSuffix(out, "\nthe last line\n") {
		t.Errorf("the output has %d bytes and ends with %.30q", len(out), out[max(0, len(out)-30):])
	}
	r.silent(t)

	// A job that never started failed too.
	b.run("run", "settle", "--notify", r.URL, "--", "./no-such-command").exits(t, 127)
	holds(t, r.told(t, "failure"), map[string]any{"reason": "not_found", "exit_code": 127.0, "key": nil, "output": nil})
}

// TestNotifyRefusals: a start that is blocked is told of, an everyday skip only on demand, and equal
// ones by the rule of the log.
func TestNotifyRefusals(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	b.run("run", "settle", "--partition", "p", "--", "false").exits(t, 1)
	var counts []any
	for range 9 {
		b.run("run", "settle", "--partition", "p", "--notify", r.URL, "--", "true").exits(t, 79)
	}
	for range 4 {
		m := r.told(t, "blocked")
		holds(t, m, map[string]any{"reason": "failed", "key": "settle:p", "status": "FAILED", "attempt": 1.0, "exit_code": nil, "output": nil})
		if !strings.Contains(m["holder"].(string), "settle:p by ") || !strings.Contains(m["text"].(string), "onerun rerun settle:p --reason TEXT") {
			t.Errorf("it says %v, holder %v", m["text"], m["holder"])
		}
		counts = append(counts, m["count"])
	}
	if !slices.Equal(counts, []any{1.0, 2.0, 4.0, 8.0}) {
		t.Errorf("told at the counts %v", counts)
	}
	r.silent(t)

	b.run("run", "settle", "--partition", "q", "--notify", r.URL, "--", "true").exits(t, 0)
	b.run("run", "settle", "--partition", "q", "--notify", r.URL, "--", "true").exits(t, 0)
	r.silent(t)
	b.run("run", "settle", "--partition", "q", "--notify", r.URL, "--notify-on", "failure,skip", "--", "true").exits(t, 0)
	holds(t, r.told(t, "skip"), map[string]any{"reason": "succeeded", "status": "SUCCEEDED", "count": 2.0})
	b.run("run", "settle", "--partition", "q", "--notify", r.URL, "--notify-on", "skip", "--", "true").exits(t, 0)
	r.silent(t)

	// What isn't asked for isn't told.
	b.run("run", "settle", "--partition", "p", "--notify", r.URL, "--notify-on", "failure,skip,late,recovery", "--", "true").exits(t, 79)
	b.run("run", "settle", "--partition", "f", "--notify", r.URL, "--notify-on", "blocked", "--", "false").exits(t, 1)
	r.silent(t)
}

// TestNotifyRetry: a failure that will be tried again says when; of the success that follows there is a
// message, which a success alone never is.
func TestNotifyRetry(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	job := []string{"--", "sh", "-c", "test $ONERUN_ATTEMPT -gt 1 || exit 3"}
	b.run(append([]string{"run", "settle", "--partition", "p", "--retries", "1", "--backoff", "10ms", "--notify", r.URL}, job...)...).exits(t, 0)
	m := r.told(t, "failure")
	if holds(t, m, map[string]any{"attempt": 1.0}); typeOf(m["next_retry_at"]) != "time" || strings.Contains(m["text"].(string), " rerun ") {
		t.Errorf("next retry at %v: %v", m["next_retry_at"], m["text"])
	}
	holds(t, r.told(t, "recovery"), map[string]any{"attempt": 2.0, "status": "SUCCEEDED", "exit_code": 0.0, "key": "settle:p"})

	// Left to a later start.
	b.run(append([]string{"run", "settle", "--partition", "q", "--retries", "1", "--backoff", "1h", "--retry-later", "--notify", r.URL}, job...)...).exits(t, 3)
	if m := r.told(t, "failure"); m["next_retry_at"] != b.object(t, "show", "settle:q")["next_retry_at"] || m["next_retry_at"] == nil {
		t.Errorf("next retry at %v", m["next_retry_at"])
	}

	// An unkeyed job, whose retry is a run of its own.
	b.run("run", "fetch", "--retries", "1", "--backoff", "10ms", "--notify", r.URL, "--", "sh", "-c", "test -e done || { touch done; exit 4; }").exits(t, 0)
	if m := r.told(t, "failure"); typeOf(m["next_retry_at"]) != "time" || m["exit_code"] != 4.0 {
		t.Errorf("next retry at %v, exit code %v", m["next_retry_at"], m["exit_code"])
	}
	r.told(t, "recovery")
	b.run("run", "fetch", "--notify", r.URL, "--", "true").exits(t, 0)
	b.run("run", "fetch", "--notify", r.URL, "--notify-on", "failure", "--", "false").exits(t, 1)
	r.told(t, "failure")
	b.run("run", "fetch", "--notify", r.URL, "--notify-on", "failure", "--", "true").exits(t, 0)
	b.run("run", "other", "--partition", "p", "--notify", r.URL, "--", "true").exits(t, 0)
	r.silent(t)
}

// TestNotifyLate: a run that goes on past its time is told of once, while it runs.
func TestNotifyLate(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	p := b.start("run", "settle", "--partition", "p", "--stale-after", "50ms", "--notify", r.URL, "--", "sh", "-c", "read x")
	m := r.told(t, "late")
	holds(t, m, map[string]any{"status": "RUNNING", "key": "settle:p", "attempt": 1.0, "finished_at": nil, "exit_code": nil})
	if !strings.Contains(m["text"].(string), "onerun stop settle:p --reason TEXT") {
		t.Errorf("it says %v", m["text"])
	}
	_ = p.in.Close()
	if code := p.wait(); code != 1 {
		t.Errorf("exit status %d", code)
	}
	r.told(t, "failure")
	r.silent(t)
}

// TestNotifyOfTheDead: the start that finds a run dead tells of it.
func TestNotifyOfTheDead(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	p := b.start("run", "settle", "--partition", "p", "--", "sh", "-c", "echo up; read x")
	p.says("up")
	guardOf(t, p, 0)
	p.signal(19) // SIGSTOP: or it would start another guard
	p.signalGuard(9)
	p.die()
	b.run("run", "settle", "--partition", "q", "--notify", r.URL, "--", "true").exits(t, 0)
	holds(t, r.told(t, "failure"), map[string]any{"key": "settle:p", "reason": "owner_died", "status": "FAILED", "attempt": 1.0})
	r.silent(t)
}

// TestNotifyCommand: a command gets the same document on its standard input, and the gist of it in
// its environment.
func TestNotifyCommand(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	b.run("run", "settle", "--partition", "p", "--notify", r.URL, "--notify",
		`command:cat >told; echo "$ONERUN_EVENT $ONERUN_KEY $ONERUN_RUN_ID $ONERUN_REASON $ONERUN_TITLE" >gist; echo noise; echo noise >&2`,
		"--", "sh", "-c", "exit 3").exits(t, 3)
	l := r.next(t)
	if told := b.read("told"); told != string(l.body) {
		t.Errorf("the command was told %s, the webhook %s", told, l.body)
	}
	m := l.message(t)
	if gist, want := b.read("gist"), fmt.Sprintf("failure settle:p %s exit %s\n", m["run_id"], m["title"]); gist != want {
		t.Errorf("its environment: %q, want %q", gist, want)
	}
	// What it prints goes nowhere; when it fails, its last line is told.
	if res := b.run("run", "fetch", "--notify", "command:echo noise; exit 0", "--", "false"); strings.Contains(res.err+res.out, "noise") {
		t.Errorf("it printed %s%s", res.out, res.err)
	}
	res := b.run("run", "fetch", "--notify", "command:echo first; echo password=c4n4ry >&2; exit 9", "--", "false").exits(t, 1)
	line := notifyFailed(t, res.err)
	if !strings.Contains(line, "level=warn") || !strings.Contains(line, `detail="failure to command:"`) || !strings.Contains(line, `error="exit status 9: password=***"`) {
		t.Errorf("it says %s", line)
	}
}

// notifyFailed is the one line of the log about a message that could not be sent.
func notifyFailed(t testing.TB, errs string) (line string) {
	t.Helper()
	n := 0
	for l := range strings.Lines(errs) {
		if strings.Contains(l, "event=notify_failed") {
			line, n = l, n+1
		}
	}
	if n != 1 {
		t.Errorf("%d lines about what could not be sent: %s", n, errs)
	}
	return line
}

// TestNotifyFromFiles: addresses from a file of their own, from the configuration file, and typed ones
// before those; backfill and rerun tell too.
func TestNotifyFromFiles(t *testing.T) {
	t.Parallel()
	b, r, other := newBed(t), newReceiver(t, nil), newReceiver(t, nil)
	for name, text := range map[string]string{
		"urls": "# ours\n\n" + r.URL + "/file\n  command:cat >told  \n",
		"ping": r.URL + "/ping\n",
		"conf": "defaults: {notify: [\"@urls\", \"" + r.URL + "/conf\"], notify_on: [failure, skip]}\njobs: {quiet: {notify: []}, pinged: {notify: [], ping: \"@ping\"}}\n",
	} {
		if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths := func(n int) (all []string) {
		for range n {
			all = append(all, r.next(t).path)
		}
		slices.Sort(all)
		return all
	}
	b.run("run", "settle", "--notify", "@urls", "--", "false").exits(t, 1)
	if got := paths(1); got[0] != "/file" || !strings.Contains(b.read("told"), `"event":"failure"`) {
		t.Errorf("told %q, and the command %q", got, b.read("told"))
	}
	b.run("run", "settle", "--config", "conf", "--", "false").exits(t, 1)
	if got := paths(2); !slices.Equal(got, []string{"/conf", "/file"}) {
		t.Errorf("told %q", got)
	}
	b.run("run", "settle", "--config", "conf", "--notify", other.URL, "--", "false").exits(t, 1)
	other.told(t, "failure")
	b.run("run", "quiet", "--config", "conf", "--", "false").exits(t, 1)
	b.run("run", "pinged", "--config", "conf", "--", "true").exits(t, 0)
	if got := paths(2); !slices.Equal(got, []string{"/ping", "/ping/start"}) {
		t.Errorf("pinged %q", got)
	}
	b.run("backfill", "settle", "--from", "2026-09-15", "--to", "2026-09-16", "--config", "conf", "--keep-going", "--", "false").exits(t, 1)
	if got := paths(4); !slices.Equal(got, []string{"/conf", "/conf", "/file", "/file"}) {
		t.Errorf("backfill told %q", got)
	}
	b.run("backfill", "settle", "--from", "2026-09-17", "--to", "2026-09-17", "--notify", other.URL+"/a", "--notify", other.URL+"/b", "--", "false").exits(t, 1)
	other.told(t, "failure")
	other.told(t, "failure")
	b.run("rerun", "settle:2026-09-17", "--reason", "test", "--notify", other.URL, "--", "true").exits(t, 0)
	other.told(t, "recovery")
	r.silent(t)
	other.silent(t)
}

// TestNotifyCommandStops: a signal to onerun while it sends ends the command with all that it has
// started.
func TestNotifyCommandStops(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "settle", "--notify", "command:sleep 600 & echo $! >child; wait", "--", "false")
	child := b.pidIn(t, "child")
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.wait(); code != 143 {
		t.Errorf("it ended with %d", code)
	}
	if !eventually(func() bool { return !runs(child) }) {
		t.Error("what the command has started lives on")
	}
}
