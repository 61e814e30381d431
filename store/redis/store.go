package redis

import (
	"context"
	"net/url"
	"os"

	driver "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/onerun-dev/onerun"
)

// Store is a store on Redis. It connects when it is first asked.
type Store struct {
	cfg     config
	db      driver.UniversalClient
	scripts scripts
	worker  func(label string) onerun.Worker
	hook    func(step string)
}

var _ interface {
	onerun.Store
	onerun.HostClaimer
	onerun.UnlockRecorder
	onerun.UnclaimedKeeper
	onerun.Examiner
} = (*Store)(nil)

// Option changes a Store.
type Option func(*Store)

// WithWorker says who works: what is recorded of this process beside a claim. label is the
// claim's own. Without it that is the host's name and the process id.
func WithWorker(worker func(label string) onerun.Worker) Option {
	return func(s *Store) { s.worker = worker }
}

// WithHook calls hook before and after each step of a claim and of its end, with the name of
// the step: a test kills the process there.
func WithHook(hook func(step string)) Option { return func(s *Store) { s.hook = hook } }

// WithoutDriverLog turns off what the driver writes to standard error of its own accord, as
// when a server can't be reached. That is one setting for the whole process.
func WithoutDriverLog() Option { return func(*Store) { logging.Disable() } }

// Open makes a store of a URL:
//
//	redis://[USER[:PASSWORD]@]HOST[:PORT]/[DB]          one server
//	redis://HOST:26379,HOST:26379/[DB]?sentinel=NAME    the primary that the Sentinels name
//	redis://HOST,HOST?cluster=true                      the nodes of a cluster
//
// rediss:// is the same with TLS. docs/stores/redis.md lists the parameters. It reads what the
// URL names (password file, certificates) and connects to nothing yet.
//
// Errors: ErrUsage for a URL that can't be read; ErrConfig for a file that can't be used.
func Open(_ context.Context, rawURL string, opts ...Option) (*Store, error) {
	cfg, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, scripts: newScripts(), worker: thisWorker, hook: func(string) {}}
	for _, o := range opts {
		o(s)
	}
	options, err := cfg.options()
	if err != nil {
		return nil, err
	}
	s.db = driver.NewUniversalClient(options)
	return s, nil
}

// Name tells this store from others: the hosts, the database and the prefix that its URL names.
// There are no secrets in it.
func (s *Store) Name() string {
	if s.cfg.prefix == defaultPrefix {
		return s.cfg.place()
	}
	sep := "?"
	if s.cfg.sentinel != "" {
		sep = "&"
	}
	return s.cfg.place() + sep + "prefix=" + url.QueryEscape(s.cfg.prefix)
}

// Close implements onerun.Store.
func (s *Store) Close() error {
	_ = s.db.Close() // connections that are broken already are of no interest
	return nil
}

// thisWorker is this process, as far as a listing needs it.
func thisWorker(label string) onerun.Worker {
	host, _ := os.Hostname() // without a name it is only shown without one
	return onerun.Worker{Label: label, Host: host, PID: os.Getpid()}
}
