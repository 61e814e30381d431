package etcd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/onerun-dev/onerun"
)

// defaultQuota is etcd's own for --quota-backend-bytes.
const defaultQuota = 2 << 30

func (x *examination) url(endpoint string) string {
	if x.s.space.config.tls {
		return "https://" + endpoint
	}
	return "http://" + endpoint
}

// get asks a server over HTTP, which it speaks at the same port: its time, and the numbers in what
// it answers.
func (x *examination) get(endpoint, path string) (at time.Time, numbers map[string]float64, err error) {
	secure, err := x.s.space.config.secure()
	if err != nil {
		return at, nil, err
	}
	ctx, cancel := context.WithTimeout(x.ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.url(endpoint)+path, nil)
	if err != nil {
		return at, nil, err
	}
	r, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return at, nil, err
	}
	defer func() { _ = r.Body.Close() }()
	if at, err = http.ParseTime(r.Header.Get("Date")); err != nil {
		return at, nil, err
	}
	numbers = map[string]float64{}
	in := bufio.NewScanner(r.Body)
	for in.Scan() {
		name, value, _ := strings.Cut(in.Text(), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			numbers[name] = n
		}
	}
	return at, numbers, in.Err()
}

// metrics are the numbers that a server gives of itself; none: it gives none here.
func (x *examination) metrics(endpoint string) map[string]float64 {
	_, numbers, _ := x.get(endpoint, "/metrics")
	return numbers
}

// room holds each database against its quota: one that is full takes no claim and no end.
func (x *examination) room() {
	const check = "room"
	most := 0.0
	for _, m := range x.members {
		quota, known := int64(m.metrics["etcd_server_quota_backend_bytes"]), true
		if quota <= 0 {
			quota, known = defaultQuota, false
		}
		share := float64(m.status.DbSize) / float64(quota)
		most = max(most, share)
		words := fmt.Sprintf("the database of %s takes %d MiB of %d", m.endpoint, m.status.DbSize>>20, quota>>20)
		if !known {
			words += ", which is what etcd has by itself: it doesn't tell here"
		}
		switch {
		case share > 0.95:
			x.add(check, onerun.FindingDanger, words, "compact and defragment now, or raise --quota-backend-bytes; onerun prune")
		case share > 0.7:
			x.add(check, onerun.FindingWarning, words, "compact and defragment, or raise --quota-backend-bytes; onerun prune")
		case m.status.DbSize > 256<<20 && m.status.DbSize > 3*m.status.DbSizeInUse:
			x.add(check, onerun.FindingWarning, fmt.Sprintf("%s, of which %d are in use", words, m.status.DbSizeInUse>>20), "etcdctl defrag, one member after the other")
		}
	}
	x.fine(check, fmt.Sprintf("at most %.1f %% of the quota is taken", 100*most))
}

// fsync looks whether a server waits for its disk: one that was started with --unsafe-no-fsync
// never counts that.
func (x *examination) fsync() {
	const check = "fsync"
	told := 0
	for _, m := range x.members {
		waited, has := m.metrics["etcd_disk_wal_fsync_duration_seconds_count"]
		if !has {
			continue
		}
		told++
		switch mean := m.metrics["etcd_disk_wal_fsync_duration_seconds_sum"] / max(waited, 1); {
		case waited == 0 && m.metrics["etcd_server_proposals_committed_total"] > 0:
			x.add(check, onerun.FindingDanger, m.endpoint+" never waited for its disk: what it acknowledged can be lost with its machine", "start it without --unsafe-no-fsync")
		case mean > 0.1:
			x.add(check, onerun.FindingWarning, fmt.Sprintf("%s waits %.0f ms for its disk in the mean", m.endpoint, 1000*mean), "give etcd a disk of its own")
		}
	}
	if told == 0 {
		x.add(check, onerun.FindingUnknown, "no server tells at /metrics of its client port", "")
		return
	}
	x.fine(check, "the servers wait for their disks")
}

// clockBound is how far this host's clock may be from a server's: the answer has whole seconds.
const clockBound = 2 * time.Second

// clock holds this host's clock against the servers'. It decides nothing about a lease, but times
// are this host's, and when a retry is due.
func (x *examination) clock() {
	const check = "clock"
	var worst time.Duration
	told := 0
	for _, m := range x.members {
		began, sent := x.s.space.now(), time.Now()
		at, _, err := x.get(m.endpoint, "/version")
		if err != nil {
			continue
		}
		told++
		took := time.Since(sent)
		if d := began.Add(took / 2).Sub(at.Add(500 * time.Millisecond)); d.Abs() > worst.Abs() {
			worst = d
		}
	}
	switch {
	case told == 0:
		x.add(check, onerun.FindingUnknown, "no server tells its time", "")
	case worst.Abs() > clockBound:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("this host's clock is %s from a server's: no lease depends on it, but recorded times, and when retries are due", worst.Round(time.Second)),
			"keep all hosts in step with a clock service")
	default:
		x.add(check, onerun.FindingOK, fmt.Sprintf("this host and %d servers agree within %s", told, clockBound), "")
	}
}

// old is how many revisions back a server that compacts has nothing.
const old = 200_000

// compaction looks whether old revisions are still there.
func (x *examination) compaction() {
	const check = "compaction"
	if x.revision <= old {
		x.add(check, onerun.FindingOK, fmt.Sprintf("%d revisions so far, too few to tell", x.revision), "")
		return
	}
	_, err := x.client.Get(x.ctx, x.s.space.key("meta"), clientv3.WithRev(x.revision-old))
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		x.add(check, onerun.FindingOK, "old revisions are compacted", "")
	case x.unless(err, check):
		x.add(check, onerun.FindingWarning, fmt.Sprintf("revisions %d back are still there: the database grows with every claim until its quota is full", old),
			"start the members with --auto-compaction-retention=1h")
	}
}

// chains reckons the journal's hashes again.
func (x *examination) chains() {
	const check = "event-chain"
	ctx := x.ctx
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(end)/3, time.Millisecond))
		defer cancel()
	}
	n, loose, err := x.s.Chains(ctx)
	switch {
	case err != nil && x.ctx.Err() == nil && ctx.Err() != nil:
		x.add(check, onerun.FindingUnknown, "to reckon the journal again takes longer than there is time", "give more time: --store-timeout 5m")
	case !x.unless(err, check):
	case loose != "":
		x.add(check, onerun.FindingDanger, loose+" doesn't follow from the one before it: somebody has changed the journal", "find out who writes to etcd besides onerun")
	default:
		x.add(check, onerun.FindingOK, fmt.Sprintf("%d events follow from each other", n), "")
	}
}

// stale lists RUNNING runs that nobody may be running.
func (x *examination) stale() {
	const check = "stale-runs"
	names, err := x.s.Namespaces(x.ctx)
	if !x.unless(err, check) {
		return
	}
	n := 0
	for _, ns := range names {
		runs, err := x.s.Runs(x.ctx, onerun.Query{Namespace: ns, Statuses: []onerun.Status{onerun.Running}})
		if !x.unless(err, check) {
			return
		}
		for _, r := range slices.DeleteFunc(runs, func(r onerun.Run) bool { return !r.Stale }) {
			if n++; n <= 5 {
				x.add(check, onerun.FindingWarning, fmt.Sprintf("%s of namespace %s is RUNNING and stale: %s", r.Name(), ns, r.Evidence), "onerun stale; onerun resolve")
				x.findings[len(x.findings)-1].Job = r.Job
			}
		}
	}
	if n > 5 {
		x.add(check, onerun.FindingWarning, fmt.Sprintf("%d more are stale", n-5), "onerun stale")
	}
	x.fine(check, "no run is stale")
}
