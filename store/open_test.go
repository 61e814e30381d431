package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, c := range []struct{ url, file string }{
		{"sqlite:jobs.db", "jobs.db"},
		{"sqlite:./b.db", "b.db"},
		{"sqlite:" + dir + "/c.db", "c.db"},
		{"sqlite://" + dir + "/d.db", "d.db"},
		{"sqlite:" + dir, "onerun.db"},
		{"sqlite:.", "onerun.db"},
		{"sqlite:" + dir + "/", "onerun.db"},
		{"sqlite:e.db?network=unsafe", "e.db"},
		{"sqlite:f%20g.db", "f%20g.db"}, // a path, not a URL's
		{"sqlite:일일.db", "일일.db"},
	} {
		s, err := store.Open(t.Context(), c.url, store.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if _, err := s.Runs(t.Context(), onerun.Query{Namespace: "default"}); err != nil {
			t.Errorf("%s: %v", c.url, err)
		}
		if st, err := os.Stat(filepath.Join(dir, c.file)); err != nil || !st.Mode().IsRegular() {
			t.Errorf("%s: %v; expected the database %s", c.url, err, c.file)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", c.url, err)
		}
	}
}

func TestOpenLockDir(t *testing.T) {
	dir, locks := t.TempDir(), filepath.Join(t.TempDir(), "locks")
	s, err := store.Open(t.Context(), "sqlite:"+dir, store.Options{LockDir: locks})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	g, err := s.Claim(t.Context(), onerun.Claim{Namespace: "default", Lock: onerun.NamedLock("db"), Owner: onerun.NewID()})
	if err != nil || filepath.Dir(g.LockPath) != locks {
		t.Fatalf("the lock file is %s: %v", g.LockPath, err)
	}
	if err := s.Finish(t.Context(), g.Lease, onerun.Outcome{}); err != nil {
		t.Error(err)
	}
}

// secret must stand in no error.
const secret = "hunter2"

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, c := range []struct {
		url  string
		kind error
	}{
		{"", onerun.ErrUsage},
		{"jobs.db", onerun.ErrUsage},
		{"/var/lib/onerun", onerun.ErrUsage},
		{"sqlite:", onerun.ErrUsage},
		{"sqlite://", onerun.ErrUsage},
		{"sqlite:?network=unsafe", onerun.ErrUsage},
		{"sqlite:a\x00b", onerun.ErrUsage},
		{"sqlite:a.db?mode=memory", onerun.ErrUsage},
		{"sqlite:a.db?network=safe", onerun.ErrUsage},
		{"sqlite:a.db?network=unsafe&network=unsafe", onerun.ErrUsage},
		{"sqlite:a.db?network=unsafe&x=1", onerun.ErrUsage},
		{"sqlite:a.db?%zz", onerun.ErrUsage},
		{"sqlite3:a.db", onerun.ErrUsage},
		{"SQLITE:a.db", onerun.ErrUsage},
		{"file:a.db", onerun.ErrUsage},
		{"http://ann:" + secret + "@db.example.org/x", onerun.ErrUsage},
		{"sqlite:missing/a.db", onerun.ErrCreate},

		{"postgres://ann:pa/ss" + secret + "@db.example.org/onerun", onerun.ErrUsage},
		{"postgres:host=db user=ann password=" + secret, onerun.ErrUsage},
		{"postgres://db.example.org/onerun?schema=&password=" + secret, onerun.ErrUsage},
		{"host=db user=ann password=" + secret, onerun.ErrUsage},
		{"ann:" + secret + "@tcp(db:3306)/onerun", onerun.ErrUsage},
		{"redis://:" + secret + "@db.example.org/x", onerun.ErrUsage},
		{"rediss://:" + secret + "@db.example.org/0?ttl=1", onerun.ErrUsage},
		{"mysql://ann:" + secret + "@tcp(db)/onerun", onerun.ErrUsage},
		{"etcd://root:" + secret + "@a:2379,b:2379?x=1", onerun.ErrUsage},
		{"zookeeper://ann:" + secret + "@a:2181/../x", onerun.ErrUsage},

		{"sqlite://ann:" + secret + "@host/a.db?x=1", onerun.ErrUsage},
		{"sqlite:a.db?password=" + secret, onerun.ErrUsage},
	} {
		s, err := store.Open(t.Context(), c.url, store.Options{})
		if s != nil || !errors.Is(err, c.kind) {
			t.Errorf("%q: %v %v, not %v", c.url, s, err, c.kind)
			continue
		}
		if text := err.Error(); strings.Contains(text, secret) || strings.ContainsAny(text, "\n\r\x00") {
			t.Errorf("%q: it says %q", c.url, text)
		}
		var missing *onerun.StoreError
		if errors.As(err, &missing) && missing.Do == "" {
			t.Errorf("%q: nothing says what to do: %v", c.url, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestOpenEnds: opening with a caller that has given up is no success that nobody closes.
func TestOpenEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := store.Open(ctx, "sqlite:"+t.TempDir(), store.Options{})
	if err == nil {
		_, err = s.Runs(ctx, onerun.Query{Namespace: "default"})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if !errors.Is(err, onerun.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
