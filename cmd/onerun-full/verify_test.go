package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// verified is the document of onerun verify --json.
type verified struct {
	OK                        bool
	Verdict, Store, Namespace string
	Left                      []string
	Checks                    []struct {
		Check, Evidence string
		OK              bool
	}
}

func (p *process) verified(code int) (v verified) {
	p.h.t.Helper()
	r := p.wait().exits(p.h.t, code)
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.err != "" || v.OK != (code == 0) || len(v.Left) != 0 || strings.Contains(v.Verdict, "s3cr3t") {
		p.h.t.Errorf("%v; it printed %s and %s", err, r.out, r.err)
	}
	return v
}

// is says which checks there are, which of them failed, and what their evidence says.
func (v verified) is(t *testing.T, checks string, failed string, says ...string) {
	t.Helper()
	var names []string
	for _, c := range v.Checks {
		names = append(names, c.Check)
		if c.OK == slices.Contains(strings.Fields(failed), c.Check) {
			t.Errorf("%s: ok is %v: %s", c.Check, c.OK, c.Evidence)
		}
	}
	if got := strings.Join(names, " "); got != checks {
		t.Errorf("checks: %s", got)
	}
	for i := 0; i < len(says); i += 2 {
		if n := slices.Index(names, says[i]); n < 0 || !strings.Contains(v.Checks[n].Evidence, says[i+1]) {
			t.Errorf("%s doesn't say %q: %+v", says[i], says[i+1], v.Checks)
		}
	}
}

// clean: nothing is left in the ledger, nor on the hosts.
func clean(t *testing.T, hosts ...*host) {
	t.Helper()
	for _, h := range hosts {
		for _, what := range []string{"history", "locks", "status"} {
			if rows := h.list(what); len(rows) != 0 {
				t.Errorf("%s: %v", what, rows)
			}
		}
		h.until("an empty lock directory", func() bool {
			names, _ := filepath.Glob(h.path("locks/*verify*"))
			return len(names) == 0
		})
		h.until("no temporary files", func() bool {
			left, _ := os.ReadDir(h.path("tmp")) // none is empty
			return len(left) == 0
		})
	}
}

// ownTmp gives a host temporary files of its own.
func (h *host) ownTmp() *host {
	h.t.Helper()
	if err := os.Mkdir(h.path("tmp"), 0o700); err != nil {
		h.t.Fatal(err)
	}
	h.env = append(h.env, "TMPDIR="+h.path("tmp"))
	return h
}

const (
	allChecks = "one-key one-lock wrapper-killed wrapper-and-guard-killed holder-frozen old-token-refused"
	meeting   = "met one-of-all-hosts-key one-of-all-hosts-lock"
)

// verifiesItself: all holds on one host, and for two hosts that meet; those that look at two namespaces
// don't meet.
func verifiesItself(t *testing.T, url string) {
	t.Helper()
	a, b := newHost(t, url).ownTmp(), newHost(t, url).ownTmp()
	few := []string{"verify", "--json", "--processes", "4", "--rounds", "3"}
	a.start(append(few, "--ttl", "2s")...).verified(0).is(t, allChecks, "",
		"wrapper-killed", "by proof on this host, without waiting for the lease of 30s", "wrapper-and-guard-killed", "3 starts were refused",
		"holder-frozen", "ignores SIGTERM", "old-token-refused", "the store says that it is lost")
	clean(t, a)
	together := append(few, "--rendezvous", "tonight")
	one, two := a.start(together...), b.start(together...)
	for _, p := range []*process{one, two} {
		p.verified(0).is(t, meeting, "", "one-of-all-hosts-key", "4 processes on each of 2 hosts contended for a key in 3 rounds")
	}
	clean(t, a, b)
	one, two = a.start(append(together, "--within", "3s", "--namespace", "one")...), b.start(append(together, "--within", "3s", "--namespace", "two")...)
	for _, p := range []*process{one, two} {
		p.verified(1).is(t, "met", "met", "met", "another store or another namespace")
	}
	clean(t, a, b)
}

// TestVerify: on PostgreSQL; and of two hosts that have two schemas each learns that it is alone.
func TestVerify(t *testing.T) {
	t.Parallel()
	url := schema(t)
	verifiesItself(t, url)
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	a, b := newHost(t, url), newHost(t, s.URL("postgres", "schema", "testverify_2"))
	alone := []string{"verify", "--json", "--rounds", "3", "--rendezvous", "other", "--within", "3s"}
	one, two := a.start(alone...), b.start(alone...)
	for _, p := range []*process{one, two} {
		p.verified(1).is(t, "met", "met", "met", "1 of 2 hosts came")
	}
	// A script that gives every start a namespace of its own, as one by host name and process would.
	if err := os.WriteFile(a.path("onerun-here"), []byte("#!/bin/sh\nexec onerun --namespace n$$ \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.start("verify", "--json", "--program", "./onerun-here", "--rounds", "2", "--processes", "3").verified(1).is(t,
		"one-key one-lock wrapper-killed wrapper-and-guard-killed holder-frozen", "one-key one-lock wrapper-killed wrapper-and-guard-killed holder-frozen",
		"one-key", "3 of them executed it")
	nobody := strings.Replace(s.URL("postgres"), "s3cr3t", "wr0ng", 1)
	if r := newHost(t, nobody).run("verify"); r.code != 77 || r.out != "" || strings.Count(r.err, "\n") != 1 {
		t.Errorf("with a wrong password: %+v", r)
	}
}

// TestVerifyAway: a store that can't be reached is no disproof.
func TestVerifyAway(t *testing.T) {
	t.Parallel()
	_, net := cut(t)
	h := newHost(t, net.URL("postgres", "schema", "one")).ownTmp()
	p := h.start("verify", "--store-timeout", "1s", "--rounds", "500")
	h.until("an execution", func() bool {
		names, _ := filepath.Glob(h.path("tmp/onerun-verify-*/witness-one-key"))
		if len(names) == 0 {
			return false
		}
		st, err := os.Stat(names[0])
		return err == nil && st.Size() > 0
	})
	net.Pass(false, false)
	net.Break()
	if r := p.wait().exits(t, 69); r.out != "" || strings.Count(r.err, "\n") != 2 || !strings.Contains(r.err, "left behind: runs of the job onerun-verify-") {
		t.Errorf("it printed %q and %q", r.out, r.err)
	}
}

// TestVerifyOthers: the same on the other stores.
func TestVerifyOthers(t *testing.T) {
	t.Parallel()
	for name, start := range otherStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url, err := start(t)
			if err != nil {
				t.Fatal(err)
			}
			verifiesItself(t, url)
		})
	}
}
