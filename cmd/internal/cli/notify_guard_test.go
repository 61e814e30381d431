package cli

import (
	"strings"
	"syscall"
	"testing"
)

// TestGuardTells: when the wrapper can't, its guard tells how the run ended, when the lock is free.
func TestGuardTells(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		flags  []string
		end    func(*proc)
	}{
		{"owner_died", nil, func(p *proc) { p.kill() }},
		{"timeout", []string{"--timeout", "5s", "--grace", "100ms"}, func(p *proc) { p.signal(syscall.SIGSTOP) }},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			b, hung := newBed(t), newReceiver(t, hangs)
			r := newReceiver(t, nil)
			p := b.start(append(append([]string{
				"run", "settle", "--partition", "p", "--label", "team=pay", "--notify", hung.URL, "--notify", r.URL, "--ping", r.URL + "/ping",
				"--notify", `command:echo "$ONERUN_REASON" >told; pwd >>told`,
			}, c.flags...), "--", "sh", "-c", `trap "" TERM; echo up; while :; do sleep 1; done`)...)
			p.says("up")
			id := b.object(t, "show", "settle:p")["run_id"].(string)
			r.pinged(t, "/ping/start", id)
			guardOf(t, p, 0)
			c.end(p)
			var m map[string]any
			for range 2 { // who is told first is open
				if l := r.next(t); l.path == "/ping/fail" {
					if !strings.Contains(string(l.body), c.reason) || l.query != "rid="+id {
						t.Errorf("pinged %s: %s", l.query, l.body)
					}
				} else {
					m = l.message(t)
				}
			}
			holds(t, m, map[string]any{"event": "failure", "reason": c.reason, "status": "FAILED", "run_id": id, "key": "settle:p", "attempt": 1.0})
			if labels, _ := m["labels"].(map[string]any); labels["team"] != "pay" {
				t.Errorf("labels are %v", m["labels"])
			}
			hung.told(t, "failure")
			b.run("run", "settle", "--partition", "q", "--", "true").exits(t, 0) // while the guard waits for an answer
			if !eventually(func() bool { return b.read("told") == c.reason+"\n"+b.dir+"\n" }) {
				t.Errorf("the command was told %q", b.read("told"))
			}
		})
	}
}

// TestGuardTellsOfASuccess: a job that had ended well when its wrapper died has not failed.
func TestGuardTellsOfASuccess(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	p := b.start("run", "settle", "--partition", "p", "--notify", r.URL, "--ping", r.URL+"/ping", "--", "sh", "-c", "echo up; read x")
	p.says("up")
	r.pinged(t, "/ping/start", "")
	guard := guardOf(t, p, 0)
	if !eventually(func() bool { return hasPidfd(guard) }) {
		t.Fatal("the job isn't watched")
	}
	p.signal(syscall.SIGSTOP)
	_, _ = p.in.Write([]byte("x\n"))
	if !eventually(func() bool { return !hasPidfd(guard) }) {
		t.Fatal("the guard doesn't see the job's end")
	}
	p.kill()
	r.pinged(t, "/ping", "")
	if !eventually(func() bool { return !runs(guard) }) {
		t.Fatal("the guard goes on")
	}
	r.silent(t)
}
