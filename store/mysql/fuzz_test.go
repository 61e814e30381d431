package mysql

import (
	"testing"

	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzURL: a URL is understood or refused (see fuzzbound.StoreURL), and what it is understood as is whole.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{
		"mysql://u@h/d", "mysql://u:c4n4ry@h:1/d?tls=required", "mysql://u@/d?socket=/s", "mysql://u:c4n4ry/x@h/d", "mysql://u:c4n4ry?x@h/d", "mysql://u:c4n4ry#@h/d", "mysql://u@h/d?pool_max_conns=0&connect_timeout=1s", "mysql://u@tcp(h)/d", "mysql://u@h/d?tls_ca=/x&tls_server_name=n", "mysql://u:c4n4ry@h:/d", "mysql://u@[::1]/d",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		fuzzbound.Run(t, len(raw), func() {
			c, err := parse(raw)
			if err != nil {
				fuzzbound.StoreURL(t, raw, "", err)
				return
			}
			fuzzbound.StoreURL(t, raw, c.password, nil)
			if c.addr == "" || c.user == "" || c.database == "" || c.conns < 1 || c.timeout <= 0 {
				t.Errorf("%q: %+v", raw, c)
			}
		})
	})
}
