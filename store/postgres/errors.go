package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// SQLSTATE codes, as the PostgreSQL manual's appendix A has them.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeUnique        = "23505"
	codeNoFunction    = "42883"
	codeNoTable       = "42P01"
	codeNoSchema      = "3F000"
	codePermission    = "42501"
	codeCanceled      = "57014"
	codeAborted       = "25P02"
)

// code is the server's code for an error; "": it is not the server's.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// collided reports whether the server gave a transaction up because it met another one,
// so that it may be begun anew.
func collided(err error) bool {
	c := code(err)
	return c == codeSerialization || c == codeDeadlock
}

// disconnected reports whether an error is of the connection and not an answer. Nothing
// can be said then about what the server did.
func disconnected(err error) bool {
	if err == nil || errors.Is(err, pgx.ErrNoRows) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return false // a new connection failed: there is none to replace
	}
	switch c := code(err); {
	case c == "":
		return !sqlledger.IsOurs(err)
	case strings.HasPrefix(c, "08"), c == "57P01", c == "57P02", c == "57P03", c == "57P05", c == "25P03":
		return true
	}
	return false
}

// explain gives an error of the driver or the server its kind, and words for people.
func (s *Store) explain(what string, err error) error {
	if err == nil || sqlledger.IsOurs(err) {
		return err
	}
	if s.closed.Load() {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: what, Path: s.place, Err: onerun.ErrClosed, Do: "close it when the jobs on it have ended"}
	}
	kind, do := kindOf(err)
	text := sqlledger.Masked(words(err), s.password)
	if errors.Is(err, context.DeadlineExceeded) {
		text = "it didn't answer in time"
	}
	return &onerun.StoreError{Kind: kind, What: what, Path: s.place, Err: &sqlledger.Cause{Words: text, Err: err}, Do: do}
}

// kindOf is the kind of an error, and what to do about it.
//
//nolint:staticcheck // the kind is an error, and not one of this function's
func kindOf(err error) (kind error, do string) {
	if do, kind := untrusted(err); kind != nil {
		return kind, do
	}
	c := code(err)
	switch {
	case strings.HasPrefix(c, "28"):
		return onerun.ErrPermission, "check the user and its password (in the password file, or the URL), and pg_hba.conf on the server"
	case c == codePermission:
		return onerun.ErrPermission, "grant the role what docs/stores/postgres.md lists"
	case c == "3D000":
		return onerun.ErrConfig, "create the database, or name another one in the store's URL"
	case c == "42704", c == "22023": // a start-up parameter that the server doesn't know, or a value of one
		return onerun.ErrConfig, "look at the parameters in the store's URL"
	case c == "42939":
		return onerun.ErrConfig, "PostgreSQL keeps such names for itself: name another schema"
	case c == codeNoSchema, c == codeNoTable, c == codeNoFunction:
		return onerun.ErrConfig, "is it the right schema? onerun migrate brings one up"
	case c == "25006", c == "0A000" && strings.Contains(err.Error(), "recovery"):
		return onerun.ErrUnavailable, "this server is a standby: name the primary, or all hosts with target_session_attrs=read-write"
	case c == "53100", strings.HasPrefix(c, "58"):
		return onerun.ErrIO, "make room on the server's disk, and look at its log"
	case strings.HasPrefix(c, "XX"):
		return onerun.ErrIO, "look at the server's log"
	case c == "08P01" && strings.Contains(err.Error(), "statement pooling"): // pgbouncer
		return onerun.ErrConfig, "set pool_mode = transaction in the proxy"
	case c == codeLockTimeout:
		return onerun.ErrUnavailable, "somebody holds a row for long; look at pg_stat_activity"
	case c == "", strings.HasPrefix(c, "08"), strings.HasPrefix(c, "53"), strings.HasPrefix(c, "57"), strings.HasPrefix(c, "25"), strings.HasPrefix(c, "40"):
		return onerun.ErrUnavailable, "is the server up, and reachable from here?"
	}
	return onerun.ErrInternal, "please report this"
}

// words are what an error says, without the driver's own preliminaries.
func words(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		w := pg.Message
		if pg.Detail != "" && !strings.HasPrefix(pg.Code, "28") {
			w += ": " + pg.Detail
		}
		return fmt.Sprintf("%s (%s)", w, pg.Code)
	}
	return innermost(err)
}

// innermost is the last of an error's causes, which is the one that says most.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			if all := joined.Unwrap(); len(all) > 0 {
				next = all[len(all)-1]
			}
		}
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
