package storeurl_test

import (
	"testing"

	"github.com/onerun-dev/onerun/internal/storeurl"
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
		{"postgres://h/db?p%61ssword=pw", "postgres://h/db?p%61ssword=***", true},
		{"redis://h:1/?Password=a&db=2", "redis://h:1/?Password=***&db=2", true},
		{"rediss://:pw@h", "rediss://***@h", true},
		{"etcd://h/?authToken=x", "etcd://h/?authToken=***", true},
		// As some stores take a password with a character that should be escaped.
		{"redis://:p/w@h/1", "redis://***@h/1", true},
		{"postgres://u:p?w@h/db", "postgres://***@h/db", true},
		{"zookeeper://u:p/w@h/x?password_file=f", "zookeeper://***@h/x?password_file=***", true},
		{"redis://a:1/0?sentinel=b@c", "redis://***@c", false},
	} {
		if got := storeurl.Redact(c.url); got != c.shown {
			t.Errorf("Redact(%q) = %q, want %q", c.url, got, c.shown)
		}
		if got := storeurl.Secret(c.url); got != c.secret {
			t.Errorf("Secret(%q) = %t", c.url, got)
		}
	}
}
