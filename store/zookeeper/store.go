package zookeeper

import (
	"context"
	"os"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// Store is a store on ZooKeeper.
type Store struct {
	*kvledger.Ledger
	space *space
}

var _ interface {
	onerun.Store
	onerun.HostClaimer
	onerun.UnclaimedKeeper
	onerun.UnlockRecorder
	onerun.Examiner
} = (*Store)(nil)

// Option changes a Store.
type Option func(*kvledger.Options)

// WithWorker says who works: what is recorded of this process beside a claim. label is the claim's own. Without it that is
// the host's name and the process id.
func WithWorker(worker func(label string) onerun.Worker) Option {
	return func(o *kvledger.Options) { o.Worker = worker }
}

// WithHook calls hook before each change that a claim, an end or a decision makes, with the name of the step: a test kills
// the process there.
func WithHook(hook func(step string)) Option { return func(o *kvledger.Options) { o.Hook = hook } }

// Open makes a store of a URL:
//
//	zookeeper://USER@HOST:PORT,HOST:PORT/CHROOT?password_file=FILE&session_timeout=6s&acl=SCHEME:ID:PERMISSIONS
//
// It reads the password's file, and connects to nothing yet.
//
// Errors: ErrUsage for a URL that can't be read.
func Open(ctx context.Context, rawURL string, opts ...Option) (*Store, error) {
	cfg, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	o := kvledger.Options{Name: "ZooKeeper", Worker: thisWorker, Apart: true}
	for _, opt := range opts {
		opt(&o)
	}
	s := newSpace(ctx, newConn(cfg))
	return &Store{Ledger: kvledger.New(s, o), space: s}, nil
}

// Name tells this store from others: the servers and the path that its URL names. There are no secrets in it.
func (s *Store) Name() string { return s.space.place() }

// thisWorker is this process, as far as a listing needs it.
func thisWorker(label string) onerun.Worker {
	host, _ := os.Hostname() // without a name it is only shown without one
	return onerun.Worker{Label: label, Host: host, PID: os.Getpid()}
}
