// Package store opens a store by its URL. It is the only place that knows every
// store; a program that uses one store alone can import that store's package
// instead, and then links no other.
package store

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// Options are what a URL doesn't say.
type Options struct {
	LockDir string // where this host's lock files are; empty: the store's default
}

// planned are the schemes of stores that this version doesn't have.
var planned = []string{"postgres", "postgresql", "mysql", "redis", "rediss", "etcd", "zookeeper"}

// Open opens the store that a URL names: sqlite:PATH, where PATH is the database
// file, or a directory in which the file is onerun.db.
//
// Errors: ErrUsage for a URL that can't be understood; ErrConfig for a store that
// this version doesn't have; else the store's own.
func Open(ctx context.Context, storeURL string, o Options) (onerun.Store, error) {
	scheme, rest, ok := strings.Cut(storeURL, ":")
	if !ok {
		return nil, fmt.Errorf("%w: store %q has no scheme; write sqlite:PATH", onerun.ErrUsage, Redact(storeURL))
	}
	switch {
	case scheme == "sqlite":
		return openSQLite(ctx, rest, o)
	case slices.Contains(planned, scheme):
		return nil, &onerun.StoreError{
			Kind: onerun.ErrConfig, What: "store", Path: Redact(storeURL),
			Err: fmt.Errorf("this version has no %s store", scheme), Do: "use sqlite:PATH",
		}
	}
	return nil, fmt.Errorf("%w: store %q has the unknown scheme %q; write sqlite:PATH", onerun.ErrUsage, Redact(storeURL), scheme)
}

func openSQLite(ctx context.Context, rest string, o Options) (onerun.Store, error) {
	path, query, _ := strings.Cut(rest, "?")
	path = strings.TrimPrefix(path, "//")
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("%w: store sqlite:%s names no file; write sqlite:PATH", onerun.ErrUsage, rest)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("%w: store sqlite:%s: %w", onerun.ErrUsage, rest, err)
	}
	var opts []sqlite.Option
	if o.LockDir != "" {
		opts = append(opts, sqlite.WithLockDir(o.LockDir))
	}
	for k, v := range values {
		if k != "network" || len(v) != 1 || v[0] != "unsafe" {
			return nil, fmt.Errorf("%w: store sqlite:%s: unknown setting %q; there is only network=unsafe", onerun.ErrUsage, rest, k)
		}
		opts = append(opts, sqlite.WithNetworkFS())
	}
	return sqlite.Open(ctx, path, opts...)
}

// Redact hides the password of a store URL, for messages and logs.
func Redact(storeURL string) string {
	scheme, rest, ok := strings.Cut(storeURL, "://")
	if !ok {
		return storeURL
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
		rest = "***" + rest[at:]
	}
	return scheme + "://" + rest
}
