// Package stores opens the stores of many machines, but for etcd: its client alone costs more at each
// start than those of all others together, so what doesn't need it doesn't link it.
package stores

import (
	"context"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/store/hostlock"
	"github.com/onerun-dev/onerun/store/mysql"
	"github.com/onerun-dev/onerun/store/postgres"
	"github.com/onerun-dev/onerun/store/redis"
	"github.com/onerun-dev/onerun/store/zookeeper"
)

// IsEtcd reports whether a URL names the store that this package doesn't open.
func IsEtcd(storeURL string) bool { return strings.HasPrefix(storeURL, "etcd:") }

// Open opens a store behind the lock files in a directory; looking: to look at it alone. The URL is
// of a store of many machines, and not etcd's.
func Open(ctx context.Context, storeURL, lockDir string, looking bool) (onerun.Store, error) {
	var s Named
	var err error
	switch {
	case strings.HasPrefix(storeURL, "redis"):
		s, err = openRedis(ctx, storeURL)
	case strings.HasPrefix(storeURL, "mysql:"):
		s, err = openMySQL(ctx, storeURL)
	case strings.HasPrefix(storeURL, "zookeeper:"):
		s, err = openZooKeeper(ctx, storeURL)
	default:
		s, err = openPostgres(ctx, storeURL)
	}
	if err != nil {
		return nil, err
	}
	return Behind(s, lockDir, looking)
}

func openPostgres(ctx context.Context, storeURL string) (Named, error) {
	return postgres.Open(ctx, storeURL, postgres.WithWorker(filelock.ThisWorker))
}

func openMySQL(ctx context.Context, storeURL string) (Named, error) {
	return mysql.Open(ctx, storeURL, mysql.WithWorker(filelock.ThisWorker))
}

// openRedis turns the driver's own log off: it would stand among onerun's lines, and says nothing
// that an error doesn't.
func openRedis(ctx context.Context, storeURL string) (Named, error) {
	return redis.Open(ctx, storeURL, redis.WithWorker(filelock.ThisWorker), redis.WithoutDriverLog())
}

func openZooKeeper(ctx context.Context, storeURL string) (Named, error) {
	return zookeeper.Open(ctx, storeURL, zookeeper.WithWorker(filelock.ThisWorker))
}

// Named is a store of many machines that tells itself from others.
type Named interface {
	hostlock.Remote
	Name() string
}

// Behind puts this host's lock files before a store of many machines, if it has a directory for
// them.
func Behind(s Named, lockDir string, looking bool) (onerun.Store, error) {
	if lockDir == "" {
		return s, nil
	}
	h, err := hostlock.Open(s, lockDir, hostlock.Options{Name: s.Name(), Looking: looking})
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return h, nil
}
