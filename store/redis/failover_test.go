package redis_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/redisbed"
	"github.com/onerun-dev/onerun/storetest"
)

// replica starts a server that follows another one.
func replica(t *testing.T, port int, args ...string) *redisbed.Server {
	t.Helper()
	return newServer(t, append([]string{"--replicaof", "127.0.0.1 " + strconv.Itoa(port)}, args...)...)
}

// linked waits until a replica has all of its primary.
func linked(t *testing.T, s *redisbed.Server) {
	t.Helper()
	c := direct(t, s)
	waitUntil(t, "the replica follows", func() bool {
		text, err := c.Info(soon(t), "replication").Result()
		return err == nil && strings.Contains(text, "master_link_status:up")
	})
}

// TestSentinel: a claim that was replicated outlives a failover, and its owner finds the new
// primary by itself.
func TestSentinel(t *testing.T) {
	t.Parallel()
	primary := newServer(t)
	second := replica(t, primary.Port)
	linked(t, second)
	sentinel, err := bed.Sentinel(primary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sentinel.Stop(syscall.SIGKILL) })
	watch := driver.NewSentinelClient(&driver.Options{Addr: fmt.Sprintf("127.0.0.1:%d", sentinel.Port)})
	t.Cleanup(func() { _ = watch.Close() })
	waitUntil(t, "the Sentinel knows the replica", func() bool {
		all, err := watch.Replicas(soon(t), "main").Result()
		return err == nil && len(all) == 1 && all[0]["flags"] == "slave" && all[0]["master-link-status"] == "ok"
	})
	s := open(t, fmt.Sprintf("redis://:%s@127.0.0.1:1,127.0.0.1:%d/0?sentinel=main", redisbed.Password, sentinel.Port))
	done := claimOf("done", "p")
	succeed(t, s, granted(t, s, done))
	c := claimOf("settle", "p")
	g := granted(t, s, c)
	if n, err := direct(t, primary).Wait(soon(t), 1, 10e9).Result(); n != 1 {
		t.Fatalf("WAIT: %d, %v", n, err)
	}
	if f := finding(t, s, "replicas"); f.Status != onerun.FindingWarning || !strings.Contains(f.Evidence, "asynchronous") {
		t.Errorf("replicas: %+v", f)
	}
	primary.Stop(syscall.SIGKILL)
	waitUntil(t, "the owner is heard by the new primary", func() bool {
		_, err := s.Heartbeat(soon(t), g.Lease)
		if err != nil && !errors.Is(err, onerun.ErrUnavailable) {
			t.Fatalf("heartbeat in a failover: %v", err)
		}
		return err == nil
	})
	isRefused(t, s, again(c), onerun.RefusedRunning)
	isRefused(t, s, again(done), onerun.RefusedSucceeded)
	succeed(t, s, g)
}

// TestExamineSentinels: doctor tells of Sentinels that don't answer, that are too few, and that name two primaries.
func TestExamineSentinels(t *testing.T) {
	t.Parallel()
	primary := newServer(t)
	var hosts []string
	start := func(of *redisbed.Server) *redisbed.Server {
		sentinel, err := bed.Sentinel(of)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sentinel.Stop(syscall.SIGKILL) })
		hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", sentinel.Port))
		return sentinel
	}
	look := func(status onerun.FindingStatus, words string, hosts ...string) {
		t.Helper()
		s := open(t, fmt.Sprintf("redis://:%s@%s/0?sentinel=main", redisbed.Password, strings.Join(hosts, ",")))
		if f := finding(t, s, "sentinels"); f.Status != status || !strings.Contains(f.Evidence, words) || status != onerun.FindingOK && f.Remedy == "" {
			t.Errorf("%v: %+v", hosts, f)
		}
	}
	start(primary)
	look(onerun.FindingWarning, "watched by 1, of which 1", hosts[0])
	look(onerun.FindingWarning, "not all of the URL answer: 127.0.0.1:1: ", hosts[0], "127.0.0.1:1")
	start(primary)
	start(primary)
	watch := driver.NewSentinelClient(&driver.Options{Addr: hosts[0]})
	t.Cleanup(func() { _ = watch.Close() })
	waitUntil(t, "the Sentinels know each other", func() bool {
		others, err := watch.Sentinels(soon(t), "main").Result()
		return err == nil && len(others) == 2
	})
	look(onerun.FindingOK, "watched by 3", hosts[0]) // those that the URL doesn't name count too
	other := newServer(t)
	start(other)
	for i, at := range []*redisbed.Server{0: primary, 3: other} {
		if at != nil {
			look(onerun.FindingDanger, fmt.Sprintf("%s name 127.0.0.1:%d", hosts[i], at.Port), hosts[0], hosts[3])
		}
	}
}

// TestFailoverLoses: what wasn't replicated is lost, as the store's page says; its owner is told
// by its next heartbeat, and what was replicated stays.
func TestFailoverLoses(t *testing.T) {
	t.Parallel()
	primary := newServer(t)
	proxy, err := primary.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	second := replica(t, proxy.Port)
	linked(t, second)
	s := open(t, primary.URL())
	kept := granted(t, s, claimOf("kept", "p"))
	if n, err := direct(t, primary).Wait(soon(t), 1, 10e9).Result(); n != 1 {
		t.Fatalf("WAIT: %d, %v", n, err)
	}
	proxy.Pass(true, false)
	lost := granted(t, s, claimOf("lost", "p"))
	primary.Stop(syscall.SIGKILL)
	if err := direct(t, second).ReplicaOf(soon(t), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	p := open(t, second.URL())
	if _, err := p.Heartbeat(soon(t), kept.Lease); err != nil {
		t.Errorf("heartbeat of a claim that was replicated: %v", err)
	}
	if _, err := p.Heartbeat(soon(t), lost.Lease); !errors.Is(err, onerun.ErrLost) {
		t.Errorf("heartbeat of a claim that was not: %v", err)
	}
	next := granted(t, p, claimOf("lost", "p"))
	if next.Lease.Token <= lost.Lease.Token {
		t.Errorf("token %d after %d", next.Lease.Token, lost.Lease.Token)
	}
}

// TestCluster: each script's keys lie on one node, whichever of three that is.
func TestCluster(t *testing.T) {
	t.Parallel()
	var nodes []*redisbed.Server
	var addrs []string
	for range 3 {
		n := newServer(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
		nodes, addrs = append(nodes, n), append(addrs, fmt.Sprintf("127.0.0.1:%d", n.Port))
	}
	for i, n := range nodes {
		c := direct(t, n)
		if err := c.Do(soon(t), "CLUSTER", "ADDSLOTSRANGE", i*5461+min(i, 1), min(16383, (i+1)*5461)).Err(); err != nil {
			t.Fatal(err)
		}
		for _, other := range nodes {
			if err := c.ClusterMeet(soon(t), "127.0.0.1", strconv.Itoa(other.Port)).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, n := range nodes {
		c := direct(t, n)
		waitUntil(t, "the cluster is up", func() bool {
			text, err := c.ClusterInfo(soon(t)).Result()
			return err == nil && strings.Contains(text, "cluster_state:ok") && strings.Contains(text, "cluster_known_nodes:3")
		})
	}
	url := fmt.Sprintf("redis://:%s@%s/?cluster=true", redisbed.Password, strings.Join(addrs, ","))
	topics := []string{"rows", "approvals", "delivery", "unclaimed", "hosts", "items", "prune", "forget", "resolve", "crash policy", "contention"}
	t.Run("conformance", func(t *testing.T) {
		for _, c := range storetest.Cases(harness(url)) {
			if topic, _, _ := strings.Cut(c.Name, "/"); slices.Contains(topics, topic) {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					if err := c.Run(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
	})
	// A URL that doesn't say so is told, whichever node it names: two of three have not this
	// namespace.
	refused := 0
	for _, n := range nodes {
		if _, err := open(t, n.URL()).Claim(soon(t), claimOf("settle", "p")); errors.Is(err, onerun.ErrConfig) {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("%d nodes say that they are of a cluster", refused)
	}
}
