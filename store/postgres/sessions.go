package postgres

import (
	"context"
	_ "embed" // queries
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
)

//go:embed sql/sessions.sql
var sqlSessions string

// Sessions implements onerun.SessionLister. A job's own connections are among them if they
// call themselves as the run's do: with PGAPPNAME=onerun/$ONERUN_RUN_ID in its environment.
func (s *Store) Sessions(ctx context.Context, r onerun.Run) ([]onerun.Session, error) {
	if r.RunID == "" {
		return nil, nil
	}
	var all []onerun.Session
	err := s.connected(ctx, func(conn *pgx.Conn) error {
		all = nil
		err := (&tx{ctx: ctx, conn: conn}).each(func(scan func(...any) error) error {
			var x onerun.Session
			var since *int64
			err := scan(&x.PID, &x.State, &since, &x.Wait, &x.Query)
			x.Since, x.Query = fromMicros(since), queryText(x.Query)
			all = append(all, x)
			return err
		}, sqlSessions, applicationName(r.RunID))
		if err != nil {
			return &unbegun{err}
		}
		return nil
	})
	return all, s.explain("list the sessions of a run", err)
}

// maxQuery is how many characters of a statement are told.
const maxQuery = 200

// passwordInSQL is a password as a statement sets it, whose end the server may have cut off.
var passwordInSQL = regexp.MustCompile(`(?i)(\bpassword\s+)(?:e?'(?:[^'\\]|''|\\.)*'?|\$(\w*)\$\S*)`)

// queryText makes a statement fit to be shown.
func queryText(q string) string {
	q = strings.Join(strings.Fields(q), " ")
	q = onerun.Redact(passwordInSQL.ReplaceAllString(q, "${1}"+onerun.Masked))
	q = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, q)
	if r := []rune(q); len(r) > maxQuery {
		q = string(r[:maxQuery]) + "…"
	}
	return q
}
