package sqlite

import (
	"context"
	"database/sql"
	_ "embed" // the schema
	"fmt"
	"path/filepath"

	"github.com/onerun-dev/onerun"
)

// applicationID marks a database as onerun's (PRAGMA application_id): "1run".
const applicationID = 0x3172756e

// schemas are the steps from one version to the next: schemas[0] makes version 1 of
// an empty database. A step is never changed once released.
var schemas = [...]string{schema1, schema2, schema3, schema4, schema5}

//go:embed sql/001_schema.sql
var schema1 string

//go:embed sql/002_operating.sql
var schema2 string

//go:embed sql/003_output.sql
var schema3 string

//go:embed sql/004_items.sql
var schema4 string

//go:embed sql/005_notes.sql
var schema5 string

// incrementalVacuum is the mode of a database that can give room back (PRAGMA auto_vacuum).
// Only an empty one can be put into it at no cost.
const incrementalVacuum = 2

// migrate brings the schema up to this program's version. Under concurrent first
// use one process does it, and the others wait for it.
func (d *db) migrate(ctx context.Context) error {
	version, err := d.version(ctx)
	if err != nil || version == len(schemas) {
		return err
	}
	// The journal mode is kept in the file. It can't be changed inside a transaction,
	// and changing it waits for nobody, so it may be busy.
	if err := d.patiently(ctx, func() error {
		_, err := d.conn.ExecContext(context.WithoutCancel(ctx), "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
		return err
	}); err != nil {
		return err
	}
	return d.transact(ctx, "migrate the store", "BEGIN IMMEDIATE", func(t *tx) error {
		version, err := t.checkVersion(d.path) // again: another process may have been first
		if err != nil {
			return err
		}
		for ; version < len(schemas); version++ {
			if err := t.exec(schemas[version]); err != nil {
				return fmt.Errorf("version %d: %w", version+1, err)
			}
		}
		// The two numbers are in the file's header, and change with the transaction.
		return t.exec(fmt.Sprintf("PRAGMA user_version = %d; PRAGMA application_id = %d", versionNumber(version), applicationID))
	})
}

// Migrate implements onerun.Migrator.
func (s *Store) Migrate(ctx context.Context) (from, to int, err error) {
	if err := touch(s.path, sharedDir(filepath.Dir(s.path))); err != nil {
		return 0, 0, err
	}
	before := &db{path: s.path}
	if before.sql, err = sql.Open("sqlite", dsn(s.path)); err == nil {
		before.conn, err = before.sql.Conn(ctx)
	}
	if err == nil {
		from, err = before.version(ctx)
	}
	if before.conn != nil {
		_ = before.conn.Close()
	}
	if before.sql != nil {
		_ = before.sql.Close()
	}
	if err == nil {
		_, err = s.open(ctx)
	}
	return from, len(schemas), before.explain("open the store", err)
}

// version reads the schema's version. That it is this program's is all that most
// starts have to know.
func (d *db) version(ctx context.Context) (version int, err error) {
	err = d.patiently(ctx, func() error {
		t := &tx{ctx: context.WithoutCancel(ctx), conn: d.conn}
		err := t.row("PRAGMA user_version").Scan(&version)
		if err == nil && version != versionNumber(len(schemas)) {
			version, err = t.checkVersion(d.path)
			return err
		}
		version = len(schemas)
		return err
	})
	return version, err
}

// versionNumber is what PRAGMA user_version holds: the version, raised so that a
// database of somebody else's is not taken for one of onerun's.
func versionNumber(version int) int { return applicationID&0xffff0000 + version }

// checkVersion reads the schema's version and refuses what this program would
// damage: a newer schema, or a database that is somebody else's.
func (t *tx) checkVersion(path string) (int, error) {
	// In one statement, so that all is read at one moment: another process may be just making the schema.
	var version, app, objects int
	if err := t.row("SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version, pragma_application_id").Scan(&version, &app, &objects); err != nil {
		return 0, err
	}
	if app == applicationID {
		known := version - versionNumber(0)
		if known < 1 || known > len(schemas) {
			return 0, &onerun.StoreError{
				Kind: onerun.ErrConfig, What: "open the store", Path: path,
				Err: fmt.Errorf("its schema is not one of this program's (PRAGMA user_version is %d, known are %d to %d)", version, versionNumber(1), versionNumber(len(schemas))),
				Do:  "use the newer onerun that wrote it",
			}
		}
		return known, nil
	}
	if app != 0 || version != 0 || objects != 0 {
		return 0, &onerun.StoreError{
			Kind: onerun.ErrConfig, What: "open the store", Path: path,
			Err: fmt.Errorf("it is a database, but not one of onerun's"),
			Do:  "name another file with --store sqlite:PATH",
		}
	}
	return 0, nil
}
