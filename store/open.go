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
	MakeDir bool   // make a local store's directory when the last element of its path is missing
	Looking bool   // to look alone: nothing is made or written, and what is unsafe is opened all the same
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
	return nil, fmt.Errorf("%w: store %q has an unknown scheme; write sqlite:PATH", onerun.ErrUsage, Redact(storeURL))
}

// sqlitePath takes apart what follows sqlite: in a URL.
func sqlitePath(rest string) (path, query string) {
	path, query, _ = strings.Cut(rest, "?")
	return strings.TrimPrefix(path, "//"), query
}

func openSQLite(ctx context.Context, rest string, o Options) (onerun.Store, error) {
	path, opts, err := parseSQLite(rest, o)
	if err != nil {
		return nil, err
	}
	s, err := sqlite.Open(ctx, path, opts...)
	if err != nil {
		return nil, err // not a nil *sqlite.Store, which as a Store is not nil
	}
	return s, nil
}

// Share makes the local store of a URL one that the accounts of a group use together; see
// sqlite.Share. mayShare may forbid its directory.
//
// Errors: as of Open; ErrUsage for a store that has accounts of its own.
func Share(ctx context.Context, storeURL string, gid int, mayShare func(dir string) error, o Options) (made bool, changed int, err error) {
	scheme, rest, ok := strings.Cut(storeURL, ":")
	if !ok || scheme != "sqlite" {
		return false, 0, fmt.Errorf("%w: store %q can't be shared with a group of this host; that is for sqlite:PATH", onerun.ErrUsage, Redact(storeURL))
	}
	path, opts, err := parseSQLite(rest, o)
	if err != nil {
		return false, 0, err
	}
	return sqlite.Share(ctx, path, gid, append(opts, sqlite.WithMayShare(mayShare))...)
}

func parseSQLite(rest string, o Options) (path string, opts []sqlite.Option, err error) {
	path, query := sqlitePath(rest)
	if path == "" || strings.ContainsRune(path, 0) {
		return "", nil, fmt.Errorf("%w: store %q names no file; write sqlite:PATH", onerun.ErrUsage, Redact("sqlite:"+rest))
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, fmt.Errorf("%w: store %s: %w", onerun.ErrUsage, Redact("sqlite:"+rest), err)
	}
	if o.LockDir != "" {
		opts = append(opts, sqlite.WithLockDir(o.LockDir))
	}
	if o.Looking {
		opts = append(opts, sqlite.Looking())
	}
	if o.MakeDir {
		opts = append(opts, sqlite.WithMakeDir())
	}
	for k, v := range values {
		if k != "network" || len(v) != 1 || v[0] != "unsafe" {
			return "", nil, fmt.Errorf("%w: store %s: unknown setting %q; there is only network=unsafe", onerun.ErrUsage, Redact("sqlite:"+rest), k)
		}
		opts = append(opts, sqlite.WithNetworkFS())
	}
	return path, opts, nil
}

// Redact hides what may be secret in a store URL, for messages and logs: the user part,
// and parameters that are named after a secret.
func Redact(storeURL string) string {
	base, query, ok := strings.Cut(storeURL, "?")
	scheme, rest, slashes := strings.Cut(base, "://")
	switch {
	case slashes:
		end := len(rest) // a password may hold a slash, if its writer didn't know better
		if i := strings.IndexAny(rest, "/#"); i >= 0 && scheme == "sqlite" {
			end = i // a path may hold an "@"
		}
		if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
			base = scheme + "://***" + rest[at:]
		}
	case strings.HasPrefix(base, "sqlite:"):
	default: // a driver's own form: user:password@tcp(host)/db, or host=db password=…
		if at := strings.LastIndexByte(base, '@'); at >= 0 {
			base = "***" + base[at:]
		}
		words := strings.Split(base, " ")
		for i, word := range words {
			if name, _, has := strings.Cut(word, "="); has && secretName(name) {
				words[i] = name + "=***"
			}
		}
		base = strings.Join(words, " ")
	}
	if !ok {
		return base
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, _, has := strings.Cut(pair, "="); has && secretName(name) {
			pairs[i] = name + "=***"
		}
	}
	return base + "?" + strings.Join(pairs, "&")
}

// Secret reports whether a store URL holds a password itself, and so must not be handed
// on to a job.
func Secret(storeURL string) bool {
	base, query, _ := strings.Cut(storeURL, "?")
	if _, rest, ok := strings.Cut(base, "://"); ok {
		host, _, _ := strings.Cut(rest, "/")
		if user, _, has := cutLast(host, "@"); has && strings.Contains(user, ":") {
			return true
		}
	}
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, has := strings.Cut(pair, "="); has && secretName(name) {
			return true
		}
	}
	return false
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "pwd", "token", "secret", "credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
