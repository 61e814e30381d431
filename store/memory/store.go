package memory

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

// Store is a store in memory. Make one with New.
type Store struct {
	mu    sync.Mutex
	now   func() time.Time
	rules Rules

	runs      map[string]*record // by run id
	keys      map[name]*record
	locks     map[name]*lock
	jobs      map[name]*onerun.JobState
	skips     []*onerun.Skip
	approvals []*onerun.Approval
	events    []onerun.Event
	tombs     map[name]*onerun.Run // of keys that were pruned
	items     []*onerun.Item
	notes     map[name]onerun.Note
}

// name is a name within a namespace.
type name struct{ namespace, name string }

// record is a run with its attempts; the last one's execution is the run's.
type record struct {
	onerun.Run
	attempts []onerun.Attempt
	policy   onerun.Policy // of the last attempt's owner
	seq      int           // order of creation
	outputs  map[int]onerun.Output
}

// lock outlives its owners: the token is kept.
type lock struct {
	lease   onerun.Lease // zero Owner: free
	token   int64
	expires time.Time
	policy  onerun.Policy
	run     *record // nil: a claim of the lock alone
	grant   onerun.Grant
	stop    string // who wants it stopped, and why
}

// Option changes a Store.
type Option func(*Store)

// WithNow gives the store's clock; default time.Now.
func WithNow(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// WithRules replaces rules; see Rules.
func WithRules(r Rules) Option { return func(s *Store) { s.rules = r } }

// New makes an empty store.
func New(opts ...Option) *Store {
	s := &Store{
		now:  time.Now,
		runs: map[string]*record{}, keys: map[name]*record{},
		locks: map[name]*lock{}, jobs: map[name]*onerun.JobState{}, tombs: map[name]*onerun.Run{}, notes: map[name]onerun.Note{},
	}
	for _, o := range opts {
		o(s)
	}
	s.rules = s.rules.complete()
	return s
}

// Close does nothing: the store lives as long as its process holds it.
func (s *Store) Close() error { return nil }

func (s *Store) id(namespace, n string) name {
	return name{s.rules.Namespace(namespace), s.rules.Name(n)}
}

// enter takes the store's lock, unless ctx is over.
func (s *Store) enter(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "store in memory", Err: context.Cause(ctx)}
	}
	s.mu.Lock()
	return s.now(), nil
}

func (s *Store) lockOf(namespace string, n onerun.LockName) *lock {
	id := s.id(namespace, string(n))
	if s.locks[id] == nil {
		s.locks[id] = &lock{}
	}
	return s.locks[id]
}

func (s *Store) free(l *lock) {
	l.lease, l.run, l.grant, l.stop = onerun.Lease{}, nil, onerun.Grant{}, ""
	l.token = s.rules.ReleaseToken(l.token)
}

// lastApproval is the last approval of a run that is unspent. An earlier one can't
// be usable: the last was only given because it was not.
func (s *Store) lastApproval(runID string) *onerun.Approval {
	for _, a := range slices.Backward(s.approvals) {
		if a.RunID == runID && a.UsedAt.IsZero() {
			return a
		}
	}
	return nil
}

func (s *Store) event(at time.Time, event string, r onerun.Run, who onerun.Who, detail string) {
	s.events = append(s.events, onerun.Event{
		ID: int64(len(s.events) + 1), At: at, Name: event, Namespace: r.Namespace, RunID: r.RunID, Job: r.Job, Key: r.Key(),
		By: who.By, Terminal: who.Terminal, Reason: who.Reason, Detail: detail,
	})
}
