package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/etcdbed"
)

// TestHeartbeatsTogether: of one lease, from several goroutines.
func TestHeartbeatsTogether(t *testing.T) {
	t.Parallel()
	s := open(t, sharedServer(t).URL("together"))
	g := granted(t, s, claimOf("job", "p"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 10 {
				if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestNobodyWaitsForAnothersConnection: a call ends when its own context does, also while the password is shown to a
// server that doesn't answer.
func TestNobodyWaitsForAnothersConnection(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	withAuth(t, server)
	proxy, err := server.Proxy()
	if err != nil {
		t.Fatal(err)
	}
	proxy.Pass(false, false)
	s := open(t, strings.Replace(proxy.URL("mine"), "://", "://batch:s3cr3t@", 1))
	first, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Locks(first, "ns")
		ended <- err
	}()
	for range 3 { // the first of them can be faster than the other call
		if _, err := s.Locks(within(t, 300*time.Millisecond), "ns"); !errors.Is(err, onerun.ErrUnavailable) {
			t.Errorf("a call with a third of a second: %v", err)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("a call without a limit has ended before: %v", err)
	default:
	}
	cancel()
	if err := <-ended; !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("a call that was given up: %v", err)
	}
	proxy.Pass(true, true)
	granted(t, s, claimOf("job", "p"))
}

// TestHeartbeatsShowNoPassword: to compare it takes the server longer than all the rest.
func TestHeartbeatsShowNoPassword(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	withAuth(t, server)
	s := open(t, strings.Replace(server.URL("mine"), "://", "://batch:s3cr3t@", 1))
	g := granted(t, s, claimOf("job", "p"))
	beat := func() {
		t.Helper()
		if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
			t.Fatal(err)
		}
	}
	beat()
	before := authentications(t, server)
	for range 10 {
		beat()
	}
	if n := authentications(t, server) - before; n > 0 {
		t.Errorf("passwords that were compared for ten heartbeats: %d", n)
	}
}

// authentications is how often a server has compared a password.
func authentications(t testing.TB, server *etcdbed.Server) int {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://%s/metrics", server.Endpoint()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	all, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		if strings.HasPrefix(line, "grpc_server_started_total{") && strings.Contains(line, `"Authenticate"`) {
			n, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, '}')+1:]))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("the server doesn't count that")
	return 0
}

// TestSizeOfTheOneThatAnswers: a member that is away keeps nobody from hearing the size.
func TestSizeOfTheOneThatAnswers(t *testing.T) {
	t.Parallel()
	s := open(t, fmt.Sprintf("etcd://127.0.0.1:1,%s/size", sharedServer(t).Endpoint()))
	if n, err := s.Size(soon(t)); err != nil || n <= 0 {
		t.Errorf("size: %d, %v", n, err)
	}
}
