package postgres

import (
	"strings"
	"testing"

	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzURL: a URL is understood or refused (see fuzzbound.StoreURL), and what it is understood as is whole.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{
		"postgres://h/d", "postgresql://u:c4n4ry@h:1,g:2/d?schema=s&sslmode=disable", "postgres://u:c4n4ry/x@h/d", "postgres://u:c4n4ry?x@h/d", "postgres://u:c4n4ry#@h/d",
		"postgres://u:%zzc4n4ry@h/d", "postgres://u@h/d?password=c4n4ry&schema=$user", "postgres:///d?host=/tmp&port=x", "postgres://u:1@h:99999/d", "postgres://h/d?schema=%00",
		"postgres://h/d?pool_max_conns=x", "postgres://h/d?p%61ssword=c4n4ry", "postgres://h/d?connect_timeout=c4n4ry", "postgres://u:c4n4ry@h:x/d", "postgres://u:c4n4ry@[h/d",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, file := range []string{"pass", "cert", "key", "service"} { // which would be read
			if strings.Contains(raw, file+"file") || strings.Contains(raw, "ssl"+file) || strings.Contains(raw, "ssl") && strings.Contains(raw, file) || strings.Contains(raw, "service") {
				return
			}
		}
		fuzzbound.Run(t, len(raw), func() {
			cfg, schema, err := parse(raw)
			if err != nil {
				fuzzbound.StoreURL(t, raw, "", err)
				return
			}
			c, password := cfg.ConnConfig, ""
			if strings.Contains(c.Password, fuzzbound.Canary) { // and not the environment's
				password = c.Password
			}
			fuzzbound.StoreURL(t, raw, password, nil)
			if len(schema) > maxIdentifier || cfg.MaxConns < 1 || c.ConnectTimeout <= 0 {
				t.Errorf("%q: %q, %d, %s", raw, schema, cfg.MaxConns, c.ConnectTimeout)
			}
			if place := placeOf(c); strings.Contains(place, fuzzbound.Canary) && !strings.Contains(c.Host+c.Database, fuzzbound.Canary) && len(c.Fallbacks) == 0 {
				t.Errorf("%q is at %q", raw, place)
			}
		})
	})
}
