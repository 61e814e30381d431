package sqlite

import (
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
)

// Forget lets go of what an owner holds, as a claim does that ends in an error: the lock
// is free, its note stays.
func (s *Store) Forget(owner string) bool {
	h := s.Holding(owner)
	if h == nil {
		return false
	}
	s.Free(h)
	return true
}

// WithFSType makes everything look as if it were on another file system.
func WithFSType(magic int64) Option {
	return func(o *options) { o.fsType = func(string) int64 { return magic } }
}

// WithFSTypeOf makes one directory look so, and all others local.
func WithFSTypeOf(dir string, magic int64) Option {
	const ext4 = 0xEF53
	return func(o *options) {
		o.fsType = func(path string) int64 {
			if path == dir {
				return magic
			}
			return ext4
		}
	}
}

// LockPath is the lock file of a lock.
func (s *Store) LockPath(lock onerun.LockName) string {
	return s.lockPath(onerun.DefaultNamespace, lock)
}

// Schema1 makes version 1 of the schema in an empty database, as the program of that
// version did.
func Schema1() string {
	return schema1 + fmt.Sprintf("; PRAGMA user_version = %d; PRAGMA application_id = %d", versionNumber(1), applicationID)
}

// ThisVersion is what PRAGMA user_version says of this program's schema.
func ThisVersion() int { return versionNumber(len(schemas)) }

// WithExamineTime bounds each of the long looks of an examination.
func WithExamineTime(d time.Duration) Option { return func(o *options) { o.examineFor = d } }
