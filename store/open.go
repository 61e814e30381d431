// Package store opens a store by its URL. It is the only place that knows every
// store; a program that uses one store alone can import that store's package
// instead, and then links no other.
package store

import (
	"context"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/stores"
	"github.com/onerun-dev/onerun/internal/storeurl"
	"github.com/onerun-dev/onerun/store/etcd"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// Options are what a URL doesn't say.
type Options struct {
	// LockDir is where this host's lock files are. Empty: for the embedded store locks/ beside
	// the database; for a store of many machines none, so that only its leases tell who is dead
	// (see package hostlock).
	LockDir string

	MakeDir bool // make a local store's directory when the last element of its path is missing
	Looking bool // to look alone: nothing is made or written, and what is unsafe is opened all the same
}

// Open opens the store that a URL names:
//
//	sqlite:PATH       the database file, or a directory in which the file is onerun.db
//	postgres://…      a database, as libpq takes it, and ?schema=NAME
//	redis://…         a server, Sentinels or a cluster; rediss://… with TLS
//	mysql://…         a database on MySQL or MariaDB
//	etcd://…          the members of a cluster and a prefix, see package etcd
//	zookeeper://…     an ensemble, and a path
//
// Errors: ErrUsage for a URL that can't be understood; else the store's own.
func Open(ctx context.Context, storeURL string, o Options) (onerun.Store, error) {
	kind, err := storeurl.KindOf(storeURL)
	switch {
	case err != nil:
		return nil, err
	case kind == storeurl.Local:
		return openSQLite(ctx, storeURL, o)
	case stores.IsEtcd(storeURL):
		return openEtcd(ctx, storeURL, o)
	}
	return stores.Open(ctx, storeURL, o.LockDir, o.Looking)
}

func openSQLite(ctx context.Context, storeURL string, o Options) (onerun.Store, error) {
	var opts []sqlite.Option
	if o.LockDir != "" {
		opts = append(opts, sqlite.WithLockDir(o.LockDir))
	}
	if o.Looking {
		opts = append(opts, sqlite.Looking())
	}
	if o.MakeDir {
		opts = append(opts, sqlite.WithMakeDir())
	}
	s, err := sqlite.OpenURL(ctx, storeURL, opts...)
	if err != nil {
		return nil, err // not a nil *sqlite.Store, which as a Store is not nil
	}
	return s, nil
}

func openEtcd(ctx context.Context, storeURL string, o Options) (onerun.Store, error) {
	s, err := etcd.Open(ctx, storeURL, etcd.WithWorker(filelock.ThisWorker))
	if err != nil {
		return nil, err
	}
	return stores.Behind(s, o.LockDir, o.Looking)
}
