package zookeeper

import (
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzURL: a URL is understood or refused (see fuzzbound.StoreURL), and what it is understood as is whole.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{
		"zookeeper://h", "zookeeper://u:c4n4ry@h:1,[::1]:2/a/b?session_timeout=6s&acl=auth::cdrwa,ip:10.0.0.0/8:r", "zookeeper://u:c4n4ry/x@h", "zookeeper://u:c4n4ry?x@h", "zookeeper://u:c4n4ry#@h", "zookeeper://u@h", "zookeeper://h/../x", "zookeeper://h/zookeeper", "zookeeper://h/%00", "zookeeper://%zz:c4n4ry@h", "zookeeper://h?acl=x",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if strings.Contains(raw, "password_file") { // which would be read
			return
		}
		fuzzbound.Run(t, len(raw), func() {
			c, err := parse(raw)
			if fuzzbound.StoreURL(t, raw, c.password, err); err != nil {
				return
			}
			if len(c.servers) == 0 || !strings.HasPrefix(c.chroot, "/") || c.timeout < minSession || c.timeout > maxSession {
				t.Errorf("%q: %+v", raw, c)
			}
		})
	})
}
