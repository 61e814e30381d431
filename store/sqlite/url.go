package sqlite

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/storeurl"
)

// OpenURL is Open by a URL: sqlite:PATH, with ?network=unsafe where WithNetworkFS is meant.
//
// Errors: ErrUsage for a URL that can't be understood; else as of Open.
func OpenURL(ctx context.Context, storeURL string, opts ...Option) (*Store, error) {
	path, more, err := parseURL(storeURL)
	if err != nil {
		return nil, err
	}
	return Open(ctx, path, append(more, opts...)...)
}

// CheckURL refuses a URL that OpenURL could not understand, and opens nothing.
//
// Errors: ErrUsage.
func CheckURL(storeURL string) error {
	_, _, err := parseURL(storeURL)
	return err
}

// ShareURL is Share by a URL. mayShare may forbid its directory.
//
// Errors: ErrUsage for a URL that is none of this store's; else as of Share.
func ShareURL(ctx context.Context, storeURL string, gid int, opts ...Option) (made bool, changed int, err error) {
	if !strings.HasPrefix(storeURL, scheme) {
		return false, 0, fmt.Errorf("%w: store %q can't be shared with a group of this host; that is for sqlite:PATH", onerun.ErrUsage, storeurl.Redact(storeURL))
	}
	path, more, err := parseURL(storeURL)
	if err != nil {
		return false, 0, err
	}
	return Share(ctx, path, gid, append(more, opts...)...)
}

// NamesURL is Names by a URL; a URL of another store has nothing to say.
func NamesURL(ctx context.Context, storeURL, namespace, start string, keys bool) ([]string, error) {
	rest, ok := strings.CutPrefix(storeURL, scheme)
	if !ok {
		return nil, nil
	}
	path, _ := pathOf(rest)
	return Names(ctx, path, namespace, start, keys)
}

const scheme = "sqlite:"

// pathOf takes apart what follows the scheme.
func pathOf(rest string) (path, query string) {
	path, query, _ = strings.Cut(rest, "?")
	return strings.TrimPrefix(path, "//"), query
}

func parseURL(storeURL string) (path string, opts []Option, err error) {
	rest, ok := strings.CutPrefix(storeURL, scheme)
	shown := storeurl.Redact(storeURL)
	if !ok {
		return "", nil, fmt.Errorf("%w: store %q is none of this kind; write sqlite:PATH", onerun.ErrUsage, shown)
	}
	path, query := pathOf(rest)
	if path == "" || strings.ContainsRune(path, 0) {
		return "", nil, fmt.Errorf("%w: store %q names no file; write sqlite:PATH", onerun.ErrUsage, shown)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, fmt.Errorf("%w: store %s: %w", onerun.ErrUsage, shown, err)
	}
	for k, v := range values {
		if k != "network" || len(v) != 1 || v[0] != "unsafe" {
			return "", nil, fmt.Errorf("%w: store %s: unknown setting %q; there is only network=unsafe", onerun.ErrUsage, shown, k)
		}
		opts = append(opts, WithNetworkFS())
	}
	return path, opts, nil
}
