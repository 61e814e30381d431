package sqlite

import (
	"errors"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/fuzzbound"
	"github.com/onerun-dev/onerun/internal/storeurl"
)

// FuzzURL: a URL names a file, by a path that is a part of it, or is refused as a mistake of its writer; and no character
// of a path becomes a setting of SQLite's own URLs.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{
		"sqlite:/x", "sqlite:x?network=unsafe", "sqlite:///x", "sqlite:", "sqlite:?", "sqlite:/x?network=unsafe&network=unsafe", "sqlite:/x?mode=ro", "sqlite:/x%3Fmode=ro",
		"sqlite:/a\x00b", "sqlite:/x?%zz", "sqlite:/x?network=unsafe#y", "sqlite:file:x?mode=memory", "sqlite::memory:", "postgres://h",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		fuzzbound.Run(t, len(raw), func() {
			path, opts, err := parseURL(raw)
			if err != nil {
				if !errors.Is(err, onerun.ErrUsage) || path != "" || opts != nil || strings.Contains(err.Error(), "\n") && !strings.Contains(raw, "\n") {
					t.Errorf("%q: %q, %d, %v", raw, path, len(opts), err)
				}
				return
			}
			if kind, err := storeurl.KindOf(raw); err != nil || kind != storeurl.Local {
				t.Errorf("%q: %v, %v", raw, kind, err)
			}
			if path == "" || strings.ContainsAny(path, "?\x00") || !strings.Contains(raw, path) || len(opts) > 1 || (len(opts) == 1) != strings.Contains(raw, "?") && !strings.HasSuffix(raw, "?") && !strings.Contains(raw, "?&") {
				t.Errorf("%q is %q with %d settings", raw, path, len(opts))
			}
			again, more, err := parseURL(scheme + strings.TrimPrefix(raw, scheme))
			if err != nil || again != path || len(more) != len(opts) {
				t.Errorf("%q is %q, and then %q: %v", raw, path, again, err)
			}
		})
	})
}
