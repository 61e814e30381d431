package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// steps are the files that lead from one version to the next: the first makes version 1 of
// an empty database. A step is never changed once released. Neither server can undo a change of
// the schema, so every statement of a step is one that may be executed again, and the version
// is written last.
var steps = [...]string{"sql/001_schema.sql", "sql/002_notes.sql"}

//go:embed sql/0*.sql
var files embed.FS

// errOlder: the schema is of an older version, or not there.
var errOlder = errors.New("the schema is of an older version")

// rightVersion refuses a schema that is not this program's.
func (s *Store) rightVersion(version int64) error {
	switch {
	case version > int64(len(steps)):
		return s.newer(version)
	case version < int64(len(steps)):
		return errOlder
	}
	return nil
}

func (s *Store) newer(version int64) error {
	return s.refuse(fmt.Errorf("its schema is of version %d, and this program knows those up to %d", version, len(steps)), "use the newer onerun that wrote it")
}

func (s *Store) refuse(why error, do string) error {
	return &onerun.StoreError{Kind: onerun.ErrConfig, What: "open the store", Path: s.String(), Err: why, Do: do}
}

// sure is for how long a schema is taken for what it was: a program that is at work for weeks
// hears so that a newer one has migrated.
const sure = 2 * time.Second

// ready sees to it that the schema is there and is this program's.
func (s *Store) ready(ctx context.Context) error {
	if at := s.seen.Load(); at != 0 && time.Since(time.Unix(0, at)) < sure {
		return nil
	}
	_, _, err := s.migrate(ctx)
	if err == nil {
		s.seen.Store(time.Now().UnixNano())
	}
	return err
}

// Migrate implements onerun.Migrator.
func (s *Store) Migrate(ctx context.Context) (from, to int, err error) {
	from, to, err = s.migrate(ctx)
	return from, to, s.explain("migrate the store", err)
}

// migrate brings the schema up to this program's version. Under concurrent first use one process
// does it, and the others wait for it.
func (s *Store) migrate(ctx context.Context) (from, to int, err error) {
	err = s.connected(ctx, func(conn *sql.Conn) error {
		t := &tx{ctx: ctx, conn: conn}
		if from, err = t.version(); err != nil {
			return &unbegun{err}
		}
		if from == len(steps) {
			return nil
		}
		if from > len(steps) {
			return s.newer(int64(from))
		}
		return s.bringUp(t, &from)
	})
	return from, len(steps), err
}

// version reads the version of the schema; 0: there is none.
func (t *tx) version() (version int, err error) {
	err = t.row("SELECT version FROM onerun_schema").Scan(&version)
	if code(err) == errNoTable || noRows(err) {
		return 0, nil
	}
	return version, err
}

// lockName is the name of the lock that whoever migrates holds. It is the whole server's, so the
// database is in it; a name has 64 characters at most, so that is as a hash.
func (s *Store) lockName() string {
	sum := sha256.Sum256([]byte(s.database))
	return "onerun:migrate:" + hex.EncodeToString(sum[:16])
}

func (s *Store) bringUp(t *tx, from *int) error {
	if err := s.oldEnough(t); err != nil {
		return err
	}
	var got *int
	if err := t.row("SELECT GET_LOCK(?, 60)", s.lockName()).Scan(&got); err != nil {
		return &unbegun{err}
	}
	if got == nil || *got != 1 {
		return &onerun.StoreError{
			Kind: onerun.ErrUnavailable, What: "migrate the store", Path: s.String(),
			Err: errors.New("somebody else is at it for longer than a minute"), Do: "look at SHOW PROCESSLIST on the server",
		}
	}
	defer func() { // it goes with the connection else
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 2*time.Second)
		defer cancel()
		_ = (&tx{ctx: ctx, conn: t.conn}).exec("DO RELEASE_LOCK(?)", s.lockName())
	}()
	version, err := t.version() // as it is now
	if err != nil {
		return err
	}
	if *from = version; version > len(steps) {
		return s.newer(int64(version))
	}
	for v := version; v < len(steps); v++ {
		text, err := files.ReadFile(steps[v])
		if err == nil {
			err = t.exec(withoutComments(string(text)))
		}
		if err == nil {
			err = t.exec("INSERT INTO onerun_schema (id, version) VALUES (1, ?) ON DUPLICATE KEY UPDATE version = VALUES(version)", v+1)
		}
		if err != nil {
			return fmt.Errorf("version %d: %w", v+1, err)
		}
	}
	return nil
}

// withoutComments is a script without its comments.
func withoutComments(script string) string {
	return regexp.MustCompile(`(?m)\s*-- .*$|^--$`).ReplaceAllString(script, "")
}

// The oldest servers that are known to do.
const (
	oldestMySQL   = "8.0"
	oldestMariaDB = "10.6"
)

// oldEnough refuses a server that is too old, or has no InnoDB that could keep a ledger.
func (s *Store) oldEnough(t *tx) error {
	var version string
	if err := t.row("SELECT VERSION()").Scan(&version); err != nil {
		return &unbegun{err}
	}
	if oldest, ok := recent(version); !ok {
		return s.refuse(fmt.Errorf("the server is version %s, and %s is the oldest that does", version, oldest), "use a newer one")
	}
	return nil
}

// recent reports whether a server's version is one that does, and which is the oldest of its kind.
func recent(version string) (oldest string, ok bool) {
	oldest = oldestMySQL
	if strings.Contains(strings.ToLower(version), "mariadb") {
		oldest = oldestMariaDB
		version = strings.TrimPrefix(version, "5.5.5-") // what MariaDB says first for old clients
	}
	numbers := func(v string) (n [2]int) {
		parts := strings.SplitN(v, ".", 3)
		for i := range min(len(parts), 2) {
			n[i], _ = strconv.Atoi(parts[i]) // what is no number is none
		}
		return n
	}
	v, o := numbers(version), numbers(oldest)
	return oldest, v[0] > o[0] || v[0] == o[0] && v[1] >= o[1]
}
