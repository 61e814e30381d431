package redis

import (
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzURL: a URL is understood or refused (see fuzzbound.StoreURL), and what it is understood as is whole.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{
		"redis://h", "rediss://u:c4n4ry@h:1/2?ca_file=/x", "redis://:c4n4ry/x@h", "redis://a,b?cluster=true&prefix=p", "redis://a,b?sentinel=m&sentinel_user=u&sentinel_password_file=/x", "redis://u:c4n4ry?@h", "redis://h/1?pool_size=3&connect_timeout=1s", "redis://h/c4n4ry", "redis://h:c4n4ry", "redis://h/-1", "redis://%zz:c4n4ry@h",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		fuzzbound.Run(t, len(raw), func() {
			c, err := parse(raw)
			if fuzzbound.StoreURL(t, raw, c.password, err); err != nil {
				return
			}
			if len(c.hosts) == 0 || c.prefix == "" || c.db < 0 || strings.Contains(c.place(), fuzzbound.Canary) && !strings.Contains(strings.Join(c.hosts, " ")+c.sentinel, fuzzbound.Canary) {
				t.Errorf("%q: %+v", raw, c)
			}
		})
	})
}
