package cli

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// TestNotifyTLS: what goes over TLS onerun-full sends, a ping as well as a webhook, and it goes by
// the system's roots.
func TestNotifyTLS(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	got := make(chan letter, 100)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		got <- letter{path: q.URL.Path, query: q.URL.RawQuery, header: q.Header}
		if q.URL.Path == "/away" {
			http.Redirect(w, q, "/here", http.StatusFound)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a certificate is to be refused
	s.StartTLS()
	t.Cleanup(s.Close)
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(b.path("root.pem"), root, 0o600); err != nil {
		t.Fatal(err)
	}
	full := withFull(t)
	run := func(trusting bool, notify string) result {
		cmd := b.command("run", "settle", "--notify", s.URL+notify, "--ping", s.URL+"/ping", "--", "false")
		cmd.Path = full
		if trusting {
			cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+b.path("root.pem"))
		}
		return outcome(cmd).exits(t, 1)
	}
	if r := run(true, "/hook#secret=x"); strings.Contains(r.err, "notify_failed") {
		t.Errorf("it says %s", r.err)
	}
	paths := map[string]letter{}
	for range 3 {
		l := <-got
		paths[l.path] = l
	}
	if !strings.HasPrefix(paths["/hook"].header.Get("Webhook-Signature"), "v1,") || paths["/ping/start"].query == "" || paths["/ping/fail"].query == "" {
		t.Errorf("told: %v", paths)
	}
	if r := run(true, "/away"); !strings.Contains(r.err, "redirects are not followed") || strings.Contains(r.err, "/away") {
		t.Errorf("of a redirect it says %s", r.err)
	}
	if r := run(false, "/hook"); !strings.Contains(r.err, "certificate") || strings.Contains(r.err, "/hook") {
		t.Errorf("of a stranger's certificate it says %s", r.err)
	}
	for range 3 { // of the redirect alone: a stranger gets nothing
		<-got
	}
	select {
	case l := <-got:
		t.Errorf("told more: %v", l)
	default:
	}

	// Without onerun-full it says so at once, of both, and the job runs all the same.
	r := b.run("run", "settle", "--notify", s.URL+"/hook", "--ping", s.URL+"/ping", "--", "false").exits(t, 1)
	if n := strings.Count(r.err, "nothing is sent to https://127.0.0.1"); n != 2 || strings.Contains(r.err, "notify_failed") {
		t.Errorf("without it, it says %s", r.err)
	}
}
