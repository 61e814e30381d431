package redis_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/redisbed"
	"github.com/onerun-dev/onerun/store/redis"
	"github.com/onerun-dev/onerun/storetest"
)

// rights are those that the store's page lists.
func rights(t *testing.T) (user, examine []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/stores/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?m)^    ACL SETUSER onerun ((?:.*\\\n)*.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d lists of rights", len(blocks))
	}
	words := func(s string) []string { return strings.Fields(strings.ReplaceAll(s, "\\\n", " ")) }
	return words(blocks[0][1]), words(blocks[1][1])
}

// TestLeastRights: a user with the rights that the page lists, and no others, does all that a
// store does; one with a command less is told so.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	admin := direct(t, server)
	user, examine := rights(t)
	set := func(words []string) {
		args := []any{"ACL", "SETUSER", "onerun"}
		for _, w := range words {
			args = append(args, strings.ReplaceAll(w, "PASSWORD", "pw-of-the-user"))
		}
		if err := admin.Do(soon(t), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(user)
	url := fmt.Sprintf("redis://onerun:pw-of-the-user@127.0.0.1:%d/", server.Port)
	topics := []string{"rows", "approvals", "delivery", "unclaimed", "hosts", "items", "notes", "prune", "forget", "reads", "pause", "stop", "resolve", "output", "progress", "locks"}
	t.Run("conformance", func(t *testing.T) {
		for _, c := range storetest.Cases(harness(url)) {
			topic, _, _ := strings.Cut(c.Name, "/")
			for _, wanted := range topics {
				if topic == wanted {
					t.Run(c.Name, func(t *testing.T) {
						t.Parallel()
						if err := c.Run(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
	})
	s := open(t, url)
	if f := finding(t, s, "permissions"); f.Status != onerun.FindingUnknown {
		t.Errorf("permissions, for who may not ask: %+v", f)
	}
	set(examine)
	for _, check := range []string{"permissions", "commands", "event-chain", "durability", "eviction"} {
		if f := finding(t, s, check); f.Status == onerun.FindingUnknown {
			t.Errorf("%s, for who may ask: %+v", check, f)
		}
	}
	set([]string{"-hset"})
	_, err := s.Claim(soon(t), claimOf("settle", "p"))
	if !errors.Is(err, onerun.ErrPermission) {
		t.Errorf("a claim without the right to write: %v", err)
	}
	if f := finding(t, s, "permissions"); f.Status != onerun.FindingDanger || !strings.Contains(f.Evidence, "hset") {
		t.Errorf("permissions without one of them: %+v", f)
	}
	// A transaction that is refused says no more than that; its command says why.
	set([]string{"+hset", "-time"})
	err = s.Pause(soon(t), onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: "settle", Who: onerun.Who{By: "kim", Reason: "why"}})
	if !errors.Is(err, onerun.ErrPermission) || !strings.Contains(err.Error(), "time") {
		t.Errorf("without the right to a command in a transaction: %v", err)
	}
}

// TestPasswords: a password file is read anew for each connection, and no password is in an
// error.
func TestPasswords(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(redisbed.Password + "\n")
	host := "127.0.0.1:" + strconv.Itoa(server.Port)
	s := open(t, "redis://"+host+"/?password_file="+file+"&pool_size=1")
	granted(t, s, claimOf("settle", "p"))

	// Replaced: the connection that is there goes on, a new one needs the new file.
	admin := direct(t, server)
	if err := admin.ConfigSet(soon(t), "requirepass", "an0ther-one").Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Do(soon(t), "CLIENT", "KILL", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Claim(soon(t), claimOf("report", "p"))
	if !errors.Is(err, onerun.ErrPermission) {
		t.Fatalf("with the old password: %v", err)
	}
	write("an0ther-one")
	granted(t, s, claimOf("report", "p"))

	for name, url := range map[string]string{
		"a wrong one":               "redis://:c4n4ry@" + host,
		"a wrong user":              "redis://ana:c4n4ry@" + host,
		"one with a slash":          "redis://:c4n4ry/x@" + host,
		"a server that isn't there": "redis://:c4n4ry@127.0.0.1:1",
		"a bad URL":                 "redis://:c4n4ry@" + host + "/db",
		"a bad parameter":           "redis://:c4n4ry@" + host + "/?x=1",
		"too many":                  "redis://:c4n4ry@" + host + "/?password_file=" + file,
	} {
		s, err := redis.Open(soon(t), url, redis.WithoutDriverLog())
		if err == nil {
			_, err = s.Claim(soon(t), claimOf("settle", "p"))
			_ = s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "c4n4ry") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func finding(t *testing.T, s *redis.Store, check string) onerun.Finding {
	t.Helper()
	all, err := s.Examine(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("no finding %s among %+v", check, all)
	return onerun.Finding{}
}

// TestErrors: what is wrong with a server is said as its kind.
func TestErrors(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	admin := direct(t, server)
	s := open(t, server.URL())
	g := granted(t, s, claimOf("settle", "p"))
	is := func(what string, kind error) {
		t.Helper()
		if _, err := s.Claim(soon(t), claimOf("report", onerun.NewID())); !errors.Is(err, kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
	config := func(name, v string) {
		t.Helper()
		if err := admin.ConfigSet(soon(t), name, v).Err(); err != nil {
			t.Fatal(err)
		}
	}
	config("maxmemory", "1")
	is("no memory", onerun.ErrIO)
	if f := finding(t, s, "eviction"); f.Status != onerun.FindingWarning {
		t.Errorf("eviction: %+v", f)
	}
	config("maxmemory", "0")
	for _, c := range []struct {
		onRewrite, fsync string
		want             onerun.FindingStatus
	}{{"no", "always", onerun.FindingOK}, {"no", "everysec", onerun.FindingWarning}, {"yes", "always", onerun.FindingDanger}, {"no", "no", onerun.FindingDanger}, {"no", "always", onerun.FindingOK}} {
		config("appendonly", "yes")
		config("appendfsync", c.fsync)
		config("no-appendfsync-on-rewrite", c.onRewrite)
		if f := finding(t, s, "durability"); f.Status != c.want || c.onRewrite == "yes" && !strings.Contains(f.Evidence, "no-appendfsync-on-rewrite") {
			t.Errorf("durability with %+v: %+v", c, f)
		}
	}
	config("min-replicas-to-write", "1")
	is("too few replicas", onerun.ErrUnavailable)
	if f := finding(t, s, "replicas"); f.Status != onerun.FindingDanger || !strings.Contains(f.Evidence, "every start is refused") || f.Remedy == "" {
		t.Errorf("too few replicas: %+v", f)
	}
	config("min-replicas-to-write", "0")
	if n := len(runs(t, s)); n != 1 {
		t.Errorf("%d runs after claims that failed", n)
	}
	if err := admin.ReplicaOf(soon(t), "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	is("a replica", onerun.ErrUnavailable)
	if f := finding(t, s, "primary"); f.Status != onerun.FindingDanger {
		t.Errorf("primary: %+v", f)
	}
	if err := admin.ReplicaOf(soon(t), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	succeed(t, s, g)
	admin.Set(soon(t), "onerun:{default}:dir", "somebody else's", 0)
	is("somebody else's key", onerun.ErrConfig)
	admin.Del(soon(t), "onerun:{default}:dir")
	admin.HSet(soon(t), "onerun:{default}:dir", "v", "99")
	is("a later version", onerun.ErrConfig)
	admin.HSet(soon(t), "onerun:{default}:dir", "v", "1")
	granted(t, s, claimOf("settle", "q"))

	renamed := newServer(t, "--rename-command", "HSET", "")
	r := open(t, renamed.URL())
	if _, err := r.Claim(soon(t), claimOf("settle", "p")); !errors.Is(err, onerun.ErrConfig) {
		t.Errorf("a command that is called otherwise: %v", err)
	}
	if f := finding(t, r, "commands"); f.Status != onerun.FindingDanger || !strings.Contains(f.Evidence, "hset") {
		t.Errorf("commands: %+v", f)
	}
	gone := open(t, "redis://127.0.0.1:1")
	if _, err := gone.Claim(soon(t), claimOf("settle", "p")); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Claim(ctx, claimOf("settle", "r")); !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("a context that is over: %v", err)
	}
}

func runs(t *testing.T, s *redis.Store) []onerun.Run {
	t.Helper()
	all, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
