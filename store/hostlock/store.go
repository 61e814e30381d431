package hostlock

import (
	"path/filepath"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// Remote is what a store of many machines has to be.
type Remote interface {
	onerun.Store
	onerun.HostClaimer
}

// Store is a store of many machines behind this host's lock files.
type Store struct {
	Remote
	name string
	path string
	dir  *filelock.Dir
	hook func(step string)

	*filelock.Holdings // what this process holds
}

// Options say how the lock directory is used.
type Options struct {
	// Name tells the remote store from others, in the files of runs that wait for it (see
	// Unclaimed): whoever opens the same store gives the same name. It holds no secrets.
	Name    string
	Looking bool              // to look alone: nothing is made, and no lock can be taken
	Hook    func(step string) // for tests: called between any two steps but those of the lock files, with the one that comes next
}

// Open puts the lock directory dir before a store, which becomes the Store's to close. The
// last element of dir is made when it is missing.
//
// Errors: as of filelock.Open.
func Open(remote Remote, dir string, o Options) (*Store, error) {
	dir, err := filepath.Abs(dir) // a guard works in another directory
	if err != nil {
		return nil, &onerun.StoreError{Kind: onerun.ErrCreate, What: "lock directory", Path: dir, Err: err}
	}
	d, err := filelock.Open(dir, filelock.Options{Looking: o.Looking, Remote: true})
	if err != nil {
		return nil, err
	}
	if o.Hook == nil {
		o.Hook = func(string) {}
	}
	return &Store{Remote: remote, name: o.Name, path: dir, dir: d, hook: o.Hook, Holdings: filelock.NewHoldings(d, o.Hook)}, nil
}

// Close implements onerun.Store. Locks that this process holds stay held until it
// finishes them or ends.
func (s *Store) Close() error {
	err := s.dir.Close()
	if e := s.Remote.Close(); e != nil {
		err = e
	}
	return err
}

// Unwrap gives the store of many machines, for onerun.Ability.
func (s *Store) Unwrap() onerun.Store { return s.Remote }

// LockDir is the directory of the lock files.
func (s *Store) LockDir() string { return s.path }

// letGo clears the note of a holding that the store doesn't need any more, and frees it.
func (s *Store) letGo(h *filelock.Holding) {
	_ = h.Lock.Clear() // a note that stays is found, and known to be recorded
	if h.Kept || h.Inherited {
		h.Lock.Unspool()
	}
	s.Free(h)
}

// Leave frees the lock of a lease whose end could not be recorded, as the death of this
// process would: the note of the end stays, and the next claim delivers it. That of a run
// without a claim stands in the spool. A lock alone has none, so its note says that its work is
// over: the next claim here needs to wait for no lease.
func (s *Store) Leave(l onerun.Lease) {
	h := s.Holding(l.Owner)
	switch {
	case h == nil || h.Lease != l:
		return
	case h.Spool != nil && h.Noted:
		s.letGo(h)
		return
	case l.RunID == "":
		_ = h.Lock.SetOutcome(filelock.NewOutcome(onerun.Outcome{Status: onerun.Succeeded})) // else the lease runs out
	}
	s.Free(h)
}
