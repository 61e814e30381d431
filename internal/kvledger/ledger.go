package kvledger

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/onerun-dev/onerun"
)

// Ledger is a onerun.Store on a Space.
type Ledger struct {
	space Space
	hook  func(step string)
	what  string
	who   func(label string) onerun.Worker
	apart bool
	begun atomic.Bool // whether the space was looked at

	mu   sync.Mutex
	warm map[string]map[string]Entry // by owner: what its lock and run were after its own last commit
	free map[string]Entry            // by key: locks that this client was the last to free, as far as it knows
}

var (
	_ onerun.Store           = (*Ledger)(nil)
	_ onerun.HostClaimer     = (*Ledger)(nil)
	_ onerun.UnclaimedKeeper = (*Ledger)(nil)
	_ onerun.UnlockRecorder  = (*Ledger)(nil)
)

// Options are what a ledger may be told.
type Options struct {
	Name string            // what the store is called in words: etcd
	Hook func(step string) // called before each change; for tests that kill the process there

	// Worker says who works: what is recorded of this process beside a claim; nil: the claim's
	// label alone.
	Worker func(label string) onerun.Worker

	// Apart says that the space can't read several keys as they were at one moment. What isn't checked
	// by a commit is looked at once more then, before anybody is taken for dead by it.
	Apart bool
}

// New is the ledger on a space, which it closes. It asks nothing yet.
func New(space Space, o Options) *Ledger {
	l := &Ledger{space: space, hook: o.Hook, what: o.Name, who: o.Worker, apart: o.Apart, warm: map[string]map[string]Entry{}, free: map[string]Entry{}}
	if l.hook == nil {
		l.hook = func(string) {}
	}
	if l.who == nil {
		l.who = func(label string) onerun.Worker { return onerun.Worker{Label: label} }
	}
	return l
}

// begin looks at what is in the space, before the first call that asks it. A space that is empty
// gets a ledger.
//
// Errors: ErrConfig when a newer version of onerun has been there.
func (l *Ledger) begin(ctx context.Context) error {
	if l.begun.Load() {
		return nil
	}
	err := l.retry(ctx, "open the ledger", nil, func(t *tx) error {
		m, err := load[metaRecord](t, keyMeta)
		switch {
		case err != nil:
			return err
		case m == nil:
			t.put(keyMeta, metaRecord{Format: format})
			_, err = t.commit("begin the ledger")
			return err
		case m.Format > format:
			return &onerun.StoreError{
				Kind: onerun.ErrConfig, What: "open the ledger", Do: "use that version here too",
				Err: fmt.Errorf("it has format %d, of a newer onerun; this one knows %d", m.Format, format),
			}
		}
		return nil
	})
	if err == nil {
		l.begun.Store(true)
	}
	return err
}

// Close implements onerun.Store.
func (l *Ledger) Close() error { return l.space.Close() }

// recall gives what this client knows of an owner's lock and run.
func (l *Ledger) recall(owner string) map[string]Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.warm[owner]
}

// remember keeps some keys of what a commit left, for the owner's next call; nil forgets.
func (l *Ledger) remember(owner string, entries map[string]Entry, keys ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.warm, owner)
	if entries == nil {
		return
	}
	kept := map[string]Entry{}
	for _, k := range keys {
		e, ok := entries[k]
		if !ok {
			return
		}
		kept[k] = e
	}
	if len(l.warm) >= maxFree { // of owners that were lost, and never said so
		clear(l.warm)
	}
	l.warm[owner] = kept
}

// maxFree is how many locks a client remembers to have freed, and how many to hold.
const maxFree = 1000

// freed remembers a lock as this client's own commit left it.
func (l *Ledger) freed(key string, entries map[string]Entry) {
	e, ok := entries[key]
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) >= maxFree {
		clear(l.free)
	}
	if ok {
		l.free[key] = e
	}
}

// guess is what a claim will find, if nobody else was at the lock since this client freed it, and
// nobody was at the key ever: then it needn't be read. Where the guess is wrong the commit fails,
// and the claim is decided anew by what is there. The guess is made once.
func (l *Ledger) guess(c onerun.Claim) map[string]Entry {
	key := keyLock(c.Namespace, c.Lock)
	l.mu.Lock()
	e, ok := l.free[key]
	delete(l.free, key)
	l.mu.Unlock()
	if !ok {
		return nil
	}
	guess := map[string]Entry{key: e}
	absent := []string{keyLife(c.Namespace, c.Lock)}
	if c.Job != "" {
		absent = append(absent, keyJob(c.Namespace, c.Job), keyRun(c.RunID))
	}
	if c.Key() != "" {
		absent = append(absent, keyOf(c.Namespace, c.Job, c.Partition))
	}
	for _, k := range absent {
		guess[k] = Entry{Key: k}
	}
	return guess
}
