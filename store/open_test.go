package store

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

func TestRedactAndSecret(t *testing.T) {
	for _, c := range []struct {
		url, shown string
		secret     bool
	}{
		{"sqlite:/var/lib/onerun/onerun.db", "sqlite:/var/lib/onerun/onerun.db", false},
		{"sqlite:/x?network=unsafe", "sqlite:/x?network=unsafe", false},
		{"postgres://u:pw@h/db", "postgres://***@h/db", true},
		{"postgres://u:p@w@h:5432/db?sslmode=require", "postgres://***@h:5432/db?sslmode=require", true},
		{"postgres://u@h/db", "postgres://***@h/db", false},
		{"postgres://h/db?user=u&password=pw", "postgres://h/db?user=u&password=***", true},
		{"redis://h:1/?Password=a&db=2", "redis://h:1/?Password=***&db=2", true},
		{"rediss://:pw@h", "rediss://***@h", true},
		{"etcd://h/?authToken=x", "etcd://h/?authToken=***", true},
	} {
		if got := Redact(c.url); got != c.shown {
			t.Errorf("Redact(%q) = %q, want %q", c.url, got, c.shown)
		}
		if got := Secret(c.url); got != c.secret {
			t.Errorf("Secret(%q) = %t", c.url, got)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for url, kind := range map[string]error{
		"":                              onerun.ErrUsage,
		"/var/lib/onerun":               onerun.ErrUsage,
		"sqlite:":                       onerun.ErrUsage,
		"sqlite:/x?network=safe":        onerun.ErrUsage,
		"sqlite:/x?cache=shared":        onerun.ErrUsage,
		"sqlite:/x?password=hunter2":    onerun.ErrUsage,
		"mongodb://u:hunter2@h/db":      onerun.ErrUsage,
		"postgres://u:hunter2@h/db":     onerun.ErrConfig,
		"redis://h/?password=hunter2":   onerun.ErrConfig,
		"sqlite:/no/such/dir/onerun.db": onerun.ErrCreate,
	} {
		s, err := Open(context.Background(), url, Options{})
		if s != nil || !errors.Is(err, kind) {
			t.Errorf("Open(%q): %v, want %v", url, err, kind)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
			t.Errorf("Open(%q) says %q", url, err)
		}
	}
}
