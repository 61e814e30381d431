package zookeeper

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
)

func TestURL(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("from a file\n"), 0o600), "write the password")
	for _, c := range []struct {
		url            string
		servers        string
		chroot         string
		user, password string
		timeout        time.Duration
	}{
		{"zookeeper://zk1", "zk1:2181", "/onerun", "", "", 6 * time.Second},
		{"zookeeper://zk1:2182,zk2,[::1]:2183/", "zk1:2182,zk2:2181,[::1]:2183", "/onerun", "", "", 6 * time.Second},
		{"zookeeper://zk1/apps/one%20run?session_timeout=2s", "zk1:2181", "/apps/one run", "", "", 2 * time.Second},
		{"zookeeper://batch:p%40ss@zk1/x", "zk1:2181", "/x", "batch", "p@ss", 6 * time.Second},
		{"zookeeper://batch:p@ss:w@zk1/x", "zk1:2181", "/x", "batch", "p@ss:w", 6 * time.Second},
		{"zookeeper://batch@zk1/x?password_file=" + file, "zk1:2181", "/x", "batch", "from a file", 6 * time.Second},
	} {
		got, err := parse(c.url)
		must(t, err, c.url)
		if strings.Join(got.servers, ",") != c.servers || got.chroot != c.chroot || got.user != c.user || got.password != c.password || got.timeout != c.timeout {
			t.Errorf("%s: %+v", c.url, got)
		}
		if got.password != "" && strings.Contains(got.place(), got.password) {
			t.Errorf("the password shows: %s", got.place())
		}
	}
}

func TestURLThatCantBeRead(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	empty := filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(empty, nil, 0o600), "write a file")
	for _, url := range []string{
		"zk://h", "zookeeper:h", "zookeeper://", "zookeeper://h:0", "zookeeper://h:70000", "zookeeper://a,,b", "zookeeper://::1",
		"zookeeper://u:" + secret + "@h/../x", "zookeeper://u:" + secret + "@h/zookeeper", "zookeeper://u:" + secret + "@h/a//b", "zookeeper://u:" + secret + "@h/%00",
		"zookeeper://u:" + secret + "@h/?pasword_file=x", "zookeeper://u:" + secret + "@h/?session_timeout=1ms", "zookeeper://u:" + secret + "@h/?acl=world", "zookeeper://u:" + secret + "@h?acl=world:anyone:x",
		"zookeeper://u@h", "zookeeper://:" + secret + "@h", "zookeeper://h?password_file=" + empty, "zookeeper://u:%zz" + secret + "@h",
		"zookeeper://u:" + secret + "@h:x" + secret, "zookeeper://u:" + secret + "@h#",
	} {
		_, err := Open(t.Context(), url)
		if !errors.Is(err, onerun.ErrUsage) {
			t.Errorf("%s: %v", url, err)
		} else if strings.Contains(strings.ReplaceAll(err.Error(), "x"+secret, ""), secret) {
			t.Errorf("%s: the password shows: %v", url, err)
		}
	}
}

// TestPasswordFile: a file that can't be used is a mistake of the configuration, not of the URL.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	must(t, os.WriteFile(empty, []byte("\nsecond\n"), 0o600), "write a file")
	for _, path := range []string{empty, dir, filepath.Join(dir, "nowhere")} {
		if _, err := Open(t.Context(), "zookeeper://u@h?password_file="+path); !errors.Is(err, onerun.ErrConfig) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want it said as a mistake of the configuration", path, err)
		}
	}
}

func TestACLOfAURL(t *testing.T) {
	t.Parallel()
	c, err := parse("zookeeper://h?acl=auth::cdrwa,ip:10.0.0.0/8:r,digest:bob:hash=:rw")
	must(t, err, "parse")
	want := []zk.ACL{
		{Perms: zk.PermAll, Scheme: "auth"},
		{Perms: zk.PermRead, Scheme: "ip", ID: "10.0.0.0/8"},
		{Perms: zk.PermRead | zk.PermWrite, Scheme: "digest", ID: "bob:hash="},
	}
	if !slices.Equal(c.acl, want) {
		t.Errorf("%+v", c.acl)
	}
}
