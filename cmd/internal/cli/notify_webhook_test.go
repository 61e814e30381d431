package cli

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestWebhookSignature: with a secret, a receiver can tell that a message is ours, as the Standard Webhooks
// specification says, and the secret isn't sent.
func TestWebhookSignature(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var n atomic.Int32
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for secret, key := range map[string]string{"plain+text=": "plain+text=", "whsec_" + base64.StdEncoding.EncodeToString([]byte("the key")): "the key"} {
		n.Store(0)
		b.run("run", "settle", "--notify", r.URL+"/hook?a=b#secret="+secret, "--", "false").exits(t, 1)
		ids := map[string]bool{}
		for range 2 { // the second is the first one again, for a receiver that has it
			l := r.next(t)
			id, at := l.header.Get("webhook-id"), l.header.Get("webhook-timestamp")
			mac := hmac.New(sha256.New, []byte(key))
			mac.Write([]byte(id + "." + at + "." + string(l.body)))
			if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); l.header.Get("webhook-signature") != want {
				t.Errorf("the signature is %q, want %q", l.header.Get("webhook-signature"), want)
			}
			if sec := fmt.Sprint(time.Now().Unix()); len(at) != len(sec) || at > sec {
				t.Errorf("the time is %q, and now is %s", at, sec)
			}
			if l.path+"?"+l.query != "/hook?a=b" || l.header.Get("content-type") != "application/json" {
				t.Errorf("sent to %s?%s as %s", l.path, l.query, l.header.Get("content-type"))
			}
			ids[id] = true
		}
		if len(ids) != 1 || ids[""] {
			t.Errorf("the ids of one message are %v", ids)
		}
	}
	b.run("run", "settle", "--notify", r.URL, "--", "false").exits(t, 1)
	if l := r.next(t); l.header.Get("webhook-signature") != "" {
		t.Error("signed without a secret")
	}
}

// TestWebhookTrouble: whatever a receiver does, the job's exit code is its own, onerun ends within its bound,
// and of what could not be sent there is one line.
func TestWebhookTrouble(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	hijack := func(say string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			_, _ = conn.Write([]byte(say))
			_ = conn.Close()
		}
	}
	elsewhere := newReceiver(t, nil)
	status := func(codes ...int) http.HandlerFunc {
		var n atomic.Int32
		return func(w http.ResponseWriter, _ *http.Request) {
			code := codes[min(int(n.Add(1)), len(codes))-1]
			if code/100 == 3 {
				w.Header().Set("Location", elsewhere.URL+"/c4n4ry")
			}
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc // nil: nobody listens
		times  int              // it is asked
		says   string           // in the log; "": it was told
	}{
		"refuses":            {nil, 0, "connection refused"},
		"500 then 200":       {status(500, 200), 2, ""},
		"429 then 204":       {status(429, 204), 2, ""},
		"always 500":         {status(500), 3, "500 Internal Server Error"},
		"404":                {status(404), 1, "404 Not Found"},
		"redirects":          {status(307), 1, "redirects are not followed"},
		"redirects as GET":   {status(302), 1, "redirects are not followed"},
		"hangs":              {hangs, 2, "its time was over"},
		"closes at once":     {hijack(""), 3, "EOF"},
		"closes mid-answer":  {hijack("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), 1, ""},
		"answers no HTTP":    {hijack("220 c4n4ry ESMTP\r\n"), 3, "not of HTTP"},
		"endless body":       {endless, 1, ""},
		"endless slow body":  {trickle, 1, ""},
		"endless header":     {hijack("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20)), 3, "head has more"},
		"answers with a key": {hijack("HTTP/1.1 c4n4ry\r\n\r\n"), 3, "not of HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			url := "http://" + closed.Addr().String()
			var r *receiver
			if c.answer != nil {
				r = newReceiver(t, c.answer)
				url = r.URL
			}
			began := time.Now()
			res := b.run("run", "settle", "--partition", "p", "--notify", url+"/c4n4ry?key=c4n4ry", "--", "sh", "-c", "exit 3").exits(t, 3)
			if took := time.Since(began); took > 2*tellAfter || name == "endless body" && took > tellAfter/3 { // before its try's own end
				t.Errorf("it took %s", took)
			}
			if strings.Contains(res.err+res.out, "c4n4ry") {
				t.Errorf("it shows the address: %s", res.err)
			}
			if c.says == "" && strings.Contains(res.err, "notify_failed") {
				t.Errorf("it says %s", res.err)
			} else if c.says != "" {
				if line := notifyFailed(t, res.err); !strings.Contains(line, c.says) || !strings.Contains(line, `detail="failure to http://127.0.0.1:`) || !strings.Contains(line, "level=warn") {
					t.Errorf("it says %s", line)
				}
			}
			if r != nil && len(r.got) != c.times {
				t.Errorf("asked %d times, want %d", len(r.got), c.times)
			}
			if run := b.object(t, "show", "settle:p"); run["status"] != "FAILED" || run["exit_code"] != 3.0 {
				t.Errorf("recorded as %v %v", run["status"], run["exit_code"])
			}
		})
	}
	t.Cleanup(func() { elsewhere.silent(t) })
}

func endless(w http.ResponseWriter, _ *http.Request) {
	for {
		if _, err := w.Write(make([]byte, 4096)); err != nil {
			return
		}
	}
}

// trickle has said that all is well, and then never ends.
func trickle(w http.ResponseWriter, q *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	hangs(w, q)
}

// TestNotifyHoldsNoLock: while a receiver hangs, the lock is free; a signal ends the wait for it at once.
func TestNotifyHoldsNoLock(t *testing.T) {
	t.Parallel()
	for _, unrecorded := range []bool{false, true} {
		b, r := newBed(t), newReceiver(t, hangs)
		p := b.start("run", "settle", "--partition", "p", "--finish-wait", "1s", "--store-timeout", "1s", "--notify", r.URL, "--notify", "command:echo $$ >pid; exec sleep 600", "--", "sh", "-c", "echo up; read x; exit 3")
		p.says("up")
		release := func() {}
		if unrecorded {
			release = b.holdDatabase(t)
		}
		_ = p.in.Close()
		if m := r.told(t, "failure"); m["exit_code"] != 3.0 || unrecorded != strings.Contains(m["text"].(string), "not recorded") {
			t.Errorf("told %v: %v", m["exit_code"], m["text"])
		}
		release()
		b.run("run", "settle", "--partition", "q", "--", "true").exits(t, 0)
		if run := b.object(t, "show", "settle:p"); run["status"] != "FAILED" {
			t.Errorf("the first is %v", run["status"])
		}
		if !eventually(func() bool { return strings.HasSuffix(b.read("pid"), "\n") }) {
			t.Fatal("the command isn't started")
		}
		select {
		case err := <-p.ended:
			t.Fatalf("it has ended before it was looked at: %v; %s", err, p.err.String())
		default:
		}
		began := time.Now()
		p.signal(syscall.SIGTERM)
		if code := p.wait(); code != 143 || time.Since(began) > tellAfter/2 {
			t.Errorf("exit status %d, %s after the signal", code, time.Since(began))
		}
		var command int
		_, _ = fmt.Sscan(b.read("pid"), &command)
		if !eventually(func() bool { return !runs(command) }) {
			t.Errorf("the command outlives onerun")
		}
	}
}

// TestNotifyCommandHangs: a command that doesn't end is killed with all that it has started.
func TestNotifyCommandHangs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	began := time.Now()
	res := b.run("run", "settle", "--notify", "command:sleep 600 & echo $! >pid; wait", "--", "sh", "-c", "exit 3").exits(t, 3)
	if took := time.Since(began); took > 2*tellAfter {
		t.Errorf("it took %s", took)
	}
	notifyFailed(t, res.err)
	var pid int
	if _, err := fmt.Sscan(b.read("pid"), &pid); err != nil || !eventually(func() bool { return !runs(pid) }) {
		t.Errorf("process %d outlives its time: %v", pid, err)
	}
	// One that leaves something in the background has ended.
	began = time.Now()
	res = b.run("run", "settle", "--notify", "command:sleep 600 & echo $! >pid", "--", "false").exits(t, 1)
	if took := time.Since(began); took > tellAfter/2 || strings.Contains(res.err, "notify_failed") {
		t.Errorf("it took %s, and says %s", took, res.err)
	}
	_, _ = fmt.Sscan(b.read("pid"), &pid)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// TestNotifyUnrecorded: of a success that could not be recorded somebody hears too.
func TestNotifyUnrecorded(t *testing.T) {
	t.Parallel()
	b, r := newBed(t), newReceiver(t, nil)
	p := b.start("run", "settle", "--partition", "p", "--finish-wait", "1s", "--store-timeout", "1s", "--notify", r.URL, "--ping", r.URL+"/ping", "--", "sh", "-c", "echo up; read x; exit 0")
	p.says("up")
	if l := r.next(t); l.path != "/ping/start" {
		t.Errorf("told at %s", l.path)
	}
	release := b.holdDatabase(t)
	_ = p.in.Close()
	if code := p.wait(); code != 76 {
		t.Errorf("exit status %d: %s", code, p.err.String())
	}
	release()
	for range 2 {
		if l := r.next(t); l.path == "/" {
			holds(t, l.message(t), map[string]any{"event": "failure", "status": "SUCCEEDED", "key": "settle:p"})
		} else if l.path != "/ping/fail" || !strings.Contains(string(l.body), "not recorded yet") {
			t.Errorf("told at %s: %s", l.path, l.body)
		}
	}
}
