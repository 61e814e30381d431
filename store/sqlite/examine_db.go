package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// lookDB opens a database that is there, whatever it holds, for one who changes nothing.
// It is opened as every reader opens it, for writing too if that is allowed: else SQLite
// would leave its journal's files behind.
func lookDB(ctx context.Context, path string) (*db, error) {
	if _, err := os.Lstat(path); err != nil {
		return nil, cantOpen(path, err)
	}
	if err := regular(path); err != nil {
		return nil, err
	}
	if readOnly(path) {
		how, still := stillness(path)
		return lookBy(ctx, path, how, still)
	}
	return lookBy(ctx, path, "", nil)
}

func lookBy(ctx context.Context, path, how string, still *standing) (*db, error) {
	d := &db{path: path, turn: make(chan struct{}, 1), statements: map[string]*sql.Stmt{}, still: still}
	var err error
	if d.sql, err = sql.Open("sqlite", dsn(path)+"&_pragma=query_only(1)"+how); err == nil {
		err = d.patiently(ctx, func() (err error) {
			d.conn, err = d.sql.Conn(context.WithoutCancel(ctx))
			return err
		})
	}
	if err == nil { // the first look opens the journal too, which is to be known before moved asks
		err = d.patiently(ctx, func() error {
			var version int
			return d.conn.QueryRowContext(context.WithoutCancel(ctx), "PRAGMA user_version").Scan(&version)
		})
	}
	if err != nil {
		err = d.explain("open the store", err)
		_ = d.close()
		return nil, err
	}
	return d, nil
}

// readOnly reports whether nothing can be made beside the database, here.
func readOnly(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(filepath.Dir(path), &st) == nil && st.Flags&unix.ST_RDONLY != 0
}

// stillness says how SQLite is to read a database beside which it can make nothing, while it
// would make both files of its journal; and what the files are, where it has to be told that
// nobody writes. Then transact looks whether they stayed so: the file system may be read-only in
// one place and not in another.
//
// Without a journal all is in the database, which is immutable then. With a journal alone, as a
// copy or a crash leaves it, the index that others would share is made in memory: unix-none and
// the exclusive mode are what asks for no lock that a file open for reading can't have. With
// both files SQLite reads by itself, beside whoever writes.
func stillness(path string) (how string, still *standing) {
	_, journal := os.Stat(path + "-wal")
	_, index := os.Stat(path + "-shm")
	switch {
	case journal != nil:
		how = "&immutable=1"
	case index != nil:
		how = "&vfs=unix-none&_pragma=locking_mode(EXCLUSIVE)"
	default:
		return "", nil
	}
	now := stands(path)
	return how, &now
}

// standing is what changes when a database's files do.
type standing [len(fileSuffixes)]struct {
	id       fileID
	size     int64
	modified unix.Timespec
	changed  unix.Timespec
}

func stands(path string) (s standing) {
	for i, suffix := range fileSuffixes {
		var st unix.Stat_t
		if unix.Lstat(path+suffix, &st) == nil {
			s[i].id, s[i].size, s[i].modified, s[i].changed = fileID{st.Dev, st.Ino}, st.Size, st.Mtim, st.Ctim
		}
	}
	return s
}

// lookKnown is lookDB of a database with this program's schema.
func lookKnown(ctx context.Context, path string) (*db, error) {
	d, err := lookDB(ctx, path)
	if err != nil {
		return nil, err
	}
	version, err := d.version(ctx)
	if err == nil && version != len(schemas) {
		err = &onerun.StoreError{
			Kind: onerun.ErrConfig, What: "look at the store", Path: path,
			Err: fmt.Errorf("its schema is version %d, and this program's is %d", version, len(schemas)), Do: startOnce,
		}
	}
	if err != nil {
		err = d.explain("look at the store", err)
		_ = d.close()
		return nil, err
	}
	return d, nil
}

const startOnce = "start any job with this program: that brings it up"

// JobNames lists the jobs that have runs, in the order of their names.
func (s *Store) JobNames(ctx context.Context, namespace string) (names []string, err error) {
	err = s.read(ctx, "list the jobs", func(t *tx) (err error) {
		names, err = t.JobNames(namespace)
		return err
	})
	return names, err
}
