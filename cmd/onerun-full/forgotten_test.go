package main_test

import (
	"context"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestForgottenAtTheEnd: the server is gone when the job ends, and knows nothing of the claim when it
// is back. The end is recorded all the same, whether wrapper or guard saw it, and its key doesn't run again.
func TestForgottenAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status, also string
		again        int
		end          func(h *host, p *process)
	}{
		"the job succeeds": {"SUCCEEDED", "", 0, func(h *host, p *process) {
			h.write("go")
			p.wait().exits(t, 76)
		}},
		"the job fails": {"FAILED", "exit", 79, func(h *host, p *process) {
			h.write("fail")
			h.write("go")
			p.wait().exits(t, 3)
		}},
		"the wrapper is killed": {"FAILED", "owner_died", 79, func(h *host, p *process) {
			guard := h.guarded(p)
			p.signal(syscall.SIGKILL)
			p.wait()
			h.gone(strconv.Itoa(guard)) // else it may tell the server before that forgets all
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			url := s.URL("postgres", "schema", "one")
			h := newHost(t, url)
			p := h.start("run", "settle", "--partition", "one", "--finish-wait", "1s", "--store-timeout", "1s", "--", "sh", "-c",
				"echo up >up; while test ! -e go; do sleep 0.05; done; test ! -e fail || exit 3")
			h.sees("up")
			s.Stop(syscall.SIGQUIT)
			c.end(h, p)
			h.until("the end is spooled", func() bool { return len(h.spool()) == 1 })
			if err := s.Start(); err != nil {
				t.Fatal(err)
			}
			db, err := pgx.Connect(context.Background(), s.URL("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close(context.Background()) }()
			if _, err := db.Exec(context.Background(), "DROP SCHEMA one CASCADE"); err != nil {
				t.Fatal(err)
			}
			h.until("the lock is free", func() bool { // of a guard that still tries
				r := h.run("run", "settle", "--partition", "one", "--log-level", "info", "--", "touch", "again")
				if r.code != c.again {
					t.Fatalf("the next start: %+v, want %d", r, c.again)
				}
				return len(h.spool()) == 0
			})
			if h.ran("again") {
				t.Error("the key ran again")
			}
			h.is("settle", c.status, c.also)
			h.run("show", "settle:one").exits(t, 0).says(t, "late_outcome", "forgotten")
		})
	}
}
