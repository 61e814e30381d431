package etcd

import (
	"context"
	"os"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// Store is a store on etcd. It connects when it is first asked.
type Store struct {
	*kvledger.Ledger
	space *space
}

var _ interface {
	onerun.Store
	onerun.HostClaimer
	onerun.UnclaimedKeeper
	onerun.UnlockRecorder
	onerun.Sizer
	onerun.Examiner
} = (*Store)(nil)

// Option changes a Store.
type Option func(*space, *kvledger.Options)

// WithWorker says who works: what is recorded of this process beside a claim. label is the
// claim's own. Without it that is the host's name and the process id.
func WithWorker(worker func(label string) onerun.Worker) Option {
	return func(_ *space, o *kvledger.Options) { o.Worker = worker }
}

// WithHook calls hook before each change that a claim, an end or a decision makes, with the name
// of the step: a test kills the process there.
func WithHook(hook func(step string)) Option {
	return func(s *space, o *kvledger.Options) { s.hook, o.Hook = hook, hook }
}

// Open makes a store of a URL:
//
//	etcd://USER@HOST:PORT,HOST:PORT/PREFIX?passfile=FILE&tls=on&cacert=FILE&cert=FILE&key=FILE&server_name=NAME
//
// It reads nothing that the URL names, and connects to nothing yet.
//
// Errors: ErrUsage for a URL that can't be read.
func Open(ctx context.Context, rawURL string, opts ...Option) (*Store, error) {
	c, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	s := newSpace(ctx, c)
	o := kvledger.Options{Name: "etcd", Worker: thisWorker}
	for _, opt := range opts {
		opt(s, &o)
	}
	return &Store{Ledger: kvledger.New(s, o), space: s}, nil
}

// Name tells this store from others: the hosts and the prefix that its URL names. There are no
// secrets in it.
func (s *Store) Name() string { return s.space.config.place() }

// thisWorker is this process, as far as a listing needs it.
func thisWorker(label string) onerun.Worker {
	host, _ := os.Hostname() // without a name it is only shown without one
	return onerun.Worker{Label: label, Host: host, PID: os.Getpid()}
}
