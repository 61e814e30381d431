package etcd

import (
	"slices"
	"testing"

	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzURL: a URL is understood or refused (see fuzzbound.StoreURL), and what it is understood as is whole.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{
		"etcd://h", "etcd://u:c4n4ry@h:1,[::1]:2/p/q?tls=on", "etcd://u@h?passfile=/x&cacert=/y&cert=/c&key=/k&server_name=n", "etcd://u:c4n4ry/x@h", "etcd://u:c4n4ry?x@h/", "etcd://h?password=c4n4ry", "etcd://u@h?password=c4n4ry", "etcd://u%3A:%63@h", "etcd://h:0", "etcd://", "etcd:///p",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		fuzzbound.Run(t, len(raw), func() {
			c, err := parse(raw)
			if fuzzbound.StoreURL(t, raw, c.password, err); err != nil {
				return
			}
			if len(c.endpoints) == 0 || c.prefix == "" || c.place() == "" {
				t.Errorf("%q: %+v", raw, c)
			}
			if again, err := parse(c.place()); err == nil && (!slices.Equal(again.endpoints, c.endpoints) || again.password != "") {
				t.Errorf("%q is %+v, and its place %+v", raw, c, again)
			}
		})
	})
}
