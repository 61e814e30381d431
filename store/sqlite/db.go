package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	sqlite "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// checkpointPages is after how many pages the journal is folded into the database.
// It is small because every start reads the journal anew (nobody else having the
// database open), and not tiny because folding costs two syncs.
const checkpointPages = 128

// dsn names the database for the driver. SQLite's own wait for a lock is short: the
// long wait is ours (see db.begin), since it must end with the caller's context. The file
// is never made by SQLite (mode=rw): touch has made it.
func dsn(path string) string {
	v := url.Values{"mode": {"rw"}, "_pragma": {
		"busy_timeout(50)",
		fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages),
	}}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String() + "?" + v.Encode()
}

// db is the database, on one connection.
type db struct {
	path string
	sql  *sql.DB
	conn *sql.Conn
	turn chan struct{} // one transaction at a time on the one connection

	statements map[string]*sql.Stmt // compiled ahead, see ready

	closed bool
	still  *standing                 // nil: SQLite itself sees what others write
	files  [len(fileSuffixes)]fileID // as this connection has them open
}

// openDB opens the database, or makes it, with the schema of this program.
func openDB(ctx context.Context, path string, shared bool) (*db, error) {
	if err := touch(path, shared); err != nil {
		return nil, err
	}
	return connect(ctx, path)
}

// connect opens the database that touch has looked at.
func connect(ctx context.Context, path string) (*db, error) {
	d := &db{path: path, turn: make(chan struct{}, 1), statements: map[string]*sql.Stmt{}}
	var err error
	if d.sql, err = sql.Open("sqlite", dsn(path)); err == nil {
		err = d.patiently(ctx, func() (err error) {
			d.conn, err = d.sql.Conn(context.WithoutCancel(ctx))
			return err
		})
	}
	if err == nil {
		err = d.checkPlace(ctx)
	}
	if err == nil {
		err = d.migrate(ctx)
	}
	if err != nil {
		err = d.explain("open the store", err)
		_ = d.close()
		return nil, err
	}
	return d, nil
}

// checkPlace refuses a database that SQLite found by way of a symbolic link: between touch
// and its opening somebody may have put one there, who shares the directory. SQLite follows
// links when it works out the name, and none after that (O_NOFOLLOW), so the name tells.
func (d *db) checkPlace(ctx context.Context) error {
	dir, err := filepath.EvalSymlinks(filepath.Dir(d.path))
	if err != nil {
		return cantOpen(d.path, err)
	}
	var name string
	err = d.patiently(ctx, func() error {
		t := &tx{ctx: context.WithoutCancel(ctx), conn: d.conn}
		return t.row("SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&name)
	})
	if err == nil && name != filepath.Join(dir, filepath.Base(d.path)) {
		return &onerun.StoreError{Kind: onerun.ErrCreate, What: "open the store", Path: d.path, Err: errors.New("a symbolic link was put in its place"), Do: "look who can write in " + filepath.Dir(d.path)}
	}
	return err
}

func (d *db) close() error {
	d.turn <- struct{}{} // not under a transaction
	defer func() { <-d.turn }()
	d.closed = true
	for _, s := range d.statements {
		_ = s.Close()
	}
	if d.conn != nil {
		_ = d.conn.Close()
	}
	if d.sql != nil {
		return d.sql.Close()
	}
	return nil
}

// touch makes the file if it isn't there, private to the account, or to the group
// in a shared directory. SQLite gives its journal the same mode.
func touch(path string, shared bool) error {
	var err error
	if shared {
		err = place(path)
	} else {
		err = makeFile(path, 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		err = regular(path)
	}
	if err == nil && shared {
		err = readyJournal(path)
	}
	if err != nil {
		return cantOpen(path, err)
	}
	return nil
}

// regular refuses what is no file of its own. A symbolic link would give one database
// two lock directories, and lead out of a directory that accounts share.
func regular(path string) error {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // deleted in this moment; SQLite makes it
		return nil
	case err != nil:
		return cantOpen(path, err)
	case st.Mode()&fs.ModeSymlink != 0:
		return &onerun.StoreError{Kind: onerun.ErrCreate, What: "open the store", Path: path, Err: errors.New("it is a symbolic link"), Do: "name the file itself"}
	case !st.Mode().IsRegular():
		return &onerun.StoreError{Kind: onerun.ErrCreate, What: "open the store", Path: path, Err: errors.New("it is not a regular file"), Do: "name another --store"}
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Nlink > 1 {
		return &onerun.StoreError{Kind: onerun.ErrCreate, What: "open the store", Path: path, Err: errors.New("it has a second name (hard link), which would be a second journal and a second set of locks"), Do: "remove the other name"}
	}
	return nil
}

// cantOpen says why a database file can't be opened or made, in the kind that the
// cause belongs to.
func cantOpen(path string, err error) error {
	var known *onerun.StoreError
	if errors.As(err, &known) {
		return err
	}
	e := &onerun.StoreError{Kind: onerun.ErrIO, What: "open the store", Path: path, Err: cause(err)}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Do = onerun.ErrCreate, "make the directory "+filepath.Dir(path)+" first, or name another --store"
	case errors.Is(err, unix.EROFS):
		e.Kind, e.Do = onerun.ErrCreate, "name a --store on a file system that can be written"
	case errors.Is(err, fs.ErrPermission):
		e.Kind, e.Do = onerun.ErrPermission, "run as the account that owns it, name another --store, or share this one: onerun init --shared --group G"
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		e.Kind, e.Do = onerun.ErrCreate, "name another --store"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		e.Do = "free some space"
	case errors.Is(err, unix.EFBIG):
		e.Do = filelock.SizeLimitRemedy()
	}
	return e
}

// cause drops the operation and the path from a file error: both are said already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// code gives the primary result code of SQLite, and whether err is one.
func code(err error) (int, bool) {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0, false
	}
	return e.Code() & 0xff, true
}

func busy(err error) bool {
	c, ok := code(err)
	return ok && (c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED || c == lib.SQLITE_PROTOCOL)
}

// explain turns an error of SQLite into one of the contract's kinds, in words.
func (d *db) explain(what string, err error) error {
	var known *onerun.StoreError
	c, sqlite := code(err)
	over := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if err == nil || errors.As(err, &known) || !sqlite && !over {
		return err // nothing to add, or an answer of ours
	}
	e := &onerun.StoreError{Kind: onerun.ErrIO, What: what, Path: d.path, Err: err}
	if over {
		e.Kind = onerun.ErrUnavailable
		return e
	}
	switch c {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		e.Kind, e.Do = onerun.ErrUnavailable, "another program holds the database; try again when it is done"
	case lib.SQLITE_FULL:
		e.Do = "free some space on its file system"
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		e.Do = "restore it from a backup, or move it aside to start with an empty history"
	case lib.SQLITE_READONLY, lib.SQLITE_CANTOPEN, lib.SQLITE_PERM:
		return d.whyNoAccess(e)
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_ERROR, lib.SQLITE_MISUSE, lib.SQLITE_INTERNAL, lib.SQLITE_NOMEM:
		e.Kind, e.Do = onerun.ErrInternal, "please report this"
	case lib.SQLITE_IOERR:
		switch {
		case d.limited():
			e.Err, e.Do = unix.EFBIG, filelock.SizeLimitRemedy()
		case full(filepath.Dir(d.path)):
			e.Do = "free some space on its file system"
		}
	}
	return e
}

// whyNoAccess asks the kernel what SQLite can't tell: whether a database that can't
// be written is forbidden, or on a file system that is read-only, or missing.
func (d *db) whyNoAccess(e *onerun.StoreError) error {
	for _, p := range []string{filepath.Dir(d.path), d.path, d.path + "-wal", d.path + "-shm"} {
		err := unix.Access(p, unix.R_OK|unix.W_OK)
		if errors.Is(err, unix.ENOENT) && p != filepath.Dir(d.path) {
			continue
		}
		if err != nil {
			return cantOpen(p, err)
		}
	}
	if full(filepath.Dir(d.path)) {
		e.Do = "free some space on its file system"
	}
	return e
}

// limited reports whether one of the files can hardly grow by the limit on file sizes, which
// SQLite doesn't tell from a failing disk.
func (d *db) limited() bool {
	const next = 1 << 20 // a transaction's, and a step of the index
	limit, limited := filelock.SizeLimit()
	if !limited {
		return false
	}
	for _, suffix := range fileSuffixes {
		var st unix.Stat_t
		if unix.Lstat(d.path+suffix, &st) == nil && uint64(st.Size)+next > limit {
			return true
		}
	}
	return false
}

func full(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Bavail*uint64(st.Bsize) < 64<<10
}

// patiently repeats f while the database is busy, until ctx ends.
func (d *db) patiently(ctx context.Context, f func() error) error {
	pause := time.Millisecond
	for {
		err := f()
		if !busy(err) {
			return err
		}
		t := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return err
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

const beginLightly = "PRAGMA synchronous = NORMAL; BEGIN IMMEDIATE"

// tx is one transaction. Statements don't take the caller's context: only the wait
// for the database's lock may be cut short, not the work under it.
type tx struct {
	ctx        context.Context
	conn       *sql.Conn
	statements map[string]*sql.Stmt
	now        time.Time
	lazy       bool // it doesn't wait for the disk
}

// write runs f in a write transaction, which holds the database's one write lock
// from the start: what f reads stays true until it is written.
func (d *db) write(ctx context.Context, what string, f func(t *tx) error) error {
	return d.transact(ctx, what, "BEGIN IMMEDIATE", f)
}

// lightly is write for what does no harm when it is lost in a power failure, such as
// one more on a counter of skips: it doesn't wait for the disk. What would do harm (the
// end of a run) is errLazy in it.
func (d *db) lightly(ctx context.Context, what string, f func(t *tx) error) error {
	return d.transact(ctx, what, beginLightly, f)
}

// read runs f on one snapshot.
func (d *db) read(ctx context.Context, what string, f func(t *tx) error) error {
	return d.patiently(ctx, func() error { return d.transact(ctx, what, "BEGIN", f) })
}

func (d *db) transact(ctx context.Context, what, begin string, f func(t *tx) error) error {
	if err := ctx.Err(); err != nil { // whatever the select below would choose
		return d.explain(what, err)
	}
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return d.explain(what, ctx.Err())
	}
	if d.closed {
		return errMoved
	}
	t := &tx{ctx: context.WithoutCancel(ctx), conn: d.conn, statements: d.statements}
	if t.lazy = begin == beginLightly; t.lazy {
		defer func() { _ = t.exec("PRAGMA synchronous = FULL") }()
	}
	err := d.patiently(ctx, func() error { return t.exec(begin) })
	if err != nil {
		return d.explain(what, err)
	}
	t.now = time.Now()
	if err = errMoved; !d.moved() {
		err = f(t)
		if d.still != nil && stands(d.path) != *d.still { // what was read may be of two moments
			err = errMoved
		}
	}
	if err == nil {
		err = t.exec("COMMIT")
	}
	if err != nil {
		_ = t.exec("ROLLBACK") // an error here means that SQLite rolled back by itself
		return d.explain(what, err)
	}
	return nil
}

// ready compiles statements ahead of their use. It does so in its own turn, and doesn't
// matter when it fails: a statement that isn't ready is compiled when it is used.
func (d *db) ready(ctx context.Context, queries ...string) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return
	}
	for _, q := range queries {
		if d.closed || d.statements[q] != nil {
			continue
		}
		s, err := d.conn.PrepareContext(context.WithoutCancel(ctx), q)
		if err != nil {
			return
		}
		d.statements[q] = s
	}
}

// keep compiles a statement that this transaction executes often.
func (t *tx) keep(query string) error {
	if t.statements[query] != nil {
		return nil
	}
	s, err := t.conn.PrepareContext(t.ctx, query)
	if err == nil {
		t.statements[query] = s
	}
	return err
}

func (t *tx) exec(query string, args ...any) error {
	if s := t.statements[query]; s != nil {
		_, err := s.ExecContext(t.ctx, args...)
		return err
	}
	_, err := t.conn.ExecContext(t.ctx, query, args...)
	return err
}

// changed executes a statement and says how many rows it changed.
func (t *tx) changed(query string, args ...any) (int64, error) {
	exec := func() (sql.Result, error) { return t.conn.ExecContext(t.ctx, query, args...) }
	if s := t.statements[query]; s != nil {
		exec = func() (sql.Result, error) { return s.ExecContext(t.ctx, args...) }
	}
	res, err := exec()
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (t *tx) row(query string, args ...any) *sql.Row {
	if s := t.statements[query]; s != nil {
		return s.QueryRowContext(t.ctx, args...)
	}
	return t.conn.QueryRowContext(t.ctx, query, args...)
}

// each calls f for every row.
func (t *tx) each(f func(scan func(...any) error) error, query string, args ...any) (err error) {
	rows, err := t.conn.QueryContext(t.ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
