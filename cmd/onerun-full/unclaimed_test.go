package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/onerun-dev/onerun/internal/pgbed"
)

// briefly is how long a start waits for a store that is known to be out of reach.
var briefly = []string{"--store-timeout", "500ms"}

// anyway is a start that runs whether the store can be reached or not, and that doesn't wait long
// for it.
func anyway(key string, more ...string) []string {
	return patient(key, append(briefly, more...)...)
}

// patient is such a start when the store can be reached.
func patient(key string, more ...string) []string {
	job, partition, keyed := strings.Cut(key, ":")
	args := []string{"run", job, "--if-unavailable", "run", "--finish-wait", "1s"}
	if keyed {
		args = append(args, "--partition", partition)
	}
	return append(args, more...)
}

// until a file is there; for a job that is told to go on so.
const untilGo = "while test ! -e go; do sleep 0.02; done; "

// TestUnclaimed: a job runs although its store can't be reached, and knows that it has no token. Its
// end waits on this host, which refuses the key until it is delivered.
func TestUnclaimed(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	h.env = append(h.env, "ONERUN_TOKEN=outer")
	r := h.run(anyway("pay:a", "--label", "team=x", "-c", "env; exit 3")...).exits(t, 3)
	r.says(t, "ONERUN_KEY=pay:a", "ONERUN_RUN_ID=", "ONERUN_ATTEMPT=1", "level=warn event=claimed", "without a claim, since the store could not be asked",
		"not recorded yet", "onerun flush")
	if strings.Contains(r.out, "ONERUN_TOKEN") {
		t.Error("the job has a token")
	}
	h.run(anyway("pay:b", "--", "true")...).exits(t, 76)
	h.run(anyway("pay:b", "--", "touch", "twice")...).exits(t, 0)
	h.run(anyway("pay:b", "-E", "9", "--", "touch", "twice")...).exits(t, 9)
	h.run(anyway("pay:a", "--", "touch", "twice")...).exits(t, 79).says(t, "reason=failed", "onerun flush")
	h.run("run", "pay", "--partition", "c", "--store-timeout", "500ms", "--", "touch", "twice").exits(t, 69).oneLine(t)
	h.run("run", "pay", "--partition", "c", "--store-timeout", "500ms", "--if-unavailable", "skip", "-E", "9", "--", "touch", "twice").exits(t, 9).oneLine(t)
	if h.ran("twice") {
		t.Error("what was refused has run")
	}
	for _, args := range [][]string{{"status"}, {"explain", "pay:a"}, {"history"}, {"show", "pay:a"}} {
		h.run(append(args, briefly...)...).exits(t, 69).oneLine(t)
	}
	waits := h.run(append(briefly, "flush")...).exits(t, 69).says(t, "pay:a", "pay:b", "unclaimed, waits on")
	if strings.Count(waits.err, "\n") != 1 {
		t.Errorf("flush: %q", waits.err)
	}
	if len(h.spool()) != 2 {
		t.Fatalf("waiting: %v", h.spool())
	}

	g.open()
	h.run("flush").exits(t, 0).says(t, "pay:a", "FAILED", "pay:b", "SUCCEEDED", "unclaimed, applied", "event=late_outcome", "it ran without a claim, and is recorded now")
	if len(h.spool()) != 0 {
		t.Errorf("left: %v", h.spool())
	}
	h.run("flush").exits(t, 0).says(t, "nothing waits")
	show := h.shown("pay:a")
	labels, _ := show["labels"].(map[string]any)
	if show["status"] != "FAILED" || show["exit_code"] != 3.0 || show["token"] != nil || labels["team"] != "x" {
		t.Errorf("recorded: %v", show)
	}
	h.run("logs", "pay:a").exits(t, 0).says(t, "ONERUN_KEY=pay:a")
	h.run(patient("pay:b", "--", "touch", "twice")...).exits(t, 0)
	h.run(patient("pay:c", "--", "true")...).exits(t, 0)
	if h.ran("twice") {
		t.Error("a key that has succeeded has run again")
	}
}

// TestUnclaimedNotForErrors: a wrong password or database is no store that can't be reached, and
// what a person has to decide about can't begin without a claim.
func TestUnclaimedNotForErrors(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	g.open()
	config, err := os.ReadFile(h.path("onerun.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		old, new string
		code     int
	}{
		{"keeper:", "keeper:wr0ng", 77},
		{"/postgres?", "/nowhere?", 78},
		{"sslmode=disable", "sslmode=require", 78},
	} {
		if err := os.WriteFile(h.path("onerun.yaml"), []byte(strings.Replace(string(config), x.old, x.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		h.run(patient("pay:a", "--", "touch", "ran")...).exits(t, x.code).oneLine(t)
	}
	if err := os.WriteFile(h.path("onerun.yaml"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	g.shut()
	h.run("run", "pay", "--if-unavailable", "run", "--on-crash", "manual", "--", "touch", "ran").exits(t, 64).oneLine(t)
	if h.ran("ran") || len(h.spool()) > 0 {
		t.Errorf("it has run; spool %v", h.spool())
	}
}

// TestUnclaimedInside: what a job without a claim can't do it is told in one line, and goes on. What
// it reports is in its end.
func TestUnclaimedInside(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	h.run(anyway("pay:a", "-c", `
		onerun check 2>err1; echo check $?
		onerun item order-1 -- touch item 2>err2; echo item $?
		onerun report processed=3 failed=1 2>err3; echo report $?
		onerun report processed=+1 2>err3; echo report $?
		wc -l err1 err2 err3 | grep -v total
		exit 0`)...).exits(t, 76).says(t, "check 69\nitem 69\nreport 0\nreport 0\n", "1 err1", "1 err2", "1 err3")
	if h.ran("item") {
		t.Error("the item was begun")
	}
	h.run(anyway("pay:b", "-c", "onerun report skipped 'no orders'")...).exits(t, 76)
	g.open()
	h.run("flush").exits(t, 0)
	if show := h.shown("pay:a"); show["processed"] != 4.0 || show["failed"] != 1.0 {
		t.Errorf("recorded: %v", show)
	}
	if show := h.shown("pay:b"); show["status"] != "SKIPPED" {
		t.Errorf("recorded: %v", show)
	}
}

// TestUnclaimedBack: the store comes back while the job runs. Its end is recorded, and its exit code
// is its own; a retry is a later start's.
func TestUnclaimedBack(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	p := h.start(anyway("pay:a", "--retries", "1", "--backoff", "1h", "-c", "echo up >up; "+untilGo+"exit 5")...)
	h.sees("up")
	h.run(anyway("pay:a", "--", "touch", "twice")...).exits(t, 0)
	g.open() // the store doesn't know that it runs, and this host does
	h.run(patient("pay:a", "--", "touch", "twice")...).exits(t, 0)
	if locks := h.list("locks"); len(locks) != 1 || locks[0]["lock"] != "job/pay" {
		t.Errorf("locks: %v", locks)
	}
	h.write("go")
	p.wait().exits(t, 5).says(t, "event=late_outcome", "it ran without a claim, and is recorded now", "event=failed")
	if show := h.shown("pay:a"); show["status"] != "FAILED" || show["exit_code"] != 5.0 || len(h.spool()) != 0 {
		t.Errorf("recorded: %v; left %v", show, h.spool())
	}
	if h.ran("twice") {
		t.Error("it has run beside itself")
	}
}

// TestUnclaimedTwice: what another host has run meanwhile may have run twice, and that is said by
// whoever delivers it. The run stays what it is.
func TestUnclaimedTwice(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"wrapper", "flush", "claim"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			h, g := away(t)
			p := h.start(anyway("pay:a", "-c", "echo up >up; "+untilGo+"exit 5")...)
			h.sees("up")
			g.open()
			h.beside().run("run", "pay", "--partition", "a", "--", "true").exits(t, 0)
			if by != "wrapper" {
				g.shut()
			}
			h.write("go")
			said := p.wait().exits(t, 5)
			if by != "wrapper" {
				g.open()
			}
			switch by {
			case "flush":
				said = h.run("flush").exits(t, 0).says(t, "unclaimed, kept: it may have run twice")
			case "claim":
				said = h.run("run", "other", "--", "true").exits(t, 0)
			}
			said.says(t, "level=error event=late_outcome", "it may have run twice")
			show := h.shown("pay:a")
			if show["status"] != "SUCCEEDED" || len(h.spool()) != 0 {
				t.Errorf("recorded %v, left %v", show, h.spool())
			}
			if text, err := json.Marshal(show["events"]); err != nil || !strings.Contains(string(text), "late_outcome") {
				t.Errorf("journal %s", text)
			}
		})
	}
}

// TestUnclaimedRetries: there is one attempt, and no wait for another.
func TestUnclaimedRetries(t *testing.T) {
	t.Parallel()
	h, _ := away(t)
	h.run(anyway("pay:a", "--retries", "2", "--backoff", "1h", "-c", "echo x >>ran; exit 4")...).exits(t, 4)
	if text := h.sees("ran"); text != "x\n" {
		t.Errorf("it ran %q", text)
	}
	h.run(anyway("pay:a", "--", "touch", "twice")...).exits(t, 79)
}

// TestUnclaimedKilled: when its wrapper is killed, nothing of the job is left, and its end is
// in the spool: by the guard; and where that was killed too, by whoever comes next.
func TestUnclaimedKilled(t *testing.T) {
	t.Parallel()
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprintf("guard too %v", both), func(t *testing.T) {
			t.Parallel()
			h, g := away(t)
			p := h.start(anyway("pay:a", "-c", "sleep 1000 & echo $! >background; echo $$ >first; wait")...)
			first, background := h.sees("first"), h.sees("background")
			guard := h.guarded(p)
			if both {
				p.signal(syscall.SIGSTOP) // it would start another one
				if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			p.signal(syscall.SIGKILL)
			h.gone(first)
			if both {
				h.run(anyway("pay:a", "-E", "9", "--", "touch", "twice")...).exits(t, 9) // what is left of it runs
				if n, err := strconv.Atoi(strings.TrimSpace(background)); err != nil || syscall.Kill(n, syscall.SIGKILL) != nil {
					t.Fatal("what was left of it is gone")
				}
			}
			h.gone(background)
			if !both {
				h.gone(strconv.Itoa(guard))
				text, err := os.ReadFile(h.spool()[0])
				if err != nil || !strings.Contains(string(text), `"status":"FAILED","reason":"owner_died"`) {
					t.Errorf("in the spool: %.600s, error %v", strings.Join(strings.Fields(string(text)), " "), err)
				}
			}
			h.run(anyway("pay:a", "--", "touch", "twice")...).exits(t, 79).says(t, "reason=failed")
			g.open()
			h.run("flush").exits(t, 0).says(t, "unclaimed, applied", "FAILED")
			h.is("pay", "FAILED", "owner_died")
			if h.ran("twice") {
				t.Error("it has run twice")
			}
		})
	}
}

// TestUnclaimedKilledAtTheEnd: the guard delivers what the wrapper saw, and could not deliver; and
// tells whoever is to be told that it may have run twice.
func TestUnclaimedKilledAtTheEnd(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	p := h.start("run", "pay", "--partition", "a", "--if-unavailable", "run", "--store-timeout", "500ms", "--finish-wait", "1m",
		"--notify", "command:cat >>told", "-c", "echo up >up; "+untilGo+"exit 5")
	h.sees("up")
	h.guarded(p)
	g.open()
	h.beside().run("run", "pay", "--partition", "a", "--", "true").exits(t, 0)
	g.shut()
	h.write("go")
	h.until("the end in the spool", func() bool {
		text, _ := os.ReadFile(h.spool()[0])
		return strings.Contains(string(text), `"exit_code":5`)
	})
	p.signal(syscall.SIGKILL)
	p.wait()
	g.open()
	h.until("the delivery", func() bool { return len(h.spool()) == 0 })
	h.until("the word of it", func() bool {
		text, _ := os.ReadFile(h.path("told"))
		return strings.Contains(string(text), "may have run twice")
	})
	if show := h.shown("pay:a"); show["status"] != "SUCCEEDED" {
		t.Errorf("the run is %v", show)
	}
}

// TestUnclaimedAfterLostAnswer: the claim was granted, and nobody got the answer. The run that was
// executed in its place is no second one.
func TestUnclaimedAfterLostAnswer(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	g.open()
	h.run("run", "other", "--", "true").exits(t, 0) // the schema is there
	g.delay()
	h.run("run", "pay", "--partition", "a", "--if-unavailable", "run", "--ttl", "1h", "--store-timeout", "2s", "--finish-wait", "1s", "--", "true").exits(t, 76)
	g.shut()
	g.open()
	h.is("pay", "RUNNING", "")
	h.run("flush").exits(t, 0).says(t, "unclaimed, applied")
	show := h.shown("pay:a")
	attempts, _ := show["attempts"].([]any)
	if show["status"] != "SUCCEEDED" || len(attempts) != 2 || attempts[0].(row)["void"] != true || show["token"] != nil {
		t.Errorf("recorded %v", show)
	}
	if locks := h.list("locks"); len(locks) != 0 {
		t.Errorf("locks: %v", locks)
	}
}

// TestUnclaimedNotAfterAGrant: a grant that came too late, and can't be renewed, is no store that
// could not be asked.
func TestUnclaimedNotAfterAGrant(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	g.open()
	h.run("run", "other", "--", "true").exits(t, 0) // the schema is there
	there := newHost(t, schema(t))
	answer := g.delay()
	p := h.start("run", "pay", "--if-unavailable", "run", "--ttl", "1s", "--store-timeout", "10s", "--", "touch", "ran")
	there.until("the end of the lease", func() bool {
		rows := there.list("status", "pay")
		return len(rows) == 1 && rows[0]["stale"] == true
	})
	answer()
	p.wait().exits(t, 75)
	if h.ran("ran") || len(h.spool()) > 0 {
		t.Errorf("it has run; spool %v", h.spool())
	}
}

// TestUnclaimedAfterAnEnd: as long as the store has to be told of an earlier run's end, nothing
// under its lock runs without it.
func TestUnclaimedAfterAnEnd(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	g.open()
	p := h.start(patient("pay:a", "-c", "echo up >up; "+untilGo)...)
	h.sees("up")
	g.shut()
	h.write("go")
	p.wait().exits(t, 76)
	h.run(anyway("pay:b", "--", "touch", "ran")...).exits(t, 69).oneLine(t).says(t, "holds the end of an earlier run")
	if h.ran("ran") {
		t.Error("it has run")
	}
	h.run(anyway("other:b", "--", "true")...).exits(t, 76)
	g.open()
	h.run("flush").exits(t, 0).says(t, "pay:a", "other:b", "unclaimed, applied")
	if rows := h.list("history"); len(rows) != 2 {
		t.Errorf("history: %v", rows)
	}
}

// TestUnclaimedFullDisk: without room for its end a run isn't begun.
func TestUnclaimedFullDisk(t *testing.T) {
	t.Parallel()
	h, _ := away(t)
	if err := os.Mkdir(h.path("locks"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", `mount -t tmpfs -o size=32k,mode=0700 none locks || exit 1
		$0 run other --store-timeout 500ms --if-unavailable run --finish-wait 0 -- true; echo exit $?
		dd if=/dev/zero of=locks/.held.new-x bs=4096 2>/dev/null && exit 1
		$0 run pay --store-timeout 500ms --if-unavailable run --finish-wait 0 -- touch ran; echo exit $?; ls locks`, filepath.Join(bin, "onerun"))
	cmd.Dir, cmd.Env = h.dir, h.env
	out, err := cmd.CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "exit 76\n") || !strings.Contains(text, "exit 74\n") || strings.Count(text, ".spool-") != 1 {
		t.Errorf("%s, error %v", text, err)
	}
	if h.ran("ran") {
		t.Error("it has run")
	}
}

// TestUnclaimedOfAnotherStore: a run waits for the store that it was started with, and flush on
// another one says which that is.
func TestUnclaimedOfAnotherStore(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	h.run(anyway("pay:a", "--", "true")...).exits(t, 76)
	g.open()
	config := h.sees("onerun.yaml")
	another := strings.Replace(config, "schema=", "schema=another_", 1)
	if err := os.WriteFile(h.path("another.yaml"), []byte(another), 0o600); err != nil {
		t.Fatal(err)
	}
	r := h.run("--config", h.path("another.yaml"), "flush").exits(t, 0)
	r.says(t, "nothing waits", "that wait for another store", "/postgres?schema="+strings.ToLower(t.Name())+": 1;")
	if strings.Contains(r.err, pgbed.Password) || len(h.spool()) != 1 {
		t.Errorf("it said %q; waiting: %v", r.err, h.spool())
	}
	h.run("flush").exits(t, 0).says(t, "unclaimed, applied")
}

// TestUnclaimedManyHosts: of the same key on many hosts one is recorded as its run, and none is
// lost.
func TestUnclaimedManyHosts(t *testing.T) {
	t.Parallel()
	h, g := away(t)
	hosts := []*host{h, h.beside(), h.beside()}
	for _, h := range hosts {
		h.run(anyway("pay:a", "--", "true")...).exits(t, 76)
	}
	g.open()
	var said []string
	for _, h := range hosts {
		rows := h.list("flush")
		if len(rows) != 1 || rows[0]["unclaimed"] != true {
			t.Fatalf("flush: %v", rows)
		}
		said = append(said, fmt.Sprint(rows[0]["delivery"]))
	}
	if !slices.Equal(said, []string{"applied", "kept", "kept"}) {
		t.Errorf("delivered as %v", said)
	}
}
