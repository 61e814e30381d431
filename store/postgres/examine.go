package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
)

// examination is one look at a store, for what would make it unsafe.
type examination struct {
	s        *Store
	ctx      context.Context
	findings []onerun.Finding
	role     string
	database string
	settings map[string]setting
	schema   string // where the store is; "": nowhere yet
}

// most is how many things of a kind are named one by one.
const most = 5

// Examine implements onerun.Examiner. It changes nothing, and makes no schema. A server
// that can't be reached is a finding too, and then the last one. What the role may not see
// is unknown. The journal's chains, which take longer the larger the ledger is, are given up
// after a third of the time that ctx leaves.
func (s *Store) Examine(ctx context.Context) ([]onerun.Finding, error) {
	x := &examination{s: s, ctx: ctx}
	x.passwordFile()
	if !x.connection() {
		return x.findings, nil
	}
	x.hosts()
	x.proxy()
	x.clock()
	x.server()
	x.standbys()
	x.timeouts()
	x.connections()
	if x.store() {
		x.tables()
		x.privileges()
		x.functions()
		x.indexes()
		x.chains()
		x.stale()
	}
	return x.findings, nil
}

func (x *examination) add(check string, status onerun.FindingStatus, evidence, remedy string) {
	x.findings = append(x.findings, onerun.Finding{Check: check, Status: status, Evidence: evidence, Remedy: remedy})
}

// about says that the last finding concerns one job alone.
func (x *examination) about(job string) { x.findings[len(x.findings)-1].Job = job }

// fine adds that a check found nothing, if it has found nothing.
func (x *examination) fine(check, evidence string) {
	for _, f := range x.findings {
		if f.Check == check {
			return
		}
	}
	x.add(check, onerun.FindingOK, evidence, "")
}

// unless adds that a check could not be made, if it could not.
func (x *examination) unless(err error, check string) bool {
	if err == nil {
		return true
	}
	var e *onerun.StoreError
	if err = x.s.explain("examine the store", err); errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	x.add(check, onerun.FindingUnknown, err.Error(), "")
	return false
}

// refused puts an error that every start would meet as a finding.
func (x *examination) refused(check string, err error) {
	var e *onerun.StoreError
	if err = x.s.explain("examine the store", err); errors.As(err, &e) && e.Err != nil {
		x.add(check, onerun.FindingDanger, fmt.Sprintf("%s: %v", e.Path, e.Err), e.Do)
		return
	}
	x.add(check, onerun.FindingDanger, err.Error(), "")
}

// row asks one question in a transaction of its own, with the settings that every session
// of the role has.
func (x *examination) row(query string, args []any, dest ...any) error {
	return x.s.connected(x.ctx, func(conn *pgx.Conn) error {
		if err := conn.QueryRow(x.ctx, query, args...).Scan(dest...); err != nil {
			return &unbegun{err} // it only reads
		}
		return nil
	})
}

// in reads the ledger, in a transaction that sees one moment and changes nothing. The
// server ends a question that takes longer than limit; 0: none.
func (x *examination) in(limit time.Duration, f func(t *tx) error) error {
	return x.s.connected(x.ctx, func(conn *pgx.Conn) error {
		t := &tx{ctx: x.ctx, conn: conn}
		err := t.begin(beginRead, quoted(x.schema)+", pg_temp")
		if err == nil {
			err = t.exec("SELECT set_config('statement_timeout', $1, true)", strconv.FormatInt(limit.Milliseconds(), 10))
		}
		if err == nil {
			err = f(t)
		}
		t.rollback()
		if err != nil {
			return &unbegun{err}
		}
		return nil
	})
}

// third bounds what takes longer the larger the ledger is; 0: it isn't bounded.
func (x *examination) third() time.Duration {
	if end, ok := x.ctx.Deadline(); ok {
		return max(time.Until(end)/3, time.Millisecond)
	}
	return 0
}

// connection connects, and looks at how.
func (x *examination) connection() bool {
	const check = "connection"
	began := time.Now()
	err := x.row("SELECT current_user::text, current_database()::text", nil, &x.role, &x.database)
	if err != nil {
		x.refused(check, err)
		return false
	}
	x.add(check, onerun.FindingOK, fmt.Sprintf("%s answers role %s after %s", x.s.place, x.role, time.Since(began).Round(time.Millisecond)), "")
	return x.unless(x.s.connected(x.ctx, func(conn *pgx.Conn) error {
		x.findings = append(x.findings, encryption(conn.PgConn().Conn(), conn.Config().TLSConfig))
		return nil
	}), "encryption")
}
