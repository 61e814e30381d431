package sqlite

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fileSuffixes tell the files of one database: itself, its journal, and the memory that
// all connections share.
var fileSuffixes = [...]string{"", "-wal", "-shm"}

// fileID is an inode. It isn't used again as long as the connection has it open.
type fileID struct{ dev, ino uint64 }

// errMoved: the database is not the one any more that stands under its name.
var errMoved = errors.New("a file of the database was deleted or replaced")

// moved reports whether a file of the database was deleted or replaced under this
// connection. SQLite would go on writing to files that nobody else will ever see, and
// call it a success. It is asked within a transaction, when all three are open.
func (d *db) moved() bool {
	var now [len(fileSuffixes)]fileID
	for i, suffix := range fileSuffixes {
		var st unix.Stat_t
		if unix.Lstat(d.path+suffix, &st) == nil {
			now[i] = fileID{st.Dev, st.Ino}
		}
	}
	if d.files == ([len(fileSuffixes)]fileID{}) {
		d.files = now
	}
	return now != d.files || now[0] == fileID{}
}
