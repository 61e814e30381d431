package sqlite

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// schema looks at the version, and then at what the ledger of that version holds. An
// error says that the database can't be read, or is none of onerun's.
func (x *examination) schema(d *db) error {
	var version int
	err := d.read(x.ctx, "examine the store", func(t *tx) (err error) {
		version, err = t.checkVersion(d.path)
		return err
	})
	if err != nil {
		return err
	}
	told := fmt.Sprintf("version %d, and this program's is %d", version, len(schemas))
	switch version {
	case 0:
		x.add("store", onerun.FindingUnknown, d.path+" holds nothing yet: the first start makes a store of it", "")
		return nil
	case len(schemas):
		x.add("schema", onerun.FindingOK, told, "")
	default:
		x.add("schema", onerun.FindingWarning, told, startOnce)
	}
	x.integrity(d)
	x.indexes(d)
	x.journalMode(d)
	x.chains(d, version)
	if version == len(schemas) {
		x.spooled()
		x.stale(d)
	}
	return nil
}

// third bounds what takes longer the larger the ledger is.
func (x *examination) third() (context.Context, context.CancelFunc) {
	if x.s.options.examineFor > 0 {
		return context.WithTimeout(x.ctx, x.s.options.examineFor)
	}
	end, ok := x.ctx.Deadline()
	if !ok {
		return context.WithCancel(x.ctx)
	}
	return context.WithTimeout(x.ctx, time.Until(end)/3)
}

// integrity asks SQLite whether the file is what it wrote.
func (x *examination) integrity(d *db) {
	const check = "integrity"
	ctx, cancel := x.third()
	defer cancel()
	began := time.Now()
	var faults []string
	t := &tx{ctx: ctx, conn: d.conn}
	err := t.each(func(scan func(...any) error) error {
		var line string
		err := scan(&line)
		faults = append(faults, line)
		return err
	}, fmt.Sprintf("PRAGMA quick_check(%d)", most))
	var bytes uint64
	_ = d.conn.QueryRowContext(x.ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&bytes) // it is only told
	big := size(bytes)
	switch {
	case ctx.Err() != nil:
		x.add(check, onerun.FindingUnknown, fmt.Sprintf("a database of %s takes longer than %s to check", big, time.Since(began).Round(100*time.Millisecond)),
			"give it more time with --store-timeout, or type: sqlite3 "+d.path+" 'PRAGMA quick_check'")
	case err != nil:
		x.refused(check, d.explain("examine the store", err))
	case len(faults) == 1 && faults[0] == "ok":
		x.add(check, onerun.FindingOK, "PRAGMA quick_check finds nothing, in "+big, "")
	default:
		x.add(check, onerun.FindingDanger, d.path+": "+strings.Join(faults, "; "), "restore it from a backup, or move it aside to start with an empty history")
	}
}

// uniqueIndex finds the statements of the schema that make what turns a bug into an error.
var uniqueIndex = regexp.MustCompile(`CREATE UNIQUE INDEX (\w+)[^;]*`)

// indexes looks whether the partial unique indexes are there, as the schema has them.
func (x *examination) indexes(d *db) {
	const check = "unique-indexes"
	var names []string
	for _, m := range uniqueIndex.FindAllStringSubmatch(strings.Join(schemas[:], "\n"), -1) {
		var have string
		err := d.conn.QueryRowContext(x.ctx, "SELECT coalesce((SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ?1), '')", m[1]).Scan(&have)
		if !x.unless(err, check) {
			return
		}
		if strings.Join(strings.Fields(have), " ") != strings.Join(strings.Fields(m[0]), " ") {
			why := "is missing"
			if have != "" {
				why = "is another one than the schema's"
			}
			x.add(check, onerun.FindingDanger, m[1]+" "+why+": a fault would be a double run now, and no error",
				fmt.Sprintf("type: sqlite3 %s 'DROP INDEX IF EXISTS %s; %s'", d.path, m[1], strings.Join(strings.Fields(m[0]), " ")))
		}
		names = append(names, m[1])
	}
	x.fine(check, strings.Join(names, ", "))
}

func (x *examination) journalMode(d *db) {
	var mode string
	err := d.conn.QueryRowContext(x.ctx, "PRAGMA journal_mode").Scan(&mode)
	if !x.unless(err, "journal-mode") {
		return
	}
	if mode != "wal" {
		x.add("journal-mode", onerun.FindingWarning, "the journal's mode is "+mode+", in which whoever reads holds up the starts", "type: sqlite3 "+d.path+" 'PRAGMA journal_mode = WAL'")
		return
	}
	x.add("journal-mode", onerun.FindingOK, "WAL", "")
}

// spooled looks for ends that wait.
func (x *examination) spooled() {
	const check = "waiting-ends"
	ends, err := x.s.Spooled(x.ctx)
	if !x.unless(err, check) {
		return
	}
	for i, e := range ends {
		if i == most {
			x.add(check, onerun.FindingDanger, fmt.Sprintf("%d more ends wait", len(ends)-most), "type: onerun flush")
			break
		}
		x.add(check, onerun.FindingDanger, fmt.Sprintf("the end of %s, attempt %d of run %s (%s), waits in %s to be recorded", e.Job, e.Attempt, e.RunID, e.Outcome.Status, e.Path), "type: onerun flush")
		x.about(e.Job)
	}
	x.fine(check, "no end waits to be recorded")
}

// stale looks for suspects.
func (x *examination) stale(d *db) {
	const check = "stale-runs"
	var spaces []string
	err := d.read(x.ctx, "examine the store", func(t *tx) error {
		spaces = nil
		return t.each(func(scan func(...any) error) error {
			var s string
			err := scan(&s)
			spaces = append(spaces, s)
			return err
		}, "SELECT DISTINCT namespace FROM onerun_run WHERE status = 'RUNNING'")
	})
	if !x.unless(err, check) {
		return
	}
	running := 0
	for _, s := range spaces {
		runs, err := x.s.Runs(x.ctx, onerun.Query{Namespace: s, Statuses: []onerun.Status{onerun.Running}})
		if !x.unless(err, check) {
			return
		}
		for _, r := range runs {
			running++
			if r.Stale {
				x.add(check, onerun.FindingWarning, fmt.Sprintf("%s is RUNNING since %s: %s", r.Name(), r.StartedAt.Local().Format(time.DateTime), r.Evidence),
					"look at it: onerun stale; then onerun resolve KEY")
				x.about(r.Job)
			}
		}
	}
	x.fine(check, fmt.Sprintf("%d runs are RUNNING, none of them a suspect", running))
}
