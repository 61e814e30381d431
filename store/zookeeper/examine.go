package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
)

// examination is one look at a store, for what would make it unsafe.
type examination struct {
	s        *Store
	ctx      context.Context
	findings []onerun.Finding
}

// Examine implements onerun.Examiner. It changes nothing but the node clock, which is written to ask the server for its time, and
// makes no store. Servers that can't be reached are a finding too, and then the last one.
func (s *Store) Examine(ctx context.Context) ([]onerun.Finding, error) {
	x := &examination{s: s, ctx: ctx}
	x.passwordFile()
	if !x.connection() {
		return x.findings, nil
	}
	x.servers()
	x.ensemble()
	x.fsync()
	x.encryption()
	x.session()
	x.buffer()
	if x.store() {
		x.access()
		x.clock()
		x.leftovers()
		x.chains()
		x.stale()
	}
	return x.findings, nil
}

func (x *examination) add(check string, status onerun.FindingStatus, evidence, remedy string) {
	x.findings = append(x.findings, onerun.Finding{Check: check, Status: status, Evidence: evidence, Remedy: remedy})
}

// said is an error without what the finding says already.
func (x *examination) said(err error) (evidence, remedy string) {
	var e *onerun.StoreError
	if errors.As(x.s.space.explain("examine the store", err), &e) && e.Err != nil {
		return e.Err.Error(), e.Do
	}
	return err.Error(), ""
}

// unless adds that a check could not be made, if it could not.
func (x *examination) unless(err error, check string) bool {
	if err == nil {
		return true
	}
	evidence, _ := x.said(err)
	x.add(check, onerun.FindingUnknown, evidence, "")
	return false
}

func (x *examination) passwordFile() {
	file := x.s.space.file
	if file == "" {
		return
	}
	info, err := os.Stat(file)
	switch {
	case !x.unless(err, "password-file"):
	case info.Mode().Perm()&0o077 != 0:
		x.add("password-file", onerun.FindingWarning, fmt.Sprintf("%s has mode %04o: others can read the password", file, info.Mode().Perm()), "chmod 600 "+file)
	default:
		x.add("password-file", onerun.FindingOK, fmt.Sprintf("%s has mode %04o", file, info.Mode().Perm()), "")
	}
}

// connection looks whether anybody answers.
func (x *examination) connection() bool {
	s := x.s.space
	_, err := look(x.ctx, s.conn, func(z *zk.Conn) (bool, error) {
		there, _, err := z.Exists(s.chroot)
		return there, err
	})
	if err != nil {
		evidence, remedy := x.said(err)
		x.add("connection", onerun.FindingDanger, s.place()+": "+evidence, remedy)
		return false
	}
	who := "nobody has logged in"
	if s.user != "" {
		who = "logged in as " + s.user
	}
	x.add("connection", onerun.FindingOK, fmt.Sprintf("%s answers; %s", s.zk.Server(), who), "")
	return true
}

// encryption looks whether the way leaves this machine: the driver speaks no TLS.
func (x *examination) encryption() {
	for _, server := range x.s.space.servers {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			continue // parse has made it
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			x.add("encryption", onerun.FindingWarning, "the connection to "+server+" is not encrypted, and the password goes over it",
				"use a network that nobody else can listen to, or a tunnel")
			return
		}
	}
	x.add("encryption", onerun.FindingOK, "all servers are on this machine", "")
}

// session looks for how long a connection may be silent until it is given up.
func (x *examination) session() {
	s := x.s.space
	got := s.negotiated()
	const check = "session-timeout"
	switch silence := got * 2 / 3; {
	case got == 0:
		x.add(check, onerun.FindingUnknown, "the server hasn't said it", "")
	case silence > onerun.DefaultTTL/3:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("the server grants sessions of %s: a connection that was cut is noticed after %s, and leases of less than %s can be lost by that",
			got, silence, 3*silence), "lower minSessionTimeout on the servers, to 6s at most")
	case got != s.timeout:
		x.add(check, onerun.FindingOK, fmt.Sprintf("asked for %s, the server grants %s: a connection that was cut is noticed after %s; no lease depends on it", s.timeout, got, silence), "")
	default:
		x.add(check, onerun.FindingOK, fmt.Sprintf("%s: a connection that was cut is noticed after %s; no lease depends on it", got, silence), "")
	}
}

// store looks whether there is one.
func (x *examination) store() bool {
	s := x.s.space
	_, errs := s.gets(x.ctx, []string{s.at("epoch"), s.nodePath("meta")})
	switch err := first(errs); {
	case errors.Is(err, zk.ErrNoNode):
		x.add("store", onerun.FindingOK, "there is none below "+s.chroot+" yet; the first start makes it", "")
		return false
	case err != nil:
		evidence, remedy := x.said(err)
		x.add("store", onerun.FindingDanger, evidence, remedy)
		return false
	}
	x.add("store", onerun.FindingOK, "it is below "+s.chroot, "")
	return true
}

// access looks who else may write.
func (x *examination) access() {
	s := x.s.space
	acl, err := look(x.ctx, s.conn, func(z *zk.Conn) ([]zk.ACL, error) {
		acl, _, err := z.GetACL(s.at("keys"))
		return acl, err
	})
	if !x.unless(err, "acl") {
		return
	}
	var world int32
	for _, a := range acl {
		if a.Scheme == "world" {
			world |= a.Perms
		}
	}
	remedy := fmt.Sprintf("name a user in the store's URL, and give the nodes to it: addauth digest USER:PASSWORD, then setAcl -R %s auth::cdrwa in zkCli.sh", s.chroot)
	switch {
	case world&^zk.PermRead != 0:
		x.add("acl", onerun.FindingWarning, "world:anyone may change "+s.at("keys")+": whoever reaches the servers can write whatever it likes", remedy)
	case world != 0:
		x.add("acl", onerun.FindingOK, "world:anyone may read, and change nothing", "")
	default:
		x.add("acl", onerun.FindingOK, "only who is named in it may read and change", "")
	}
}

// clock looks how far the server's clock is from this host's. No decision compares them.
func (x *examination) clock() {
	before := time.Now()
	now, err := x.s.space.ask(x.ctx)
	if !x.unless(err, "server-clock") {
		return
	}
	after := time.Now()
	off := now.Sub(after)
	if off < 0 && !now.Before(before) {
		off = 0
	}
	const most = 2 * time.Second
	if off.Abs() > most {
		x.add("server-clock", onerun.FindingWarning, fmt.Sprintf("the server's clock differs from this host's by %s: logs and dates mislead; no decision compares them", off.Round(time.Millisecond)),
			"keep both in step with a clock service that slews")
		return
	}
	x.add("server-clock", onerun.FindingOK, "the server's clock and this host's agree", "")
}

// leftovers counts what the sweeps haven't come to.
func (x *examination) leftovers() {
	s := x.s.space
	left := make([]int, goneShards)
	errs := make([]error, goneShards)
	each(goneShards, func(i int) {
		left[i], errs[i] = look(x.ctx, s.conn, func(z *zk.Conn) (int, error) {
			_, stat, err := z.Exists(s.at("gone", fmt.Sprintf("%x", i)))
			if err != nil { // there is no Stat then
				return 0, err
			}
			return int(stat.NumChildren), nil
		})
	})
	if !x.unless(first(errs), "sweeps") {
		return
	}
	all := 0
	for _, n := range left {
		all += n
	}
	if all > 50000 {
		x.add("sweeps", onerun.FindingWarning, fmt.Sprintf("the keys of %d commits are deleted and not removed", all), "look why the role of some process may not delete below "+s.chroot)
		return
	}
	x.add("sweeps", onerun.FindingOK, fmt.Sprintf("the keys of %d commits wait to be removed", all), "")
}

// chains reckons the journal's hashes again. It takes longer the larger the ledger is, so it is given up after a third of the
// time that there is.
func (x *examination) chains() {
	ctx := x.ctx
	if until, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(until)/3)
		defer cancel()
	}
	events, loose, err := x.s.Chains(ctx)
	switch {
	case !x.unless(err, "event-chain"):
	case loose != "":
		x.add("event-chain", onerun.FindingDanger, loose+" doesn't follow from the one before it", "somebody has changed the journal: compare with a backup")
	default:
		x.add("event-chain", onerun.FindingOK, fmt.Sprintf("each of %d events follows from the one before it", events), "")
	}
}

// stale looks for runs whose owners are not heard of any more.
func (x *examination) stale() {
	s := x.s.space
	namespaces, err := look(x.ctx, s.conn, func(z *zk.Conn) ([]string, error) {
		names, _, err := z.Children(s.at("keys", "time"))
		if errors.Is(err, zk.ErrNoNode) {
			err = nil
		}
		return names, err
	})
	if !x.unless(err, "stale-runs") {
		return
	}
	var names []string
	for _, encoded := range namespaces {
		namespace, err := url.PathUnescape(encoded)
		if err != nil || strings.Contains(namespace, "~") {
			continue // it is shortened, and can't be told from its node
		}
		runs, err := x.s.Runs(x.ctx, onerun.Query{Namespace: namespace, Statuses: []onerun.Status{onerun.Running}})
		if !x.unless(err, "stale-runs") {
			return
		}
		for _, r := range runs {
			if r.Stale {
				names = append(names, r.Name())
			}
		}
	}
	const most = 5
	switch n := len(names); {
	case n == 0:
		x.add("stale-runs", onerun.FindingOK, "no run is RUNNING without an owner that is heard of", "")
	default:
		shown := strings.Join(names[:min(n, most)], ", ")
		if n > most {
			shown += fmt.Sprintf(" and %d more", n-most)
		}
		x.add("stale-runs", onerun.FindingWarning, shown+": RUNNING, and the lease is over or it has lasted too long", "onerun stale")
	}
}
