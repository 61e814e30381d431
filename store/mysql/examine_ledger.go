package mysql

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// needed are the rights on tables that docs/stores/mysql.md lists: every one, on the database.
var needed = []string{"SELECT", "INSERT", "UPDATE", "DELETE"}

// onDatabase is a grant on a whole database, or on all, in whichever quotes.
var onDatabase = regexp.MustCompile("^GRANT (.+?) ON (\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\\*)\\.\\* TO ")

// privileges looks whether the account may do what a start, an operator and a pruning do.
func (x *examination) privileges() {
	const check = "privileges"
	var has []string
	partly := false
	err := x.in(func(t *tx) error {
		return t.each(func(scan func(...any) error) error {
			var grant string
			if err := scan(&grant); err != nil {
				return err
			}
			m := onDatabase.FindStringSubmatch(grant)
			switch {
			case m == nil:
				partly = partly || !strings.HasPrefix(grant, "GRANT USAGE ")
			case m[2] == "*" || x.isDatabase(m[2]):
				has = append(has, strings.Split(m[1], ", ")...)
			}
			return nil
		}, "SHOW GRANTS")
	})
	if !x.unless(err, check) {
		return
	}
	missing := slices.DeleteFunc(slices.Clone(needed), func(p string) bool {
		return slices.Contains(has, p) || slices.Contains(has, "ALL PRIVILEGES")
	})
	switch {
	case len(missing) == 0:
		x.add(check, onerun.FindingOK, x.account+" may do what is needed", "")
	case partly:
		x.add(check, onerun.FindingUnknown, x.account+" has "+strings.Join(missing, ", ")+" on the whole database from nobody, and rights of another kind, of a role or on tables", "compare SHOW GRANTS with docs/stores/mysql.md")
	default:
		x.add(check, onerun.FindingDanger, x.account+" lacks "+strings.Join(missing, ", ")+" on the database: a start, or what an operator decides, is refused",
			fmt.Sprintf("as an administrator: GRANT %s ON `%s`.* TO this account", strings.Join(missing, ", "), x.s.database))
	}
}

// isDatabase reports whether the pattern of a grant, in its quotes, names the store's database.
func (x *examination) isDatabase(pattern string) bool {
	quote := pattern[:1]
	pattern = strings.ReplaceAll(strings.Trim(pattern, quote), quote+quote, quote)
	expr := regexp.QuoteMeta(pattern)
	expr = strings.NewReplacer(`\\_`, "_", `\\%`, "%", "_", ".", "%", ".*").Replace(expr)
	ok, err := regexp.MatchString("^"+expr+"$", x.s.database)
	return err == nil && ok
}

// most is how many things of a kind are named one by one.
const most = 5

// chains reckons every event's hash again. A row that was changed, moved, inserted, or whose
// forerunner was removed shows. After it the chain goes on from the hash that stands there,
// so that one fault is one row, or two. It is given up after a third of the time that is left.
func (x *examination) chains() {
	const check = "event-chain"
	var until time.Time
	if end, ok := x.ctx.Deadline(); ok {
		until = time.Now().Add(time.Until(end) / 3)
	}
	last := map[string]string{}
	var faults []string
	rows, broken := 0, 0
	err := x.s.read(x.ctx, "examine the journal", func(t *tx) error {
		clear(last)
		faults, rows, broken = nil, 0, 0
		return t.each(func(scan func(...any) error) error {
			var e onerun.Event
			var at int64
			var chain, hash string
			if err := scan(&e.ID, &at, &e.Name, &e.Namespace, &e.Job, &e.Key, &e.RunID, &e.By, &e.Terminal, &e.Reason, &e.Detail, &chain, &hash); err != nil {
				return err
			}
			if rows++; rows%1000 == 0 && !until.IsZero() && time.Now().After(until) {
				return errSlow
			}
			e.At = fromMicros(&at)
			want, err := link(last[chain], e)
			if err != nil {
				return err
			}
			own := e.RunID
			if e.By != "" {
				own = sqlledger.OperatorsChain
			}
			if want != hash || own != chain {
				if broken++; broken <= most {
					faults = append(faults, fmt.Sprintf("event %d (%s of %s)", e.ID, e.Name, strings.TrimSpace(e.Job+" "+e.Key)))
				}
			}
			last[chain] = hash
			return nil
		}, `SELECT id, at, event, namespace, job, COALESCE("key", ''), COALESCE(run_id, ''), COALESCE("by", ''), COALESCE(terminal, ''), COALESCE(reason, ''),
			COALESCE(detail, ''), chain, hash FROM onerun_event ORDER BY id`)
	})
	switch {
	case errors.Is(err, errSlow):
		x.add(check, onerun.FindingUnknown, "to look at all events takes too long", "give it more time with --store-timeout")
	case !x.unless(err, check):
	case broken > 0:
		if broken > len(faults) {
			faults = append(faults, fmt.Sprintf("and %d more rows", broken-len(faults)))
		}
		x.add(check, onerun.FindingDanger, strings.Join(faults, "; ")+": it was changed, moved or inserted, or one before it was removed",
			"find out who can write to onerun_event; a backup shows what stood there")
	default:
		x.add(check, onerun.FindingOK, fmt.Sprintf("%d events in %d chains, each follows from the one before it", rows, len(last)), "")
	}
}

// errSlow: what was to be looked at is too much for the time that there is.
var errSlow = errors.New("it takes too long")

// stale looks for suspects.
func (x *examination) stale() {
	const check = "stale-runs"
	var suspects []onerun.Run
	running := 0
	err := x.s.read(x.ctx, "look for suspects", func(t *tx) error {
		suspects = nil
		found, err := t.runs("WHERE r.status = 'RUNNING' ORDER BY r.started_at")
		running = len(found)
		for _, r := range found {
			if run := r.Seen(); run.Stale {
				suspects = append(suspects, run)
			}
		}
		return err
	})
	if !x.unless(err, check) {
		return
	}
	for _, r := range suspects {
		x.add(check, onerun.FindingWarning, fmt.Sprintf("%s is RUNNING since %s: %s", r.Name(), r.StartedAt.Local().Format(time.DateTime), r.Evidence), "look at it: onerun stale; then onerun resolve KEY")
		x.findings[len(x.findings)-1].Job = r.Job
	}
	x.fine(check, fmt.Sprintf("%d runs are RUNNING, none of them a suspect", running))
}
