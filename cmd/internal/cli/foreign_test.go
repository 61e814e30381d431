package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestForeign: what another account names as a file is read if it is a plain one; nothing else makes doctor wait, or fills
// its memory.
func TestForeign(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"url":      "sqlite:s/x.db\n",
		"unit":     "[Service]\nEnvironmentFile=" + at("trap") + "\nEnvironmentFile=/dev/zero\nEnvironmentFile=" + at("vars") + "\nExecStart=onerun run rates -- true\n",
		"vars":     "ONERUN_STORE=sqlite:/s/x.db\n",
		"crontab":  "X=" + strings.Repeat("x", 100_000) + "\n0 1 * * * onerun run rates -- true\n",
		"bad.yaml": "store: '@trap'\n",
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(at("trap"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("trap", at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("large"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(at("large"), 1<<40); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for url, want := range map[string]string{"@url": at("s/x.db"), "@trap": "", "@link": "", "@/dev/zero": "", "@large": "", "@.": "", "@none": ""} {
			if got := storeFile(url, dir); got != want {
				t.Errorf("%s is the store %q, want %q", url, got, want)
			}
		}
		if got := storeByConfig("bad.yaml", dir); got != "" {
			t.Errorf("a file that names a trap is the store %q", got)
		}
		u := unit{account: "root"}
		u.read(at("unit"))
		if found := u.found(); len(found) != 1 || found[0].job != "rates" || found[0].url != "sqlite:/s/x.db" {
			t.Errorf("in the service: %+v", found)
		}
		for _, name := range []string{"trap", "link", "large"} {
			u.read(at(name))
			if found := cronFile(nil, at(name), "me"); len(found) != 0 {
				t.Errorf("%s starts %+v", name, found)
			}
		}
		if found := cronFile(nil, at("crontab"), "me"); !slices.ContainsFunc(found, func(s cronStart) bool { return s.job == "rates" && s.where == at("crontab")+":2" }) {
			t.Errorf("after a long line: %+v", found)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a pipe")
	}
}

// TestNamedFiles: a file with a URL may be a pipe, and is no device: that would fill the memory.
func TestNamedFiles(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := os.WriteFile(b.path("large"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(b.path("large"), 1<<40); err != nil {
		t.Fatal(err)
	}
	b.run("status", "--store", "@/dev/zero").exits(t, 74).oneLine(t)
	b.run("status", "--store", "@"+b.path("large")).exits(t, 74).oneLine(t)
	b.run("run", "j", "--notify", "@/dev/zero", "--", "true").exits(t, 78).oneLine(t)
	pipe := b.command("status", "--store", "@/dev/stdin")
	pipe.Stdin = strings.NewReader("sqlite:" + b.path("store") + "/\n") // which the test's library makes a pipe of
	if r := outcome(pipe); r.code != 0 {
		t.Errorf("from a pipe: %+v", r)
	}
}
