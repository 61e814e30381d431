package sqlite

import "github.com/onerun-dev/onerun"

// Leave frees the lock of a lease whose end could not be recorded, as the death of this
// process would: the note of the end stays, and the next claim records it.
func (s *Store) Leave(l onerun.Lease) {
	if h := s.Holding(l.Owner); h != nil && h.Lease == l {
		s.Free(h)
	}
}
