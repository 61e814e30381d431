package main_test

import (
	"strings"
	"syscall"
	"testing"
)

// TestServerGoneAtTheEnd: the server is gone when the job ends. The end waits on the host;
// the same host refuses the key, and delivers with the next start.
func TestServerGoneAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script       string
		code         int
		status, also string
	}{
		"succeeded": {"exit 0", 76, "SUCCEEDED", ""},
		"failed":    {"exit 3", 3, "FAILED", "exit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			h := newHost(t, s.URL("postgres", "schema", "one"))
			p := h.start("run", "settle", "--partition", "one", "--finish-wait", "1s", "--store-timeout", "1s", "--", "sh", "-c", "echo up >up; while test ! -e go; do sleep 0.05; done; "+c.script)
			h.sees("up")
			s.Stop(syscall.SIGQUIT)
			h.write("go")
			p.wait().exits(t, c.code)
			h.run("run", "settle", "--partition", "one", "--store-timeout", "1s", "--", "touch", "again").exits(t, 69)
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			h.is("settle", "RUNNING", "")
			if name == "succeeded" {
				r := h.run("flush").exits(t, 0)
				if !strings.Contains(r.out, "settle:one") {
					t.Errorf("flush printed %q", r.out)
				}
			} else { // a start of any job delivers
				h.run("run", "other", "--", "true").exits(t, 0)
			}
			h.is("settle", c.status, c.also)
		})
	}
}

// TestServerRestarts: the server is killed and comes back while the job works. Nobody hears of
// it but the log.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	s := server(t)
	h := newHost(t, s.URL("postgres", "schema", "one"))
	p := h.start("run", "settle", "--ttl", "30s", "--", "sh", "-c", "echo up >up; while test ! -e go; do sleep 0.05; done")
	h.sees("up")
	s.Stop(syscall.SIGQUIT)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	h.write("go")
	p.wait().exits(t, 0)
	h.is("settle", "SUCCEEDED", "")
}

// TestUnavailable: who can't be asked is an error, unless it was said otherwise.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	s := server(t)
	h := newHost(t, s.URL("postgres", "schema", "one"))
	s.Stop(syscall.SIGQUIT)
	for args, code := range map[string]int{
		"run settle --store-timeout 1s -- touch ran":                            69,
		"run settle --store-timeout 1s --if-unavailable skip -E 5 -- touch ran": 5,
		"lock settle --store-timeout 1s -- touch ran":                           69,
		"status --store-timeout 1s":                                             69,
	} {
		r := h.run(strings.Fields(args)...).exits(t, code)
		if strings.Count(r.err, "\n") != 1 || strings.Contains(r.err, "s3cr3t") {
			t.Errorf("onerun %s printed %q", args, r.err)
		}
	}
}
