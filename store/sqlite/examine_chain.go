package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// chainRow is a row of the journal as it stands there.
type chainRow struct {
	chain, hash, namespace string
	event                  onerun.Event
}

// wrong says what is wrong with a row that follows a hash, or "".
func (r chainRow) wrong(last string) (string, error) {
	own := r.event.RunID
	if r.event.By != "" {
		own = sqlledger.OperatorsChain
	}
	hash, err := link(last, r.namespace, r.event)
	switch {
	case err != nil:
		return "", err
	case hash != r.hash:
		return "does not follow from the row before it", nil
	case r.chain != own:
		return "stands in a chain that is not its own", nil
	}
	return "", nil
}

// chains reckons every event's hash again, chain by chain in the order of the ids. A row
// that was changed, moved, inserted, or whose forerunner was removed shows. After it the
// chain goes on from the hash that stands there, so that one fault is one row, or two.
func (x *examination) chains(d *db, version int) {
	const check = "event-chain"
	terminal := "coalesce(CAST(terminal AS TEXT), '')"
	if version < 2 { // which has no such column
		terminal = "''"
	}
	ctx, cancel := x.third()
	defer cancel()
	t := &tx{ctx: ctx, conn: d.conn}
	began := time.Now()
	var chain, last string
	var faults []string
	rows, chains, broken := 0, 0, 0
	// The casts: what somebody put in as another type is another text, not an error.
	err := t.each(func(scan func(...any) error) error {
		var r chainRow
		var at int64
		e := &r.event
		if err := scan(&e.ID, &r.chain, &r.hash, &at, &e.Name, &r.namespace, &e.Job, &e.Key, &e.RunID, &e.By, &e.Reason, &e.Detail, &e.Terminal); err != nil {
			return err
		}
		e.At = time.UnixMicro(at)
		if rows == 0 || r.chain != chain {
			chain, last = r.chain, ""
			chains++
		}
		rows++
		why, err := r.wrong(last)
		last = r.hash
		if why != "" {
			if broken++; broken <= most {
				faults = append(faults, fmt.Sprintf("row %d of chain %s (%s) %s", e.ID, r.chain, e.Name, why))
			}
		}
		return err
	}, `SELECT id, chain, CAST(hash AS TEXT), CAST(at AS INTEGER), CAST(event AS TEXT), CAST(namespace AS TEXT), CAST(job AS TEXT),
		coalesce(CAST(key AS TEXT), ''), coalesce(CAST(run_id AS TEXT), ''), coalesce(CAST(by AS TEXT), ''),
		coalesce(CAST(reason AS TEXT), ''), coalesce(CAST(detail AS TEXT), ''), `+terminal+` FROM onerun_event ORDER BY chain, id`)
	if broken > 0 {
		if broken > most {
			faults = append(faults, fmt.Sprintf("and %d more rows", broken-most))
		}
		x.add(check, onerun.FindingDanger, strings.Join(faults, "; ")+": it was changed, moved or inserted, or one before it was removed",
			"find out who can write to "+d.path+"; a backup shows what stood there")
	}
	switch {
	case ctx.Err() != nil:
		x.add(check, onerun.FindingUnknown, fmt.Sprintf("the first %d events are looked at, for more the %s were too short", rows, time.Since(began).Round(100*time.Millisecond)),
			"give it more time with --store-timeout")
	case err != nil:
		x.refused(check, d.explain("examine the store", err))
	}
	x.fine(check, fmt.Sprintf("%d events in %d chains, each follows from the one before it", rows, chains))
}
