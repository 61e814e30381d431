package zookeeper

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
)

// ask4 gives a server's answer to one of its words of four letters, as "ZooKeeper Commands" of its administrator's guide has
// them.
func (x *examination) ask4(server, word string) (string, error) {
	d := net.Dialer{Timeout: dialWait}
	conn, err := d.DialContext(x.ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(dialWait)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 64<<10))
	if err == nil && strings.Contains(string(answer), "not in the whitelist") {
		err = errors.New("it isn't allowed to answer " + word)
	}
	return string(answer), err
}

// servers looks at the version and the mode of each server that the URL names.
func (x *examination) servers() {
	for _, server := range x.s.space.servers {
		answer, err := x.ask4(server, "srvr")
		version := between(answer, "Zookeeper version: ", ",")
		mode := between(answer, "Mode: ", "\n")
		switch {
		case err != nil:
			x.add("server", onerun.FindingUnknown, fmt.Sprintf("%s: %v", server, err), "add srvr to 4lw.commands.whitelist")
		case version == "" || mode == "":
			x.add("server", onerun.FindingDanger, server+" serves no requests: it is not part of a quorum", "look at its log, and at the others'")
		case mode == "read-only":
			x.add("server", onerun.FindingDanger, server+" is in read-only mode: it has lost the others, and every start that it is asked is refused", "bring the quorum back")
		case old(version):
			x.add("server", onerun.FindingDanger, fmt.Sprintf("%s has ZooKeeper %s, which is too old", server, version), "update to 3.5 or later")
		default:
			x.add("server", onerun.FindingOK, fmt.Sprintf("%s has ZooKeeper %s, and is %s", server, version, mode), "")
		}
	}
}

func between(text, from, to string) string {
	_, rest, ok := strings.Cut(text, from)
	if !ok {
		return ""
	}
	found, _, _ := strings.Cut(rest, to)
	return strings.TrimSpace(found)
}

// old reports whether a version is before 3.5.
func old(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err == nil && err2 == nil && (a < 3 || a == 3 && b < 5)
}

// ensemble looks how many servers keep what is acknowledged.
func (x *examination) ensemble() {
	s := x.s.space
	config, err := look(x.ctx, s.conn, func(z *zk.Conn) (string, error) {
		data, _, err := z.Get("/zookeeper/config")
		return string(data), err
	})
	if !x.unless(err, "ensemble") {
		return
	}
	voters := 0
	for line := range strings.Lines(config) {
		if strings.HasPrefix(line, "server.") && !strings.Contains(line, ":observer") {
			voters++
		}
	}
	switch {
	case voters < 2:
		x.add("ensemble", onerun.FindingWarning, "one server alone: while it is away nothing starts, and its disk is all there is", "run three")
	case voters == 2:
		x.add("ensemble", onerun.FindingWarning, "two servers: when either is away nothing starts", "run three")
	case len(s.servers) == 1:
		x.add("ensemble", onerun.FindingWarning, fmt.Sprintf("%d servers, and the store's URL names one of them", voters), "name all of them in the store's URL")
	default:
		x.add("ensemble", onerun.FindingOK, fmt.Sprintf("%d servers: nothing that was acknowledged is lost, and starts go on, while more than half of them are there", voters), "")
	}
}

// fsync looks whether each server waits for its disk: one with forceSync=no never counts that.
func (x *examination) fsync() {
	const check = "fsync"
	for _, server := range x.s.space.servers {
		answer, err := x.ask4(server, "mntr")
		waited, counts := between(answer, "\nzk_cnt_fsynctime\t", "\n"), strings.Contains(answer, "\nzk_cnt_fsynctime\t")
		switch written := between(answer, "\nzk_cnt_sync_processor_batch_size\t", "\n"); {
		case err != nil:
			x.add(check, onerun.FindingUnknown, fmt.Sprintf("%s: %v", server, err), "add mntr to 4lw.commands.whitelist, or see to it yourself that no server has forceSync=no")
		case !counts:
			x.add(check, onerun.FindingUnknown, server+" doesn't count how often it waits for its disk", "see to it yourself that it hasn't forceSync=no; servers from 3.6 on count")
		case waited == "0" && written != "0":
			x.add(check, onerun.FindingDanger, server+" never waited for its disk: what it acknowledged can be lost with the machine: a claim, and two jobs run at once, or a SUCCEEDED, and its date runs again",
				"take forceSync=no out of zoo.cfg, and -Dzookeeper.forceSync=no from the command line")
		case waited == "0":
			x.add(check, onerun.FindingOK, server+" has written nothing yet", "")
		default:
			x.add(check, onerun.FindingOK, server+" waits for its disk", "")
		}
	}
}

// What a request may take: the largest transaction, with its names; and what an answer with many names does.
const needed = 900 << 10

// buffer looks whether the server takes a request as large as the largest, by a question of its own connection: a server that
// doesn't hangs up.
func (x *examination) buffer() {
	const check = "jute-maxbuffer"
	cfg := x.s.space.config
	c := newConn(cfg)
	defer func() { _ = c.Close() }()
	name := "/" + strings.Repeat("x", needed)
	_, err := once(x.ctx, c, func(z *zk.Conn) (bool, error) {
		there, _, err := z.Exists(name)
		return there, err
	})
	switch {
	case err == nil, errors.Is(err, zk.ErrBadArguments):
		x.add(check, onerun.FindingOK, fmt.Sprintf("the server takes requests of %d KiB", needed>>10), "")
	case disconnected(err):
		x.add(check, onerun.FindingDanger, fmt.Sprintf("the server hangs up on a request of %d KiB: an end with a long output can't be recorded", needed>>10),
			"set -Djute.maxbuffer=1048575, which is the default, or more on every server")
	default:
		x.unless(err, check)
	}
}
