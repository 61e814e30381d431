package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// examination is one look at a store, for what would make it unsafe.
type examination struct {
	s        *Store
	ctx      context.Context
	findings []onerun.Finding
	info     map[string]string // what the server says of itself
}

// Examine implements onerun.Examiner. It changes nothing. A server that can't be reached is a
// finding too, and then the last one. What the user may not see is unknown. What takes longer
// the larger the server's data are is given up after a third of the time that ctx leaves.
func (s *Store) Examine(ctx context.Context) ([]onerun.Finding, error) {
	x := &examination{s: s, ctx: ctx, info: map[string]string{}}
	x.passwordFile()
	if !x.connection() {
		return x.findings, nil
	}
	x.encryption()
	x.sentinels()
	x.clock()
	if x.server() {
		x.eviction()
		x.durability()
		x.replicas()
	}
	x.commands()
	x.permissions()
	x.ledger()
	return x.findings, nil
}

func (x *examination) add(check string, status onerun.FindingStatus, evidence, remedy string) {
	x.findings = append(x.findings, onerun.Finding{Check: check, Status: status, Evidence: evidence, Remedy: remedy})
}

// unless adds that a check could not be made, if it could not.
func (x *examination) unless(err error, check, remedy string) bool {
	if err == nil {
		return true
	}
	x.add(check, onerun.FindingUnknown, x.words(err), remedy)
	return false
}

func (x *examination) words(err error) string {
	var e *onerun.StoreError
	if err = x.s.explain("examine the store", err); errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	return err.Error()
}

// ask asks the server one thing.
func ask[T any](x *examination, f func() (T, error)) (T, error) {
	return persist(x.ctx, func() (T, error) { return inTime(x.ctx, f) })
}

func (x *examination) passwordFile() {
	path := x.s.cfg.passwordFile
	if path == "" {
		return
	}
	const check = "password-file"
	st, err := os.Stat(path)
	switch {
	case err != nil:
		x.add(check, onerun.FindingDanger, err.Error(), "the password is read anew for each connection: put the file back")
	case st.Mode().Perm()&0o077 != 0:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("%s has mode %04o: others can read the password", path, st.Mode().Perm()), "chmod 600 "+path)
	default:
		x.add(check, onerun.FindingOK, path+" is its owner's alone", "")
	}
}

// connection connects, and looks at how.
func (x *examination) connection() bool {
	began := time.Now()
	_, err := ask(x, func() (string, error) { return x.s.db.Ping(x.ctx).Result() })
	if err != nil {
		var e *onerun.StoreError
		if errors.As(x.s.explain("examine the store", err), &e) {
			x.add("connection", onerun.FindingDanger, fmt.Sprintf("%s: %v", e.Path, e.Err), e.Do)
		}
		return false
	}
	x.add("connection", onerun.FindingOK, fmt.Sprintf("%s answers after %s", x.s.cfg.place(), time.Since(began).Round(time.Millisecond)), "")
	return true
}

func (x *examination) encryption() {
	const check = "encryption"
	far := ""
	for _, h := range x.s.cfg.hosts {
		host, _, err := net.SplitHostPort(h)
		if ip := net.ParseIP(host); err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			far = host
		}
	}
	switch {
	case x.s.cfg.tls:
		x.add(check, onerun.FindingOK, "TLS, and the server's certificate is checked", "")
	case far == "":
		x.add(check, onerun.FindingOK, "none, to this machine alone", "")
	default:
		x.add(check, onerun.FindingWarning, "none on the way to "+far+": who is on that way can read the password, and answer in the server's place", "use rediss:// and ca_file=FILE")
	}
}

// clock compares the two clocks. No decision does: it is for people, and for a failover.
func (x *examination) clock() {
	const check = "clock"
	began := time.Now()
	there, err := ask(x, func() (time.Time, error) { return x.s.db.Time(x.ctx).Result() })
	if !x.unless(err, check, "") {
		return
	}
	took := time.Since(began)
	off := there.Sub(began.Add(took / 2))
	words := fmt.Sprintf("the server's is %s of this host's (give or take %s)", apart(off), (took / 2).Round(time.Millisecond))
	if off.Abs() > 5*time.Second+took {
		x.add(check, onerun.FindingWarning, words+": leases are not affected, but times look wrong, and a failover to a server with another clock moves the ends of all leases",
			"keep all hosts in step with a clock service that slews")
		return
	}
	x.add(check, onerun.FindingOK, words, "")
}

func apart(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Millisecond).String() + " behind that"
	}
	return d.Round(time.Millisecond).String() + " ahead of that"
}

// server asks the server about itself.
func (x *examination) server() bool {
	for _, section := range []string{"server", "memory", "persistence", "replication"} {
		text, err := ask(x, func() (string, error) { return x.s.db.Info(x.ctx, section).Result() })
		if !x.unless(err, "server", "allow the user +info") {
			return false
		}
		for line := range strings.Lines(text) {
			if name, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				x.info[name] = v
			}
		}
	}
	const oldest = 6
	v := x.info["redis_version"]
	major, _, _ := strings.Cut(v, ".")
	n, err := strconv.Atoi(major)
	name := "Redis "
	if x.info["server_name"] == "valkey" {
		name, v = "Valkey ", x.info["valkey_version"]
	}
	if err == nil && n < oldest {
		x.add("server", onerun.FindingDanger, fmt.Sprintf("%s%s is older than %d, for which this is made", name, v, oldest), "use Redis 6 or later, or Valkey")
	} else {
		x.add("server", onerun.FindingOK, name+v+"; Redis 6 and later, and Valkey, do", "")
	}
	switch mode := x.info["redis_mode"]; {
	case mode == "cluster" && !x.s.cfg.cluster:
		x.add("cluster", onerun.FindingDanger, "the server is a node of a cluster, and the URL doesn't say so: namespaces that lie on other nodes can't be reached", "say cluster=true in the store's URL")
	case mode == "cluster":
		x.add("cluster", onerun.FindingOK, "each namespace lies on one of its nodes; what follows speaks of one of them", "")
	}
	if x.info["role"] != "master" {
		x.add("primary", onerun.FindingDanger, "this server is a replica: it refuses every start", "name the primary, or the Sentinels with sentinel=NAME")
	} else {
		x.add("primary", onerun.FindingOK, "this server may be written to", "")
	}
	return true
}

// setting is one that INFO doesn't tell.
func (x *examination) setting(name string) (string, error) {
	m, err := ask(x, func() (map[string]string, error) { return x.s.db.ConfigGet(x.ctx, name).Result() })
	return m[name], err
}

// one is the server, where there is one.
func (x *examination) one() (*driver.Client, error) {
	c, ok := x.s.db.(*driver.Client)
	if !ok {
		return nil, errors.New("not looked for in a cluster")
	}
	return c, nil
}
