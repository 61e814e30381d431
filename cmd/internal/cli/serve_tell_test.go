package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/onerun-dev/onerun/internal/scheduler"
)

// TestServeAlertPlaces: each URL of an alert's file is told, whatever the others do, and none of them gets into the store.
func TestServeAlertPlaces(t *testing.T) {
	t.Parallel()
	b := newServe(t, `
timezone: UTC
alerts: {ops: {url: "@urls"}}
jobs:
  bad: {schedule: "*/2 * * * * *", shell: "exit 3", notify: [ops]}
`)
	r := newReceiver(t, nil)
	const secret = "a-word-of-ours"
	b.write("urls", "command:exit 1\ncommand:cat >>DIR/told\n"+r.URL+"/"+secret+"#secret=plain\n")
	p := b.serve(t)
	b.sees("told", atLeast(1))
	if l := r.next(t); l.path != "/"+secret || !strings.HasPrefix(l.header.Get("webhook-id"), "msg_") {
		t.Errorf("sent to %s as %v", l.path, l.header)
	}
	b.sees("serve.log", func(lines []string) bool {
		return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "alerted") && strings.Contains(line, "error=") })
	})
	p.signal(syscall.SIGTERM)
	p.ends(0)
	sum := sha256.Sum256([]byte(r.URL + "/" + secret + "#secret=plain"))
	err := filepath.WalkDir(b.dir, func(path string, f os.DirEntry, err error) error {
		if err != nil || f.IsDir() || f.Name() == "urls" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, word := range []string{secret, hex.EncodeToString(sum[:8])} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s has %s", path, word)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if lines := b.sees("told", atLeast(1)); len(lines) != 1 {
		t.Errorf("told: %q", lines)
	}
}

// TestServeMessageIDs: a message that is sent again is the same one to its receiver.
func TestServeMessageIDs(t *testing.T) {
	r := newReceiver(t, nil)
	url := r.URL + "/hook#secret=plain"
	at := map[string]address{"ops": address(url)}
	d := &daemon{env: &env{}}
	d.alerts.Store(&at)
	d.masks.Store(new([]*regexp.Regexp))
	ids := map[string]bool{}
	for _, id := range []string{"1", "1", "2"} {
		m := scheduler.Telling{ID: id, Alert: scheduler.Alert{Name: "ops"}, Place: placeOf(url), Kind: scheduler.AlertSkip, Job: "j"}
		if err := d.tell(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		ids[r.next(t).header.Get("webhook-id")] = true
	}
	if len(ids) != 2 || !ids["msg_1"] {
		t.Errorf("ids of two messages, one of them sent again: %v", ids)
	}
	if err := d.tell(t.Context(), scheduler.Telling{Alert: scheduler.Alert{Name: "ops"}, Place: "another"}); err != nil || len(r.got) > 0 {
		t.Errorf("to a URL that is in the file no more: %v", err)
	}
}

// TestCommandsOfMessages: what a message says to type doesn't count from the directory of who sent it.
func TestCommandsOfMessages(t *testing.T) {
	t.Parallel()
	b := newServe(t, `
timezone: UTC
alerts: {ops: {url: "command:cat >>DIR/told"}}
jobs:
  bad: {schedule: "*/2 * * * * *", shell: "exit 3", notify: [ops]}
`)
	p := b.serve(t, "--config", "onerun.yaml", "--store", "sqlite:own.db")
	want := "onerun --config " + b.path("onerun.yaml") + " --store sqlite:" + b.path("own.db") + " show bad:"
	if told := b.sees("told", atLeast(1)); !strings.Contains(told[0], want) {
		t.Errorf("the message lacks %s: %s", want, told[0])
	}
	p.signal(syscall.SIGTERM)
	p.ends(0)
	b.run("run", "by-hand", "--store", "sqlite:own.db", "--partition", "one", "--notify", "command:cat >one", "--", "false").exits(t, 1)
	want = "onerun --store sqlite:" + b.path("own.db") + " show by-hand:one"
	if told := b.sees("one", atLeast(1)); !strings.Contains(told[0], want) {
		t.Errorf("the message lacks %s: %s", want, told[0])
	}
}
