package mysql

import (
	"context"
	"database/sql"
	"os"
	"sync/atomic"
	"time"

	"github.com/onerun-dev/onerun"
)

// Store is a store on MySQL or MariaDB. It connects when it is first asked.
type Store struct {
	*settings
	db     *sql.DB
	worker func(label string) onerun.Worker
	hook   func(step string)
	seen   atomic.Int64 // when the schema was there, and this program's
	closed atomic.Bool
}

var _ interface {
	onerun.Store
	onerun.HostClaimer
	onerun.UnlockRecorder
	onerun.Migrator
	onerun.Sizer
	onerun.Examiner
	onerun.UnclaimedKeeper
} = (*Store)(nil)

// Option changes a Store.
type Option func(*Store)

// WithWorker says who works: what is recorded of this process beside a claim. label is the
// claim's own. Without it that is the host's name and the process id.
func WithWorker(worker func(label string) onerun.Worker) Option {
	return func(s *Store) { s.worker = worker }
}

// WithHook calls hook before each step of a claim and of its end, with the name of the step: a
// test kills the process there.
func WithHook(hook func(step string)) Option { return func(s *Store) { s.hook = hook } }

// Open makes a store of a URL, mysql://USER@HOST:PORT/DATABASE with the parameters that
// docs/stores/mysql.md lists. It connects to nothing yet.
//
// Errors: ErrUsage for a URL that can't be read; ErrConfig or ErrPermission for a file that it
// names.
func Open(_ context.Context, rawURL string, opts ...Option) (*Store, error) {
	cfg, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	if _, err := cfg.config(); err != nil { // what it names is there
		return nil, err
	}
	s := &Store{settings: cfg, worker: thisWorker, hook: func(string) {}}
	for _, o := range opts {
		o(s)
	}
	s.db = sql.OpenDB(&connector{settings: cfg})
	s.db.SetMaxOpenConns(cfg.conns)
	s.db.SetMaxIdleConns(cfg.conns)
	s.db.SetConnMaxIdleTime(30 * time.Minute)
	return s, nil
}

// Name tells this store from others: the host and the database that its URL names. There are no
// secrets in it.
func (s *Store) Name() string { return s.String() }

// Close implements onerun.Store.
func (s *Store) Close() error {
	s.closed.Store(true)
	return s.db.Close()
}

// thisWorker is this process, as far as a listing needs it.
func thisWorker(label string) onerun.Worker {
	host, _ := os.Hostname() // without a name it is only shown without one
	return onerun.Worker{Label: label, Host: host, PID: os.Getpid()}
}
