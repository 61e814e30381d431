package postgres

import (
	"context"
	"net/url"
	"os"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onerun-dev/onerun"
)

// Store is a store on PostgreSQL. It connects when it is first asked.
type Store struct {
	pool     *pgxpool.Pool
	place    string // for people: hosts and database
	password string // to be taken out of whatever is told
	named    string // the schema that the URL names, or ""
	passfile string // where the password is looked for, or ""
	chosen   bool   // the password file was named by somebody
	worker   func(label string) onerun.Worker
	hook     func(step string)
	ear      *ear
	closed   atomic.Bool
	begins   atomic.Bool // another isolation than READ COMMITTED is the default here: transactions begin aloud

	mu     sync.Mutex
	schema string // found; "": not yet
}

var _ interface {
	onerun.Store
	onerun.HostClaimer
	onerun.LineWaiter
	onerun.WaitingClaimer
	onerun.Migrator
	onerun.Sizer
	onerun.Examiner
	onerun.SessionLister
	onerun.UnclaimedKeeper
} = (*Store)(nil)

// Option changes a Store.
type Option func(*Store)

// WithWorker says who works: what is recorded of this process beside a claim. label is the
// claim's own. Without it that is the host's name and the process id.
func WithWorker(worker func(label string) onerun.Worker) Option {
	return func(s *Store) { s.worker = worker }
}

// WithHook calls hook before each step of a claim, of a wait for a lock, and of its end, with
// the name of the step: a test kills the process there.
func WithHook(hook func(step string)) Option { return func(s *Store) { s.hook = hook } }

// Open makes a store of a URL. It reads what the URL names (a service or password file,
// certificates) and connects to nothing yet.
//
// Errors: ErrUsage for a URL that can't be read.
func Open(ctx context.Context, rawURL string, opts ...Option) (*Store, error) {
	cfg, schema, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	s := &Store{
		place: placeOf(cfg.ConnConfig), password: cfg.ConnConfig.Password, named: schema,
		worker: thisWorker, hook: func(string) {},
	}
	s.ear = newEar(s, cfg.MaxConns)
	s.passfile, s.chosen = passwordFile(rawURL)
	for _, o := range opts {
		o(s)
	}
	if s.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg); err != nil {
		return nil, s.explain("open the store", err)
	}
	return s, nil
}

// Name tells this store from others: the hosts, the database and the schema that its URL names.
// There are no secrets in it.
func (s *Store) Name() string {
	if s.named == "" {
		return s.place
	}
	return s.place + "?schema=" + url.QueryEscape(s.named)
}

// Close implements onerun.Store.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.ear.close()
	s.pool.Close()
	return nil
}

// thisWorker is this process, as far as a listing needs it.
func thisWorker(label string) onerun.Worker {
	host, _ := os.Hostname() // without a name it is only shown without one
	return onerun.Worker{Label: label, Host: host, PID: os.Getpid()}
}
