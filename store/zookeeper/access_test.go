package zookeeper

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
)

// withUser is a URL with a user whose password is in a file.
func withUser(url, user, file string) string {
	return strings.Replace(url, "://", "://"+user+"@", 1) + "?password_file=" + file
}

func secret(t testing.TB, password string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte(password+"\n"), 0o600), "write a password")
	return file
}

// TestDigest: with a user the nodes are that user's alone. Whoever comes without, or with another password, is told so, and
// nobody is told a password.
func TestDigest(t *testing.T) {
	t.Parallel()
	url := freshURL(sharedServer(t).Addr())
	s := open(t, withUser(url, "batch", secret(t, "right-one")))
	c := claimOf("settle", "2026-09-15", time.Minute)
	succeed(t, s, granted(t, s, c))
	for _, other := range []string{url, withUser(url, "batch", secret(t, "wr0ng-0ne")), strings.Replace(url, "://", "://batch:wr0ng-0ne@", 1)} {
		_, err := open(t, other).Claim(soon(t), again(c))
		if !errors.Is(err, onerun.ErrPermission) {
			t.Errorf("%s: %v", other, err)
		} else if strings.Contains(err.Error(), "wr0ng-0ne") {
			t.Errorf("the password shows: %v", err)
		}
	}
	z := direct(t, sharedServer(t).Addr())
	must(t, z.AddAuth("digest", []byte("batch:right-one")), "log in")
	acl, _, err := z.GetACL(s.space.nodePath("key/default/settle/2026-09-15"))
	must(t, err, "look at the access list")
	if len(acl) != 1 || acl[0].Scheme != "digest" || acl[0].Perms != zk.PermAll || !strings.HasPrefix(acl[0].ID, "batch:") {
		t.Errorf("%+v", acl)
	}
	// The driver says who this is on each new connection.
	p := proxied(t, sharedServer(t))
	via := open(t, strings.Replace(withUser(url, "batch", secret(t, "right-one")), sharedServer(t).Addr(), p.Addr(), 1))
	refused(t, via, again(c), onerun.RefusedSucceeded)
	p.Break()
	refused(t, via, again(c), onerun.RefusedSucceeded)
}

// TestStranger: a user that nobody has given the store to makes nothing in it, which the others could not read.
func TestStranger(t *testing.T) {
	t.Parallel()
	url := freshURL(sharedServer(t).Addr())
	s := open(t, url)
	c := claimOf("settle", "2026-09-15", time.Minute)
	succeed(t, s, granted(t, s, c))
	stranger := withUser(url, "batch", secret(t, "any"))
	if _, err := open(t, stranger).Claim(soon(t), again(c)); !errors.Is(err, onerun.ErrPermission) || !strings.Contains(err.Error(), "leave the user out") {
		t.Errorf("a claim by a stranger: %v", err)
	}
	g := claimOf("report", "2026-09-15", time.Minute)
	if _, err := open(t, stranger).Claim(soon(t), g); !errors.Is(err, onerun.ErrPermission) {
		t.Errorf("a claim of another job by a stranger: %v", err)
	}
	runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace})
	if err != nil || len(runs) != 1 {
		t.Errorf("what the others read: %v, %v", runs, err)
	}
	// Who says that all may read it is welcome.
	known := open(t, stranger+"&acl=world:anyone:cdrwa")
	succeed(t, known, granted(t, known, g))
	if runs, err = s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace}); err != nil || len(runs) != 2 {
		t.Errorf("what the others read then: %v, %v", runs, err)
	}
}

// TestRotatedPassword: the nodes have another one, and the file has it too by now.
func TestRotatedPassword(t *testing.T) {
	t.Parallel()
	url, file := freshURL(sharedServer(t).Addr()), secret(t, "first")
	s := open(t, withUser(url, "batch", file))
	c := claimOf("settle", "2026-09-15", time.Minute)
	g := granted(t, s, c)
	z := direct(t, sharedServer(t).Addr())
	must(t, z.AddAuth("digest", []byte("batch:first")), "log in")
	var all func(name string)
	all = func(name string) {
		names, _, err := z.Children(name)
		must(t, err, "list")
		for _, n := range names {
			all(name + "/" + n)
		}
		_, err = z.SetACL(name, zk.DigestACL(zk.PermAll, "batch", "second"), -1)
		must(t, err, "change the access list")
	}
	all(s.space.chroot)
	if _, err := s.Heartbeat(soon(t), g.Lease); !errors.Is(err, onerun.ErrPermission) {
		t.Errorf("a heartbeat with the old password: %v", err)
	}
	must(t, os.WriteFile(file, []byte("second\n"), 0o600), "write the new password")
	_, err := s.Heartbeat(soon(t), g.Lease)
	must(t, err, "heartbeat with the new password")
	succeed(t, s, g)
	// The connection was introduced by the old one as well. It is good for nothing that is made from now on.
	succeed(t, s, granted(t, s, claimOf("settle", "2026-09-16", time.Minute)))
	must(t, z.AddAuth("digest", []byte("batch:second")), "log in")
	acl, _, err := z.GetACL(s.space.nodePath("key/default/settle/2026-09-16"))
	must(t, err, "look at the access list")
	if want := zk.DigestACL(zk.PermAll, "batch", "second"); !slices.Equal(acl, want) {
		t.Errorf("a new node has %+v, want %+v", acl, want)
	}
}

// TestLongNames (B22): what differs at the end alone, or in case, is not the same, however long it is.
func TestLongNames(t *testing.T) {
	t.Parallel()
	s := open(t, freshURL(sharedServer(t).Addr()))
	day, long := strings.Repeat("日", 90), strings.Repeat("a", 99)
	for i, pair := range [][2]string{{day + "日", day + "月"}, {day, day + "日"}, {long + "a", long + "b"}, {long + "a", long + "A"}} {
		one, other := claimOf(pair[0], day+strconv.Itoa(i), time.Minute), claimOf(pair[1], day+strconv.Itoa(i), time.Minute)
		g := granted(t, s, one)
		succeed(t, s, granted(t, s, other))
		refused(t, s, again(one), onerun.RefusedRunning)
		succeed(t, s, g)
		runs, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace, Job: pair[0], Partition: one.Partition})
		must(t, err, "list")
		if len(runs) != 1 || runs[0].Job != pair[0] {
			t.Errorf("%s: %+v", pair[0], runs)
		}
	}
	// Two that can't be told apart by their first 250 characters, beside the library's own limit.
	sp := s.space
	var paths []string
	for _, end := range []string{"1", "2"} {
		paths = append(paths, sp.nodePath("lock/default/"+strings.Repeat("x", 150)+end))
	}
	if paths[0] == paths[1] {
		t.Errorf("two names, one node: %s", paths[0])
	}
}
