package etcd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/etcd"
)

func examined(t testing.TB, s *etcd.Store) []onerun.Finding {
	t.Helper()
	found, err := s.Examine(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// says checks that there is a finding, with words in it.
func says(t testing.TB, found []onerun.Finding, check string, status onerun.FindingStatus, words string) {
	t.Helper()
	var all []string
	for _, f := range found {
		if f.Check == check && f.Status == status && strings.Contains(f.Evidence+" "+f.Remedy, words) {
			return
		}
		all = append(all, fmt.Sprintf("%s %s: %s; %s", f.Check, f.Status, f.Evidence, f.Remedy))
	}
	t.Errorf("expected %s %s with %q, got\n%s", check, status, words, strings.Join(all, "\n"))
}

func TestExamine(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s := open(t, server.URL("mine"))
	if err := s.Pause(soon(t), onerun.PauseRequest{Namespace: "ns", Job: "job", Who: onerun.Who{By: "ana@h1", Reason: "a test"}}); err != nil {
		t.Fatal(err)
	}
	found := examined(t, s)
	for check, status := range map[string]onerun.FindingStatus{
		"connection": onerun.FindingOK, "encryption": onerun.FindingOK, "servers": onerun.FindingOK, "quorum": onerun.FindingWarning, "endpoints": onerun.FindingOK,
		"version": onerun.FindingOK, "alarms": onerun.FindingOK, "room": onerun.FindingOK, "fsync": onerun.FindingOK, "clock": onerun.FindingOK,
		"privileges": onerun.FindingWarning, "compaction": onerun.FindingOK, "event-chain": onerun.FindingOK, "stale-runs": onerun.FindingOK,
	} {
		says(t, found, check, status, "")
	}
	says(t, found, "version", onerun.FindingOK, "etcd 3.")
	if len(found) != 14 {
		t.Errorf("findings: %d, want 14", len(found))
	}
	skewed := open(t, server.URL("mine"), etcd.WithNow(func() time.Time { return time.Now().Add(time.Hour) }))
	says(t, examined(t, skewed), "clock", onerun.FindingWarning, "1h0m")

	beside := direct(t, server)
	r, err := beside.Get(soon(t), "mine/event/", clientv3.WithPrefix())
	if err != nil || len(r.Kvs) != 1 {
		t.Fatalf("events: %v, %v", r, err)
	}
	forged := strings.Replace(string(r.Kvs[0].Value), "a test", "a jest", 1)
	if _, err := beside.Put(soon(t), string(r.Kvs[0].Key), forged); err != nil {
		t.Fatal(err)
	}
	c := claimOf("other", "p")
	c.TTL = onerun.MinTTL
	if _, err := s.Claim(soon(t), c); err != nil {
		t.Fatal(err)
	}
	waitGone(t, beside, "mine/life/")
	found = examined(t, s)
	says(t, found, "event-chain", onerun.FindingDanger, "paused")
	says(t, found, "stale-runs", onerun.FindingWarning, "other:p")

	withAuth(t, server)
	user := func(u string) *etcd.Store {
		return open(t, fmt.Sprintf("etcd://%s:s3cr3t@%s/mine", u, server.Endpoint()))
	}
	says(t, examined(t, user("batch")), "privileges", onerun.FindingOK, "user batch")
	file := filepath.Join(t.TempDir(), "password")
	byFile := func() *etcd.Store {
		return open(t, fmt.Sprintf("etcd://batch@%s/mine?passfile=%s", server.Endpoint(), file))
	}
	says(t, examined(t, byFile()), "password-file", onerun.FindingDanger, "no such file")
	if err := os.WriteFile(file, []byte("s3cr3t"), 0o640); err != nil {
		t.Fatal(err)
	}
	says(t, examined(t, byFile()), "password-file", onerun.FindingWarning, "0640")
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, examined(t, byFile()), "password-file", onerun.FindingOK, "its owner's alone")
	says(t, examined(t, user("reader")), "privileges", onerun.FindingDanger, "grant-permission")
	says(t, examined(t, s), "connection", onerun.FindingDanger, "who asks")
	says(t, examined(t, open(t, "etcd://127.0.0.1:1/x")), "connection", onerun.FindingDanger, "")
}

// waitGone waits until there is no key with a prefix.
func waitGone(t testing.TB, c *clientv3.Client, prefix string) {
	t.Helper()
	ctx := soon(t)
	for ctx.Err() == nil {
		r, err := c.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil && r.Count == 0 {
			return
		}
		timer := time.NewTimer(50 * time.Millisecond)
		<-timer.C
	}
	t.Fatalf("keys %s are still there", prefix)
}
