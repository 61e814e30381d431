package main_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun/internal/pgbed"
)

// gate is a port of this machine behind which the shared server is, or nothing: connections
// are refused then.
type gate struct {
	t    *testing.T
	port int

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	late     chan struct{} // not nil: the answer to a claim comes when it is closed, and nothing goes out any more
	claimed  bool          // a claim has gone out since
}

// open lets connections through.
func (g *gate) open() {
	g.t.Helper()
	s, err := shared()
	if err != nil {
		g.t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", g.port))
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	g.listener = l
	g.mu.Unlock()
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
			if err != nil {
				_ = in.Close()
				continue
			}
			g.mu.Lock()
			g.conns = append(g.conns, in, out)
			g.mu.Unlock()
			go g.carry(in, out, false)
			go g.carry(out, in, true)
		}
	}()
}

func (g *gate) carry(to, from net.Conn, out bool) {
	defer func() { _ = to.Close() }()
	for buf := make([]byte, 64<<10); ; {
		n, err := from.Read(buf)
		if err != nil || !g.passes(buf[:n], out) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// passes waits until some bytes may go on, and reports whether they may at all.
func (g *gate) passes(text []byte, out bool) bool {
	g.mu.Lock()
	claimed, late := g.claimed, g.late
	if late != nil && out {
		g.claimed = claimed || bytes.Contains(text, []byte("onerun_claim("))
	}
	g.mu.Unlock()
	if late == nil || !claimed {
		return true
	}
	<-late
	return !out
}

// delay lets the next claim's answer come late: when the function is called that it returns.
func (g *gate) delay() (answer func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	late := make(chan struct{})
	g.late = late
	answer = sync.OnceFunc(func() { close(late) })
	g.t.Cleanup(answer)
	return answer
}

// shut cuts what went through, and lets nothing through.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		_ = g.listener.Close()
		g.listener = nil
	}
	for _, c := range g.conns {
		_ = c.Close()
	}
	g.conns, g.late, g.claimed = nil, nil, false
}

// away makes a store of its own that is out of reach, and a host of it.
func away(t *testing.T) (*host, *gate) {
	t.Helper()
	port, err := pgbed.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{t: t, port: port}
	t.Cleanup(g.shut)
	schema := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "_"))
	return newHost(t, pgbed.URLAs(port, pgbed.Superuser, pgbed.Password, "postgres", "schema", schema)), g
}

// beside is another host of the same store.
func (h *host) beside() *host {
	h.t.Helper()
	config, err := os.ReadFile(h.path("onerun.yaml"))
	if err != nil {
		h.t.Fatal(err)
	}
	o := newHost(h.t, "")
	if err := os.WriteFile(o.path("onerun.yaml"), []byte(strings.ReplaceAll(string(config), h.dir, o.dir)), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return o
}

// spool are the files of runs that wait on the host.
func (h *host) spool() []string {
	h.t.Helper()
	found, err := filepath.Glob(h.path("locks/*.spool-*"))
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

// ran reports whether a job has left its file.
func (h *host) ran(name string) bool {
	_, err := os.Stat(h.path(name))
	return err == nil
}

// shown is one run in full.
func (h *host) shown(key string) row {
	h.t.Helper()
	var r row
	h.json(&r, "show", key)
	return r
}

// says wants words in what was printed.
func (r result) says(t *testing.T, words ...string) result {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(r.out+r.err, w) {
			t.Errorf("it doesn't say %q, but %q and %.3000q", w, r.out, r.err)
		}
	}
	return r
}

// oneLine wants an error: one line of onerun's, and nothing else.
func (r result) oneLine(t *testing.T) result {
	t.Helper()
	if r.out != "" || !strings.HasPrefix(r.err, "onerun: ") || strings.Index(r.err, "\n") != len(r.err)-1 {
		t.Errorf("it printed %q and %.2000q, want one line of onerun's on standard error", r.out, r.err)
	}
	return r
}
