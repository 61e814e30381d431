package main_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// scheduler is an `onerun serve` on a host, whose lines go to a file.
type scheduler struct {
	h   *host
	cmd *exec.Cmd
}

func (h *host) serve(jobs string) *scheduler {
	h.t.Helper()
	s := &scheduler{h: h}
	h.configure(jobs)
	s.start()
	h.t.Cleanup(func() { s.end(syscall.SIGKILL) })
	return s
}

// configure writes the host's file, with jobs below what newHost has written.
func (h *host) configure(jobs string) {
	h.t.Helper()
	text, err := os.ReadFile(h.path("onerun.yaml"))
	if err == nil {
		head, _, _ := strings.Cut(string(text), "timezone:")
		err = os.WriteFile(h.path("onerun.yaml"), []byte(head+"timezone: UTC\n"+jobs), 0o600)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (s *scheduler) start() {
	s.h.t.Helper()
	s.cmd = s.h.command("serve", "--store-timeout", "2s")
	log, err := os.OpenFile(s.h.path("serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.h.t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	err = s.cmd.Start()
	_ = log.Close()
	if err != nil {
		s.h.t.Fatal(err)
	}
}

func (s *scheduler) signal(sig syscall.Signal) { _ = s.cmd.Process.Signal(sig) }

// end ends it, and waits for that.
func (s *scheduler) end(sig syscall.Signal) {
	s.signal(sig)
	s.signal(syscall.SIGCONT)
	_ = s.cmd.Wait()
}

// TestThreeSchedulers: three instances on one PostgreSQL, which are killed, frozen and reloaded, as is the server: each slot
// of each job has run once, or there is a reason in the ledger why it didn't.
func TestThreeSchedulers(t *testing.T) {
	t.Parallel()
	seconds, seed := setting(t, "TORTURE_SECONDS", 30), setting(t, "TORTURE_SEED", time.Now().UnixNano()%1_000_000)
	t.Logf("TORTURE_SEED=%d TORTURE_SECONDS=%d", seed, seconds)
	r := rand.New(rand.NewPCG(uint64(seed), 7))
	server := server(t)
	url := server.URL("postgres", "schema", "one")
	witness := t.TempDir() + "/witness"
	const jobs = `
jobs:
  fast: {schedule: "* * * * * *", shell: "echo $ONERUN_KEY >>WITNESS", on_crash: auto, ttl: 5s, finish_wait: 2s, catch_up: {policy: latest, window: 5m, spread: 0s}}
  slow: {schedule: "*/2 * * * * *", shell: "echo $ONERUN_KEY >>WITNESS; sleep 3", ttl: 5s, finish_wait: 2s, catch_up: {policy: none}}
  # N
`
	text := strings.ReplaceAll(jobs, "WITNESS", witness)
	began := time.Now().UTC().Truncate(time.Second).Add(3 * time.Second)
	var all []*scheduler
	for range 3 {
		all = append(all, newHost(t, url).serve(text))
	}
	faults := map[string]int{}
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond) {
		s := all[r.IntN(len(all))]
		switch n := r.IntN(100); {
		case n < 35:
			faults["killed"]++
			s.end(syscall.SIGKILL)
			s.start()
		case n < 50:
			faults["restarted"]++
			s.end(syscall.SIGTERM)
			s.start()
		case n < 75:
			faults["frozen"]++
			s.signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
			s.signal(syscall.SIGCONT)
		case n < 90:
			faults["reloaded"]++
			s.h.configure(strings.ReplaceAll(text, "# N", fmt.Sprintf("# %d", n)))
			s.signal(syscall.SIGHUP)
		default:
			faults["server killed"]++
			server.Stop(syscall.SIGQUIT)
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	until := time.Now().UTC().Truncate(time.Second)
	t.Logf("%v", faults)
	h := all[0].h
	var open []string
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) { // what a dead instance took is found after half a minute
		open = append(h.unaccounted("fast", time.Second, began, until), h.unaccounted("slow", 2*time.Second, began.Truncate(2*time.Second).Add(2*time.Second), until)...)
		if len(open) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("neither run nor reason: %q", open)
		}
	}
	for _, s := range all {
		s.end(syscall.SIGTERM)
	}
	executed, _ := os.ReadFile(witness)
	times := map[string]int{}
	for _, key := range strings.Fields(string(executed)) {
		if times[key]++; times[key] > 1 {
			t.Errorf("%s was executed twice", key)
		}
	}
	t.Logf("%d executions", len(times))
	if len(times) < 10 {
		t.Error("that is too little to show anything")
	}
}

var missedRange = regexp.MustCompile(`fires from (\S+) to (\S+);`)

// unaccounted are the slots of a job that have neither run, nor a skip, nor a row that says that they were missed.
func (h *host) unaccounted(job string, each time.Duration, from, to time.Time) (open []string) {
	h.t.Helper()
	known := map[string]bool{}
	for _, r := range h.list("history", job, "--limit", "0") {
		partition := r["partition"].(string)
		known[partition] = true
		last, missed := strings.CutPrefix(partition, "missed+")
		if !missed {
			continue
		}
		known[last] = true
		var shown struct{ Events []row }
		h.json(&shown, "show", r["run_id"].(string))
		for _, ev := range shown.Events {
			if m := missedRange.FindStringSubmatch(fmt.Sprint(ev["reason"]) + ";"); m != nil {
				first, err := time.Parse(time.RFC3339, m[1])
				last, err2 := time.Parse(time.RFC3339, m[2])
				for at := first; err == nil && err2 == nil && !at.After(last); at = at.Add(each) {
					known[at.Format(time.RFC3339)] = true
				}
			}
		}
	}
	for at := from; !at.After(to); at = at.Add(each) {
		partition := at.Format(time.RFC3339)
		if known[partition] {
			continue
		}
		if r := h.run("show", job+":"+partition, "--json"); r.code == 0 && strings.Contains(r.out, `"reason"`) { // its skips
			continue
		}
		open = append(open, job+":"+partition)
	}
	return open
}

// TestServePages: what a scheduler tells a monitor.
func TestServePages(t *testing.T) {
	t.Parallel()
	h := newHost(t, schema(t))
	h.configure("listen: 127.0.0.1:0\njobs: {tick: {schedule: \"* * * * * *\", shell: \"true\"}}\n")
	s := &scheduler{h: h}
	s.start()
	t.Cleanup(func() { s.end(syscall.SIGKILL) })
	var addr string
	h.until("its address", func() bool {
		log, _ := os.ReadFile(h.path("serve.log"))
		_, after, ok := strings.Cut(string(log), "address=")
		addr, _, _ = strings.Cut(after, "\n")
		return ok
	})
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		body, _ := io.ReadAll(r.Body)
		return r.StatusCode, string(body)
	}
	h.until("it is ready", func() bool { code, _ := get("/readyz"); return code == 200 })
	if code, body := get("/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	h.until("a fire in the metrics", func() bool {
		_, body := get("/metrics")
		return regexp.MustCompile(`(?m)^onerun_scheduler_events_total\{event="fired"\} [1-9]`).MatchString(body) &&
			strings.Contains(body, "onerun_scheduler_jobs 1\n") && strings.Contains(body, `onerun_scheduler_start_lateness_seconds_bucket{le="+Inf"}`)
	})
	if code, _ := get("/"); code != 404 {
		t.Errorf("/: %d", code)
	}
	s.end(syscall.SIGTERM)
	taken := newHost(t, schema(t))
	taken.configure("listen: 192.0.2.1:80\njobs: {}\n")
	if r := taken.run("serve").exits(t, 78); strings.Count(r.err, "\n") != 1 {
		t.Errorf("of an address that isn't here it says %q", r.err)
	}
}

// TestCheckAsksTheDriver: serve --check reads a store's URL as its driver does, whichever program has that, and asks no store.
func TestCheckAsksTheDriver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for url, want := range map[string]string{
		"redis://:hunter2@h:bad/0":         "a port is a number",
		"redis://:hunter2@h.invalid:1/0":   "",
		"postgres://u:hunter2@h:bad/db":    "invalid port",
		"postgres://u:hunter2@h.invalid/d": "",
		"mysql://u:hunter2@h.invalid/d":    "",
		"zookeeper://h.invalid:bad/x":      "port",
		"etcd://h:bad/x":                   "port",
		"etcd://h.invalid/x":               "",
	} {
		path := dir + "/onerun.yaml"
		if err := os.WriteFile(path, []byte("namespace: x\nstore: '"+url+"'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(bin+"/onerun", "serve", "--check", "--config", path).CombinedOutput()
		switch said := string(out); {
		case want == "" && (err != nil || !strings.Contains(said, "is fine")),
			want != "" && (err == nil || strings.Count(said, "\n") != 1 || !strings.Contains(said, path+":2:8: store: ") || !strings.Contains(said, want)),
			strings.Contains(said, "hunter2"):
			t.Errorf("%s: %v: %s", url, err, said)
		}
	}
}
