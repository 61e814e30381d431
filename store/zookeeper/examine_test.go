package zookeeper

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

func examine(t testing.TB, s *Store) []onerun.Finding {
	t.Helper()
	f, err := s.Examine(soon(t))
	must(t, err, "examine")
	return f
}

// found looks for a finding with some words in it.
func found(t testing.TB, all []onerun.Finding, check string, status onerun.FindingStatus, words string) {
	t.Helper()
	for _, f := range all {
		if f.Check == check && f.Status == status && strings.Contains(f.Evidence, words) {
			return
		}
	}
	t.Errorf("no finding %s (%s) with %q in %+v", check, status, words, all)
}

func TestExamine(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	url := freshURL(addr)
	s := open(t, url)
	all := examine(t, s)
	found(t, all, "store", onerun.FindingOK, "the first start makes it")
	if there, _, err := direct(t, addr).Exists(s.space.chroot); err != nil || there {
		t.Errorf("looking made a store: %t, %v", there, err)
	}
	c := claimOf("settle", "2026-09-15", onerun.MinTTL)
	granted(t, s, c)
	time.Sleep(onerun.MinTTL + 200*time.Millisecond)
	all = examine(t, s)
	found(t, all, "connection", onerun.FindingOK, addr)
	found(t, all, "server", onerun.FindingOK, "standalone")
	found(t, all, "ensemble", onerun.FindingWarning, "one server alone")
	found(t, all, "encryption", onerun.FindingOK, "this machine")
	found(t, all, "session-timeout", onerun.FindingOK, "6s")
	found(t, all, "jute-maxbuffer", onerun.FindingOK, "900 KiB")
	found(t, all, "store", onerun.FindingOK, s.space.chroot)
	found(t, all, "acl", onerun.FindingWarning, "world:anyone")
	found(t, all, "server-clock", onerun.FindingOK, "agree")
	found(t, all, "sweeps", onerun.FindingOK, "")
	found(t, all, "event-chain", onerun.FindingOK, "")
	found(t, all, "stale-runs", onerun.FindingWarning, "settle:2026-09-15")

	file := secret(t, "hidden")
	must(t, os.Chmod(file, 0o644), "chmod")
	mine := open(t, withUser(freshURL(addr), "batch", file))
	succeed(t, mine, granted(t, mine, claimOf("settle", "2026-09-15", time.Minute)))
	all = examine(t, mine)
	found(t, all, "password-file", onerun.FindingWarning, "0644")
	found(t, all, "acl", onerun.FindingOK, "only who is named")
	found(t, all, "stale-runs", onerun.FindingOK, "")
}

// TestExamineABadServer: what an unsafe configuration is told of, and a server that is gone.
func TestExamineABadServer(t *testing.T) {
	t.Parallel()
	server := server(t, "minSessionTimeout=45000", "maxSessionTimeout=60000", "-Djute.maxbuffer=65536")
	s := open(t, freshURL(server.Addr()))
	all := examine(t, s)
	found(t, all, "session-timeout", onerun.FindingWarning, "45s")
	found(t, all, "jute-maxbuffer", onerun.FindingDanger, "hangs up")
	server.Stop(syscall.SIGKILL)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	all, err := open(t, freshURL(server.Addr())).Examine(ctx)
	must(t, err, "examine")
	if len(all) != 1 {
		t.Errorf("findings about a server that is gone: %+v", all)
	}
	found(t, all, "connection", onerun.FindingDanger, "refused")
}

// TestExamineFsync: a server that doesn't wait for its disk is told from one that does.
func TestExamineFsync(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]onerun.FindingStatus{"forceSync=no": onerun.FindingDanger, "forceSync=yes": onerun.FindingOK} {
		s := open(t, freshURL(server(t, line).Addr()))
		succeed(t, s, granted(t, s, claimOf("settle", "2026-09-15", time.Minute)))
		found(t, examine(t, s), "fsync", want, "wait")
	}
	quiet := server(t, "4lw.commands.whitelist=srvr", "-Dzookeeper.4lw.commands.whitelist=srvr")
	found(t, examine(t, open(t, freshURL(quiet.Addr()))), "fsync", onerun.FindingUnknown, "isn't allowed to answer mntr")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]bool{"3.4.14-4c25d480": true, "3.5.0": false, "3.8.0-${x}": false, "4.0": false, "odd": false} {
		if old(v) != want {
			t.Errorf("%s is old: %t", v, !want)
		}
	}
}
