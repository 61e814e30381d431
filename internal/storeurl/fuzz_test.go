package storeurl_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/fuzzbound"
	"github.com/onerun-dev/onerun/internal/storeurl"
)

// canary is a password that nothing shows.
const canary = "c4n4ry"

// FuzzURL: whatever the parts of a URL are, a password in it is known to be there and isn't shown; and what is shown hides
// no more when it is shown again.
func FuzzURL(f *testing.F) {
	for _, s := range [][4]string{
		{"postgres://", "u", "", "@h/db"},
		{"redis://", "", "a/b", "@h:1/2?prefix=x"},
		{"rediss://", "u", "?", "@h"},
		{"zookeeper://", "u", "#", "@a,b/c"},
		{"etcd://", "u@x", "%2F", "@h/p?tls=on"},
		{"mysql://", "u", "@", "@h/db"},
		{"sqlite:", "/a", "", "@b"},
		{"", "", "", ""},
		{"mysql:", "u", "", "@tcp(h)/db"},
		{"sqlite://", "u", "/", "@h?network=unsafe"},
		{"postgres://", "", "?password=", "&x@y"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, scheme, user, more, tail string) {
		fuzzbound.Run(t, len(scheme)+len(user)+len(more)+len(tail), func() {
			url := scheme + user + ":" + canary + more + tail
			shown := storeurl.Redact(url)
			if storeurl.Redact(shown) != shown {
				t.Errorf("%q is shown as %q, and that as %q", url, shown, storeurl.Redact(shown))
			}
			kind, err := storeurl.KindOf(url)
			if err != nil && (kind != 0 || !errors.Is(err, onerun.ErrUsage)) {
				t.Errorf("%q: %v, %v", url, kind, err)
			}
			_, rest, ok := strings.Cut(url, "://")
			if kind != storeurl.Remote || !ok {
				return
			}
			base, query, _ := strings.Cut(rest, "?")
			if !strings.Contains(base, "/") {
				base += "?" + query
			}
			if strings.LastIndex(rest, "@") > strings.LastIndex(rest, canary) && strings.Contains(shown, canary) {
				t.Errorf("%q is shown as %q", url, shown)
			}
			if strings.LastIndex(base, "@") > strings.Index(base, ":"+canary) && strings.Contains(base, ":"+canary) && !storeurl.Secret(url) {
				t.Errorf("%q is no secret", url)
			}
		})
	})
}
