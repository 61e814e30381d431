package main_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// waits is a job that says that it runs, and ends when it is told.
func waits(name, end string) string {
	return "echo up >" + name + "; while test ! -e go; do sleep 0.02; done; " + end
}

// TestGuardFindsTheStore: what names the store beside its URL (the environment, the working
// directory of a relative lock directory) leads the guard there, too. The wrapper is stopped
// when the job ends by itself, and killed then.
func TestGuardFindsTheStore(t *testing.T) {
	t.Parallel()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	url := s.URL("postgres", "schema", "guardfindsthestore")
	short := strings.Replace(url, "/postgres?", "/?", 1)
	for name, c := range map[string]struct {
		env  []string
		args []string
	}{
		"environment":            {env: []string{"PGDATABASE=postgres"}, args: []string{"--store", short}},
		"relative_lock_dir":      {args: []string{"--store", url, "--lock-dir", "mine"}},
		"environment_and_a_file": {env: []string{"PGDATABASE=postgres", "PGPASSFILE=pass"}, args: []string{"--store", strings.Replace(short, ":s3cr3t-0f-the-test@", "@", 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, url)
			if err := os.WriteFile(h.path("pass"), []byte("*:*:*:*:s3cr3t-0f-the-test\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			h.env = append(h.env, c.env...)
			job := "settle-" + strings.ReplaceAll(name, "_", "-")
			args := append([]string{"run", job, "--partition", "one", "--retries", "3", "--backoff", "0s"}, c.args...)
			p := h.start(append(args, "--", "sh", "-c", waits("up", "echo $$ >pid"))...)
			h.sees("up")
			h.guarded(p)
			p.signal(syscall.SIGSTOP)
			h.write("go")
			h.ended(h.sees("pid"))
			p.signal(syscall.SIGKILL)
			h.until("the end in the ledger", func() bool { return h.only(job)["status"] != "RUNNING" })
			h.is(job, "SUCCEEDED", "")
		})
	}
}

// ended waits until a process has ended, be it that nobody has waited for it yet.
func (h *host) ended(pid string) {
	h.t.Helper()
	h.until("the end of process "+pid, func() bool {
		text, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
		return err != nil || strings.Contains(string(text), ") Z ")
	})
}

// TestNotedEnd: an end that waits on the host is foreseen by explain, and nobody is led to
// decide otherwise.
func TestNotedEnd(t *testing.T) {
	t.Parallel()
	s, net := cut(t)
	h := newHost(t, net.URL("postgres", "schema", "one"))
	p := h.start("run", "paid", "--partition", "p", "--finish-wait", "1s", "--store-timeout", "1s", "--retries", "1", "--", "sh", "-c", waits("up", "exit 0"))
	h.sees("up")
	net.Pass(false, false)
	h.write("go")
	p.wait().exits(t, 76)
	net.Break()
	net.Pass(true, true)
	if r := h.run("explain", "paid:p").exits(t, 0); !strings.Contains(r.out, "succeeded") || strings.Contains(r.out, "rerun") && strings.Contains(r.out, "--as failed") {
		t.Errorf("explain: %s", r.out)
	}
	if r := h.run("resolve", "paid:p", "--as", "failed", "--reason", "looks dead", "--rerun").exits(t, 1); !strings.Contains(r.err, "has ended (SUCCEEDED)") {
		t.Errorf("resolve: %s", r.err)
	}
	h.run("run", "paid", "--partition", "p", "-E", "5", "--", "touch", "again").exits(t, 5)
	h.is("paid", "SUCCEEDED", "")
	if _, err := os.Stat(h.path("again")); err == nil {
		t.Error("it was paid twice")
	}
	s.Stop(syscall.SIGQUIT)
}

// TestForgottenRun: the store has lost a run whose end waits on the host. That blocks nothing, and is
// recorded by whatever start comes next.
func TestForgottenRun(t *testing.T) {
	t.Parallel()
	s, net := cut(t)
	h := newHost(t, net.URL("postgres", "schema", "one"))
	p := h.start("run", "settle", "--partition", "one", "--finish-wait", "1s", "--store-timeout", "1s", "--", "sh", "-c", waits("up", "exit 0"))
	h.sees("up")
	net.Pass(false, false)
	h.write("go")
	p.wait().exits(t, 76)
	net.Break()
	net.Pass(true, true)
	lost := &tables{url: s.URL("postgres"), kind: "postgres"}
	if err := lost.exec("TRUNCATE one.onerun_run, one.onerun_attempt, one.onerun_lock"); err != nil {
		t.Fatal(err)
	}
	h.run("run", "settle", "--partition", "two", "--", "true").exits(t, 0)
	rows := h.list("history", "settle")
	if len(rows) != 2 || rows[0]["status"] != "SUCCEEDED" || rows[1]["status"] != "SUCCEEDED" || rows[1]["key"] != "settle:one" {
		t.Errorf("history: %v", rows)
	}
}

// TestLockAlone: onerun lock has no ledger, so a store that is gone when its command ends is no
// reason for another exit code.
func TestLockAlone(t *testing.T) {
	t.Parallel()
	s := server(t)
	h := newHost(t, s.URL("postgres", "schema", "one"))
	p := h.start("lock", "db", "--ttl", "1m", "--store-timeout", "1s", "--", "sh", "-c", waits("up", "exit 3"))
	h.sees("up")
	s.Stop(syscall.SIGQUIT)
	h.write("go")
	if r := p.wait().exits(t, 3); !strings.Contains(r.err, "free when its lease is over") {
		t.Errorf("it printed %q", r.err)
	}
}

// TestStoreNamedByAPipe: onerun-full could not read it again, and would take another store.
func TestStoreNamedByAPipe(t *testing.T) {
	t.Parallel()
	h := newHost(t, schema(t))
	for _, args := range []string{"run --config <(cat $ONERUN_CONFIG) j -- touch ran", "run --store @<(echo $URL) j -- touch ran"} {
		cmd := exec.Command("bash", "-c", "onerun "+args)
		cmd.Dir, cmd.Env = h.dir, append(h.env, "URL="+schema(t))
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 78 || strings.Count(string(out), "\n") != 1 {
			t.Errorf("onerun %s: exit status %d, and it printed %q", args, code, out)
		}
	}
	if _, err := os.Stat(h.path("ran")); err == nil {
		t.Error("it ran, on which store ever")
	}
}
