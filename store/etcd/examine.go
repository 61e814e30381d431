package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/onerun-dev/onerun"
)

// examination is one look at a store, for what would make it unsafe.
type examination struct {
	s        *Store
	ctx      context.Context
	findings []onerun.Finding
	client   *clientv3.Client
	members  []member // those that the URL names
	revision int64
}

// member is one server, as it describes itself.
type member struct {
	endpoint string // host:port
	status   *clientv3.StatusResponse
	metrics  map[string]float64
}

// Examine implements onerun.Examiner. It changes nothing. A server that can't be reached is a
// finding too; if none can, the last one. What the user may not see is unknown. The journal's
// chains, which take longer the larger the ledger is, are given up after a third of the time that
// ctx leaves.
func (s *Store) Examine(ctx context.Context) ([]onerun.Finding, error) {
	x := &examination{s: s, ctx: ctx}
	x.secrets()
	if !x.connection() {
		return x.findings, nil
	}
	x.encryption()
	x.asked()
	x.cluster()
	x.versions()
	x.alarms()
	x.room()
	x.fsync()
	x.clock()
	x.privileges()
	x.compaction()
	x.chains()
	x.stale()
	return x.findings, nil
}

func (x *examination) add(check string, status onerun.FindingStatus, evidence, remedy string) {
	x.findings = append(x.findings, onerun.Finding{Check: check, Status: status, Evidence: evidence, Remedy: remedy})
}

// fine adds that a check found nothing, if it has found nothing.
func (x *examination) fine(check, evidence string) {
	for _, f := range x.findings {
		if f.Check == check {
			return
		}
	}
	x.add(check, onerun.FindingOK, evidence, "")
}

// why takes an error apart: its cause, and what to do.
func (x *examination) why(err error) (evidence, remedy string) {
	var e *onerun.StoreError
	if err = x.s.space.explain(x.ctx, "examine the store", err); errors.As(err, &e) && e.Err != nil {
		return strings.TrimSpace(e.Path + ": " + e.Err.Error()), e.Do
	}
	return err.Error(), ""
}

// unless adds that a check could not be made, if it could not.
func (x *examination) unless(err error, check string) bool {
	if err != nil {
		evidence, _ := x.why(err)
		x.add(check, onerun.FindingUnknown, evidence, "")
	}
	return err == nil
}

// connection connects, and reads what every start reads first.
func (x *examination) connection() bool {
	const check = "connection"
	began := time.Now()
	c, err := x.s.space.connect(x.ctx)
	if err == nil {
		var r *clientv3.GetResponse
		if r, err = c.Get(x.ctx, x.s.space.key("meta")); err == nil {
			x.client, x.revision = c, r.Header.Revision
		}
	}
	if err != nil {
		evidence, remedy := x.why(err)
		x.add(check, onerun.FindingDanger, evidence, remedy)
		return false
	}
	as := "anybody"
	if u := x.s.space.config.user; u != "" {
		as = "user " + u
	}
	x.add(check, onerun.FindingOK, fmt.Sprintf("%s answers %s after %s", x.s.Name(), as, time.Since(began).Round(time.Millisecond)), "")
	return true
}

// secrets looks who may read the files that the URL names.
func (x *examination) secrets() {
	const check = "password-file"
	c := x.s.space.config
	for _, path := range []string{c.passfile, c.key} {
		if path == "" {
			continue
		}
		st, err := os.Stat(path)
		switch {
		case err != nil:
			x.add(check, onerun.FindingDanger, err.Error(), "it is read anew for each connection: put the file back")
		case st.Mode().Perm()&0o077 != 0:
			x.add(check, onerun.FindingWarning, fmt.Sprintf("%s has mode %04o: others can read it, and be this user", path, st.Mode().Perm()), "chmod 600 "+path)
		default:
			x.add(check, onerun.FindingOK, path+" is its owner's alone", "")
		}
	}
}

func (x *examination) encryption() {
	const check = "encryption"
	c := x.s.space.config
	local := true
	for _, e := range c.endpoints {
		local = local && (strings.HasPrefix(e, "127.") || strings.HasPrefix(e, "localhost:") || strings.HasPrefix(e, "[::1]"))
	}
	switch {
	case c.tls:
		x.add(check, onerun.FindingOK, "TLS, with the server's certificate verified", "")
	case local:
		x.add(check, onerun.FindingOK, "plain text, on this machine", "")
	default:
		x.add(check, onerun.FindingWarning, "plain text: who can listen on the way reads the password, and who can write decides what runs",
			"cacert=FILE in the store's URL, and --cert-file on the servers")
	}
}

// asked asks every server that the URL names about itself.
func (x *examination) asked() {
	for _, e := range x.s.space.config.endpoints {
		ctx, cancel := context.WithTimeout(x.ctx, 3*time.Second)
		status, err := x.client.Status(ctx, x.url(e))
		cancel()
		if err != nil {
			evidence, _ := x.why(err)
			x.add("servers", onerun.FindingWarning, fmt.Sprintf("%s doesn't answer: %s", e, evidence), "look at that server: the store lives as long as a majority of the members does")
			continue
		}
		x.members = append(x.members, member{endpoint: e, status: status, metrics: x.metrics(e)})
		for _, words := range status.Errors {
			x.add("servers", onerun.FindingWarning, fmt.Sprintf("%s says: %s", e, words), "look at etcd's log")
		}
	}
	x.fine("servers", fmt.Sprintf("all %d that the URL names answer", len(x.members)))
}

// cluster counts those who decide.
func (x *examination) cluster() {
	const check = "quorum"
	r, err := x.client.MemberList(x.ctx)
	if !x.unless(err, check) {
		return
	}
	voters, named := 0, len(x.s.space.config.endpoints)
	for _, m := range r.Members {
		if !m.IsLearner {
			voters++
		}
	}
	bears := (voters - 1) / 2
	switch {
	case voters == 1:
		x.add(check, onerun.FindingWarning, "one member: when it is away nothing starts, and when its disk is lost so is the ledger", "run three members on three machines, or back it up")
	case voters%2 == 0:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("%d members bear the loss of %d, as %d would", voters, bears, voters-1), "run an odd number of members")
	default:
		x.add(check, onerun.FindingOK, fmt.Sprintf("%d members bear the loss of %d", voters, bears), "")
	}
	if named < min(voters, 2) {
		x.add("endpoints", onerun.FindingWarning, fmt.Sprintf("the URL names 1 of %d members: when that one is away the store can't be reached", voters),
			"name them all in the store's URL: etcd://HOST1,HOST2,HOST3/…")
	} else {
		x.add("endpoints", onerun.FindingOK, fmt.Sprintf("the URL names %d of %d members", named, voters), "")
	}
}

func (x *examination) versions() {
	const check = "version"
	var all []string
	for _, m := range x.members {
		v := m.status.Version
		var major, minor int
		if _, err := fmt.Sscanf(v, "%d.%d", &major, &minor); err != nil || major < 3 || major == 3 && minor < 4 {
			x.add(check, onerun.FindingDanger, fmt.Sprintf("%s is etcd %s", m.endpoint, v), "use etcd 3.4 or newer")
		}
		if len(all) == 0 || all[len(all)-1] != v {
			all = append(all, v)
		}
	}
	if len(all) > 1 {
		x.add(check, onerun.FindingWarning, "the members have versions "+strings.Join(all, ", "), "bring them all to the newest")
	}
	x.fine(check, "etcd "+strings.Join(all, ", "))
}

func (x *examination) alarms() {
	const check = "alarms"
	r, err := x.client.AlarmList(x.ctx)
	if !x.unless(err, check) {
		return
	}
	for _, a := range r.Alarms {
		do := "look at etcd's log, and replace that member"
		if a.Alarm.String() == "NOSPACE" {
			do = "nothing can be written: compact and defragment, or raise --quota-backend-bytes; then etcdctl alarm disarm"
		}
		x.add(check, onerun.FindingDanger, fmt.Sprintf("member %x has raised %s", a.MemberID, a.Alarm), do)
	}
	x.fine(check, "none is raised")
}

// privileges asks for what may be read and written under the prefix, by a transaction whose
// condition never holds: whether it may be done is looked at first.
func (x *examination) privileges() {
	const check = "privileges"
	key := x.s.space.key("meta")
	from, to := x.s.space.key(""), x.s.space.config.prefix+"0"
	_, err := x.client.Txn(x.ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "<", 0)).
		Then(clientv3.OpPut(key, ""), clientv3.OpPut(x.s.space.key("zzz"), ""), clientv3.OpDelete(x.s.space.key("zz")), clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithLimit(1))).
		Commit()
	switch {
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		x.add(check, onerun.FindingDanger, fmt.Sprintf("user %s may not read and write everything under %s/", x.s.space.config.user, x.s.space.config.prefix),
			"etcdctl role grant-permission ROLE --prefix readwrite "+x.s.space.config.prefix+"/")
	case x.unless(err, check) && x.s.space.config.user == "":
		x.add(check, onerun.FindingWarning, "whoever reaches etcd may read and write the ledger: it asks for no user", "etcdctl auth enable, with a user whose role has this prefix alone")
	case err == nil:
		x.add(check, onerun.FindingOK, fmt.Sprintf("user %s may read and write under %s/", x.s.space.config.user, x.s.space.config.prefix), "")
	}
}

// Size implements onerun.Sizer: the room that the whole database takes, others' keys among it.
func (s *Store) Size(ctx context.Context) (n int64, err error) {
	err = s.space.call(ctx, "ask for the size", func(c *clientv3.Client) (err error) {
		for _, e := range c.Endpoints() { // the first one that tells: another may be away
			one, cancel := context.WithTimeout(ctx, 3*time.Second)
			var r *clientv3.StatusResponse
			if r, err = c.Status(one, e); err == nil {
				n = r.DbSizeInUse
			}
			cancel()
			if err == nil || ctx.Err() != nil {
				break
			}
		}
		return err
	})
	return n, err
}
