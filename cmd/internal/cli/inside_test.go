package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// item is one item of a listing.
func (b *bed) item(t *testing.T, name string) map[string]any {
	t.Helper()
	for _, it := range b.list(t, "items") {
		if it["item"] == name {
			return it
		}
	}
	t.Fatalf("there is no item %s", name)
	return nil
}

// pidIn waits for a file that holds a process id.
func (b *bed) pidIn(t *testing.T, name string) (pid int) {
	t.Helper()
	if !eventually(func() bool {
		text, _ := os.ReadFile(b.path(name))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0 && strings.HasSuffix(string(text), "\n")
	}) {
		t.Fatalf("%s names no process", name)
	}
	return pid
}

// TestItemKilled: whoever does an item is killed. What it was doing is killed with it, and then
// its own policy decides.
func TestItemKilled(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, policy := range []string{"auto", "manual"} {
		p := b.start("run", "pay-"+policy, "-c", `onerun item order-1 --on-crash `+policy+` -c 'echo $PPID >owner; echo $$ >work; exec sleep 600'
			echo "killed $?"; read go
			onerun item order-1 -E 9 -- echo again; echo "second $?"; read go
			onerun item order-1 -E 9 -- echo third; echo "third $?"`)
		owner, work := b.pidIn(t, "owner"), b.pidIn(t, "work")
		if it := b.item(t, "order-1"); it["state"] != "started" || it["liveness"] != "alive" || it["pid"] != float64(owner) {
			t.Errorf("%s: at work it is %v", policy, it)
		}
		b.run("resolve", "pay-"+policy, "--item", "order-1", "--as", "done", "--reason", "too early").exits(t, 1).oneLine(t)
		_ = syscall.Kill(owner, syscall.SIGKILL)
		p.says("killed 137")
		if !eventually(func() bool { return !runs(work) }) {
			t.Fatalf("%s: what it was doing outlives it", policy)
		}
		if it := b.item(t, "order-1"); it["state"] != "started" || it["liveness"] != "dead" {
			t.Errorf("%s: after its death it is %v", policy, it)
		}
		p.goesOn()
		if policy == "auto" {
			p.says("again")
			p.says("second 0")
		} else {
			p.says("second 79")
			b.run("resolve", "pay-manual", "--item", "order-1", "--as", "done", "--reason", "the bank says so").exits(t, 0)
		}
		p.goesOn()
		p.says("third 9")
		if code := p.wait(); code != 0 {
			t.Errorf("%s: the job ended with %d: %s", policy, code, p.err.String())
		}
		for _, name := range []string{"owner", "work"} {
			_ = os.Remove(b.path(name))
		}
	}
}

// TestItemSurvivor: what an item has started outlives the process that does it. Nobody begins it
// beside that.
func TestItemSurvivor(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "pay", "-c", `onerun item order-1 -c 'setsid sh -c "echo \$\$ >left; exec sleep 600" & echo $PPID >owner; wait'
		read go; onerun item order-1 -E 9 -- echo again; echo "second $?"
		read go; onerun item order-1 -E 9 -- echo again; echo "third $?"`)
	left, owner := b.pidIn(t, "left"), b.pidIn(t, "owner")
	_ = syscall.Kill(owner, syscall.SIGKILL)
	if !eventually(func() bool { return !runs(owner) }) {
		t.Fatal("it can't be killed")
	}
	p.goesOn()
	p.says("second 9")
	if it := b.item(t, "order-1"); it["liveness"] != "alive" || !strings.Contains(it["evidence"].(string), strconv.Itoa(left)) {
		t.Errorf("with a survivor it is %v, want the evidence to name %d", it, left)
	}
	_ = syscall.Kill(left, syscall.SIGKILL)
	if !eventually(func() bool { return !runs(left) }) {
		t.Fatal("the survivor can't be killed")
	}
	p.goesOn()
	p.says("again")
	p.says("third 0")
	p.wait()
}

// TestItemOfKilledJob: the whole job is killed, its wrapper first; the next run takes the item
// over.
func TestItemOfKilledJob(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "pay", "--", "onerun", "item", "order-1", "--", "sh", "-c", "echo $$ >work; exec sleep 600")
	work := b.pidIn(t, "work")
	p.die()
	allGone(t, []int{work})
	if r := b.run("run", "pay", "--wait", "1m", "--", "onerun", "item", "order-1", "--", "echo", "again").exits(t, 0); r.out != "again\n" {
		t.Errorf("it printed %q", r.out)
	}
	if it := b.item(t, "order-1"); it["state"] != "done" || it["tries"] != 2.0 {
		t.Errorf("it is %v", it)
	}
}

// TestItemsAtOnce: many processes come to the same items at once.
func TestItemsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	r := b.run("run", "pay", "-c", `for i in 1 2 3 4 5 6 7 8; do for o in 1 2 3 4 5; do onerun item order-$o -- sh -c 'echo $ONERUN_ITEM >>paid' & done; done; wait`).exits(t, 0)
	if r.err != "" {
		t.Errorf("it says %q", r.err)
	}
	paid := strings.Fields(b.read("paid"))
	if len(paid) != 5 {
		t.Errorf("done: %q", paid)
	}
	for _, it := range b.list(t, "items") {
		if it["state"] != "done" || it["tries"] != 1.0 {
			t.Errorf("%v", it)
		}
	}
}

// overSocket sends a request to a job's socket, as any language would.
func overSocket(t *testing.T, socket, method, path, body string) (int, map[string]any) {
	t.Helper()
	c := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://job"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if err := json.Unmarshal(text, &answer); err != nil && resp.StatusCode < 404 {
		t.Fatalf("%s %s: %v in %q", method, path, err, text)
	}
	return resp.StatusCode, answer
}

// TestSocket: the job's socket is the job's, speaks HTTP, and goes with the attempt.
func TestSocket(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "pay", "--partition", "a", "-c", `echo $ONERUN_SOCKET; read go`)
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimSpace(line)
	st, err := os.Stat(socket)
	if err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", st, err)
	}
	ask := func(method, path, body string, want int) map[string]any {
		t.Helper()
		code, answer := overSocket(t, socket, method, path, body)
		if code != want {
			t.Errorf("%s %s %.60q: answered %d %v, want %d", method, path, body, code, answer, want)
		}
		return answer
	}
	if a := ask("GET", "/v1/check", "", 200); a["key"] != "pay:a" || a["stopping"] != false {
		t.Errorf("check: %v", a)
	}
	if a := ask("POST", "/v1/report", `{"processed": 10, "add": {"failed": 2}}`, 200); a["processed"] != 10.0 || a["failed"] != 2.0 || a["stored"] != true {
		t.Errorf("report: %v", a)
	}
	if run := b.object(t, "show", "pay:a"); run["processed"] != 10.0 || run["failed"] != 2.0 {
		t.Errorf("show has %v and %v", run["processed"], run["failed"])
	}
	begun := ask("POST", "/v1/items/begin", `{"item": "order-1", "payload": "100 EUR"}`, 200)
	owner, _ := begun["owner"].(string)
	if begun["begin"] != true || owner == "" {
		t.Errorf("begin: %v", begun)
	}
	if a := ask("POST", "/v1/items/begin", `{"item": "order-1"}`, 409); a["reason"] != "running" || a["begin"] != false {
		t.Errorf("begin what was begun: %v", a)
	}
	if a := ask("POST", "/v1/items/begin", `{"item": "order-1", "payload": "200 EUR"}`, 409); a["reason"] != "conflict" {
		t.Errorf("begin another payload: %v", a)
	}
	ask("POST", "/v1/items/end", `{"item": "order-1", "owner": "somebody", "done": true}`, 410)
	ask("POST", "/v1/items/end", `{"item": "order-1", "owner": "`+owner+`", "done": true}`, 200)
	if a := ask("POST", "/v1/items/begin", `{"item": "order-1"}`, 200); a["reason"] != "done" || a["begin"] != false {
		t.Errorf("begin what is done: %v", a)
	}
	for _, bad := range []string{
		``, `[]`, `{`, `{"processed": "many"}`, `{"processed": -1}`, `{"proccessed": 1}`, `{"processed": 1, "faild": 2}`, `{"processed": 1} {}`, `{}`, `{"reason": "x"}`,
		`{"processed": 9223372036854775807, "add": {"processed": 1}}`, `{"add": {"processed": 9223372036854775807}}`, `{"add": {"failed": -3}}`,
		`{"processed": 99999999999999999999}`, "\x00\xff",
	} {
		if a := ask("POST", "/v1/report", bad, 400); a["error"] == "" {
			t.Errorf("report %.60q: no word of why", bad)
		}
	}
	for _, bad := range []string{`{"item": ""}`, `{"item": "a\nb"}`, `{"item": "x", "on_crash": "maybe"}`, `{"item": "` + strings.Repeat("x", 201) + `"}`} {
		ask("POST", "/v1/items/begin", bad, 400)
	}
	ask("POST", "/v1/report", `{"skipped": true, "reason": "`+strings.Repeat("x", 70<<10)+`"}`, 413)
	ask("GET", "/v1/report", "", 405)
	ask("GET", "/", "", 404)
	if run := b.object(t, "show", "pay:a"); run["processed"] != 10.0 || run["failed"] != 2.0 {
		t.Errorf("after the mistakes, show has %v and %v", run["processed"], run["failed"])
	}
	p.goesOn()
	if code := p.wait(); code != 0 {
		t.Errorf("the job ended with %d", code)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// TestSocketHungry: connections that say nothing make room for others, and whatever else they do
// they don't keep the job's end from being recorded.
func TestSocketHungry(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "pay", "-c", `echo $ONERUN_SOCKET; read go`)
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimSpace(line)
	var open []net.Conn
	for range 200 {
		c, err := net.Dial("unix", socket)
		if err != nil {
			break // the queue is full
		}
		open = append(open, c)
		if len(open)%4 == 0 {
			_, _ = c.Write([]byte("POST /v1/report HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{"))
		}
		if len(open) == 100 {
			break
		}
	}
	if fds := openFiles(t, p.cmd.Process.Pid); fds > 100 {
		t.Errorf("onerun has %d files open", fds)
	}
	if code, _ := overSocket(t, socket, "POST", "/v1/report", `{"processed": 1}`); code != 200 {
		t.Errorf("a report among them: answered %d", code)
	}
	begin := time.Now()
	p.goesOn()
	if code := p.wait(); code != 0 || time.Since(begin) > patience/2 {
		t.Errorf("the job ended with %d after %s", code, time.Since(begin))
	}
	for _, c := range open {
		_ = c.Close()
	}
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// TestSocketFarAway: a directory for temporary files whose name is too long for a socket, on a
// machine that has no other place.
func TestSocketFarAway(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	far := b.path(strings.Repeat("far/", 30))
	if err := os.MkdirAll(far, 0o777); err != nil {
		t.Fatal(err)
	}
	script := "mount -t tmpfs -o mode=0777 none /run; export TMPDIR=" + far + "; umask 0; onerun run pay -- sh -c 'onerun report processed=4; echo $ONERUN_TMPDIR; echo $ONERUN_SOCKET; stat -c %a $ONERUN_SOCKET'; ls /tmp /run"
	cmd := exec.Command("unshare", "-m", "sh", "-c", script)
	cmd.Env = b.command().Env
	r := outcome(cmd).exits(t, 0)
	lines := strings.Fields(r.out)
	if len(lines) < 3 || !strings.HasPrefix(lines[0], far) || !strings.HasPrefix(lines[1], "/tmp/onerun-") || lines[2] != "600" || r.err != "" {
		t.Fatalf("it printed %q and %q", r.out, r.err)
	}
	if strings.Count(r.out, filepath.Base(lines[1])) != 1 {
		t.Errorf("the socket is still there: %q", r.out)
	}
	if run := b.object(t, "show", "pay"); run["processed"] != 4.0 {
		t.Errorf("show has %v", run["processed"])
	}
}

// TestReportWhileStopping: a job that is being stopped hears of it, and can still say how far it
// came.
func TestReportWhileStopping(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "pay", "--grace", "1m", "-c", `trap 'onerun check; echo "check $?"; onerun report processed=3; exit 0' TERM; echo up; while :; do sleep 0.05; done`)
	p.says("up")
	b.run("stop", "pay", "--reason", "enough").exits(t, 0)
	p.says("check 1")
	if code := p.wait(); code != 143 {
		t.Errorf("it ended with %d", code)
	}
	if run := b.object(t, "show", "pay"); run["processed"] != 3.0 || run["reason"] != "stopped" {
		t.Errorf("it is %v", run)
	}
}

// TestItemEndStoreBusy: an item's end that the store doesn't take for now is recorded as soon as it
// does, if need be after the job's own.
func TestItemEndStoreBusy(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]string{"while it runs": "; read go; onerun item order-1 -E 9 -- echo again; echo \"second $?\"; read go", "after it": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			p := b.start("run", "pay", "--store-timeout", "1s", "--finish-wait", "1m", "-c", `onerun item order-1 -c 'echo up; read go'; echo "item $?"`+after)
			p.says("up")
			release := b.holdDatabase(t)
			p.goesOn()
			p.says("item 0")
			if it := b.item(t, "order-1"); it["state"] != "started" {
				t.Errorf("while the store is busy it is %v", it["state"])
			}
			release()
			if after != "" { // its end is known, and its process gone: nobody begins it anew
				p.goesOn()
				p.says("second 9")
			}
			if after == "" {
				if code := p.wait(); code != 0 {
					t.Errorf("the job ended with %d", code)
				}
			}
			if !eventually(func() bool { return b.item(t, "order-1")["state"] == "done" }) {
				t.Errorf("it is %v", b.item(t, "order-1"))
			}
			if after != "" {
				p.goesOn()
				p.wait()
			}
		})
	}
}

// TestSkipOutlivesWrapper: the wrapper is frozen when its job ends, and its guard records that: what
// the job has said of itself counts, and the time is that of its end.
func TestSkipOutlivesWrapper(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "pay", "--timeout", "12s", "--grace", "100ms", "--finish-wait", "1s", "-c", `onerun report skipped "no orders"; echo up; read go`)
	p.says("up")
	guard := guardOf(t, p, 0)
	if !eventually(func() bool { return hasPidfd(guard) }) {
		t.Fatal("the job isn't watched")
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	p.goesOn()
	p.wait()
	run := b.ended(t, "pay")
	if run["status"] != "SKIPPED" || run["error"] != "no orders" {
		t.Errorf("it is %v, %v", run["status"], run["error"])
	}
	if ms := run["duration_ms"].(float64); ms > 10_000 {
		t.Errorf("it took %v ms, until its time was over", ms)
	}
}

// TestSweepSockets: a start that finds a dead owner removes the sockets that nobody listens at, once
// they are a minute old, and no others.
func TestSweepSockets(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "other", "-c", `echo $ONERUN_SOCKET; read go; onerun check; echo "check $?"`)
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	live := strings.TrimSpace(line)
	dir := filepath.Dir(live)
	made := func(name string, age time.Duration) string {
		path := filepath.Join(dir, "onerun-"+onerun.NewID()+name)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		_ = l.Close()
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		return path
	}
	old, young, foreign := made(".sock", 2*sweepAge), made(".sock", 0), made(".other", 2*sweepAge)
	at := time.Now().Add(-2 * sweepAge)
	if err := os.Chtimes(live, at, at); err != nil {
		t.Fatal(err)
	}
	dead := b.start("run", "settle", "--", "sh", "-c", "echo up; exec sleep 600")
	dead.says("up")
	for _, guard := range append(guardsOf(dead.cmd.Process.Pid), dead.cmd.Process.Pid) {
		_ = syscall.Kill(guard, syscall.SIGKILL)
	}
	dead.wait()
	b.run("run", "settle", "--wait", "1m", "--log-level", "info", "--", "true").exits(t, 0)
	if !eventually(func() bool { _, err := os.Lstat(old); return os.IsNotExist(err) }) {
		t.Error("an old one is still there")
	}
	for _, path := range []string{young, foreign, live} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s is gone: %v", path, err)
		}
	}
	p.goesOn()
	p.says("check 0")
	p.wait()
}

// TestRelativeTempDir: a relative TMPDIR is where it was for the start.
func TestRelativeTempDir(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := os.Mkdir(b.path("rel"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := b.command("run", "pay", "-c", `cd /; onerun check; echo $?; test -d "$ONERUN_TMPDIR"; echo $?; echo $ONERUN_TMPDIR`)
	cmd.Env = append(cmd.Env, "TMPDIR=rel")
	if r := outcome(cmd).exits(t, 0); !strings.HasPrefix(r.out, "0\n0\n"+b.path("rel")+"/onerun-") || r.err != "" {
		t.Errorf("it printed %q and %q", r.out, r.err)
	}
	if left, err := os.ReadDir(b.path("rel")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	cmd = b.command("run", "pay", "-c", `onerun check; echo $?; test -d "$ONERUN_TMPDIR"; echo $?`)
	cmd.Env = append(cmd.Env, "TMPDIR=/no/such/directory")
	if r := outcome(cmd).exits(t, 0); r.out != "0\n0\n" || r.err != "" {
		t.Errorf("without TMPDIR it printed %q and %q", r.out, r.err)
	}
}

// TestReportStoreBusy: a store that takes nothing for now is no reason for a job to fail; what was
// reported is recorded with its end.
func TestReportStoreBusy(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "pay", "--store-timeout", "1s", "-c", `echo up; read go; onerun report processed=6; echo "report $?"; read go`)
	p.says("up")
	release := b.holdDatabase(t)
	p.goesOn()
	p.says("report 0")
	release()
	p.goesOn()
	if code := p.wait(); code != 0 || !bytes.Contains(p.err.Bytes(), []byte("kept until the job ends")) {
		t.Errorf("it ended with %d, and said %q", code, p.err.String())
	}
	if run := b.object(t, "show", "pay"); run["processed"] != 6.0 {
		t.Errorf("show has %v", run["processed"])
	}
}
