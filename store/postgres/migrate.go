package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
)

// steps are the files that lead from one version to the next: the first makes version 1 of
// an empty schema. A step is never changed once released.
var steps = [...]string{"sql/001_schema.sql", "sql/002_waiting.sql", "sql/003_indexes.sql", "sql/004_claims.sql", "sql/005_notes.sql", "sql/006_functions.sql"}

// functions are made anew by every version. Those that the owner of a run calls keep their
// names and parameters: a program of an older version that is at work while a newer one
// migrates can keep its lease, and record its job's end.
//
//go:embed sql/0*.sql sql/functions/*.sql sql/owners.sql
var files embed.FS

//go:embed sql/find_schema.sql
var sqlFindSchema string

// oldest is the oldest server that is known to do, as server_version_num has it.
const oldest = 130000

// place is what can be known of a database before its store is used.
type place struct {
	found, free string
	missing     bool
	path        string
}

// ready sees to it that the schema is there and is this program's.
func (s *Store) ready(ctx context.Context) error {
	if s.searchPath() != "" {
		return nil
	}
	_, err := s.migrate(ctx)
	return s.explain("open the store", err)
}

// searchPath is the one in which this store's transactions look for names; "": it isn't
// known yet. What is temporary comes last, so that nothing can be put before the tables.
func (s *Store) searchPath() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.schema == "" {
		return ""
	}
	return quoted(s.schema) + ", pg_temp"
}

// Migrate implements onerun.Migrator.
func (s *Store) Migrate(ctx context.Context) (from, to int, err error) {
	from, err = s.migrate(ctx)
	return from, len(steps), s.explain("migrate the store", err)
}

// migrate finds the schema, and brings it up to this program's version. Under concurrent
// first use one process does it, and the others wait for it.
func (s *Store) migrate(ctx context.Context) (from int, err error) {
	var p place
	err = s.patiently(ctx, func() error {
		return s.connected(ctx, func(conn *pgx.Conn) error {
			if p, err = s.look(ctx, conn); code(err) == codeNoSchema {
				return errAgain // it is made at this moment, and this session knows half of it
			}
			if err != nil {
				return &unbegun{err}
			}
			if p.found != "" {
				if from, err = s.versionIn(ctx, conn, p.found); err != nil || from == len(steps) {
					return err
				}
			}
			from, p.found, err = s.bringUp(ctx, conn)
			return err
		})
	})
	if err == nil {
		s.mu.Lock()
		s.schema = p.found
		s.mu.Unlock()
	}
	return from, err
}

func (s *Store) look(ctx context.Context, conn *pgx.Conn) (place, error) {
	var p place
	var found, free *string
	var encoding string
	var server int
	err := conn.QueryRow(ctx, sqlFindSchema, s.named).Scan(&found, &free, &p.missing, &p.path, &encoding, &server)
	if err != nil {
		return p, err
	}
	p.found, p.free = or(found), or(free)
	switch {
	case server < oldest:
		return p, s.refuse(fmt.Errorf("the server is version %d, and 13 is the oldest that does", server/10000), "use a newer one")
	case encoding != "UTF8":
		return p, s.refuse(fmt.Errorf("the database is encoded in %s, which can't hold every name", encoding), "create one with ENCODING 'UTF8'")
	}
	return p, nil
}

func (s *Store) refuse(why error, do string) error {
	return &onerun.StoreError{Kind: onerun.ErrConfig, What: "open the store", Path: s.place, Err: why, Do: do}
}

// versionIn reads the version of a schema, and refuses a newer one.
func (s *Store) versionIn(ctx context.Context, conn *pgx.Conn, schema string) (version int, err error) {
	err = conn.QueryRow(ctx, "SELECT version FROM "+quoted(schema)+".onerun_schema").Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, s.refuse(fmt.Errorf("schema %s has a table onerun_schema that is not onerun's", quoted(schema)), "name another schema: ?schema=NAME")
	}
	if err == nil && version > len(steps) {
		err = s.newer(version)
	}
	return version, err
}

func (s *Store) newer(version int) error {
	return s.refuse(fmt.Errorf("its schema is of version %d, and this program knows those up to %d", version, len(steps)), "use the newer onerun that wrote it")
}

// bringUp migrates in one transaction, which one process at a time is in.
func (s *Store) bringUp(ctx context.Context, conn *pgx.Conn) (from int, schema string, err error) {
	defer rollback(ctx, conn)
	if _, err := conn.Exec(ctx, beginWrite); err != nil {
		return 0, "", err
	}
	// Waiting is a statement of its own, so that what follows sees what was done meanwhile.
	if _, err := conn.Exec(ctx, "SELECT set_config('lock_timeout', '60s', true), pg_advisory_xact_lock(x'6f6e6572756e0001'::bigint)"); err != nil {
		return 0, "", err
	}
	p, err := s.look(ctx, conn)
	if err != nil {
		return 0, "", err
	}
	if schema, err = s.room(ctx, conn, p); err != nil {
		return 0, "", err
	}
	if p.found != "" {
		if from, err = s.versionIn(ctx, conn, schema); err != nil {
			return 0, "", err
		}
	}
	if _, err := conn.Exec(ctx, "SELECT set_config('search_path', $1, true)", quoted(schema)+", pg_temp"); err != nil {
		return 0, "", err
	}
	if from < len(steps) {
		script, err := script(from)
		if err != nil {
			return 0, "", err
		}
		if _, err := conn.PgConn().Exec(ctx, script).ReadAll(); err != nil {
			return 0, "", fmt.Errorf("version %d: %w", len(steps), err)
		}
	}
	_, err = conn.Exec(ctx, "COMMIT")
	return from, schema, err
}

// room is the schema to migrate; it is made if the URL names it.
func (s *Store) room(ctx context.Context, conn *pgx.Conn, p place) (string, error) {
	switch {
	case p.found != "":
		return p.found, nil
	case p.missing:
		_, err := conn.Exec(ctx, "CREATE SCHEMA "+quoted(s.named))
		return s.named, err
	case p.free != "":
		return p.free, nil
	}
	role := conn.Config().User
	return "", &onerun.StoreError{
		Kind: onerun.ErrPermission, What: "open the store", Path: s.place,
		Err: fmt.Errorf("there is no store yet, and role %q may create none in the schemas of its search path (%s)", role, p.path),
		Do:  fmt.Sprintf("as an administrator: CREATE SCHEMA onerun AUTHORIZATION %s; then ?schema=onerun in the store's URL", quoted(role)),
	}
}

// script is all that leads from one version to this program's.
func script(from int) (string, error) {
	var b strings.Builder
	for _, name := range steps[from:] {
		text, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		b.Write(text)
	}
	fmt.Fprintf(&b, `
		CREATE OR REPLACE FUNCTION onerun_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT %[1]d';
		DELETE FROM onerun_schema;
		INSERT INTO onerun_schema (version) VALUES (%[1]d);
	`, len(steps))
	names, err := files.ReadDir("sql/functions")
	if err != nil {
		return "", err
	}
	for _, n := range names {
		text, err := files.ReadFile("sql/functions/" + n.Name())
		if err != nil {
			return "", err
		}
		b.Write(text)
	}
	owners, err := files.ReadFile("sql/owners.sql")
	if err != nil {
		return "", err
	}
	b.Write(owners)
	return b.String(), nil
}
