package postgres

import (
	_ "embed" // queries
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/onerun-dev/onerun"
)

//go:embed sql/examine_stores.sql
var sqlExamineStores string

//go:embed sql/examine_functions.sql
var sqlExamineFunctions string

//go:embed sql/examine_persistence.sql
var sqlExaminePersistence string

// store finds the schema, as the first start would, and makes none. It reports whether there
// is one, of this program's version.
func (x *examination) store() bool {
	const check = "schema"
	var p place
	version := 0
	err := x.s.connected(x.ctx, func(conn *pgx.Conn) (err error) {
		if p, err = x.s.look(x.ctx, conn); err == nil && p.found != "" {
			version, err = x.s.versionIn(x.ctx, conn, p.found)
		}
		if err != nil {
			return &unbegun{err}
		}
		return nil
	})
	x.schema = p.found
	x.otherStores()
	switch {
	case err != nil && code(err) == codePermission:
		x.refused("privileges", err)
		return false
	case err != nil:
		x.refused(check, err)
		return false
	case p.found == "":
		x.nowhere(p)
		return false
	}
	told := fmt.Sprintf("%s, version %d, and this program's is %d", quoted(p.found), version, len(steps))
	if version < len(steps) {
		x.add(check, onerun.FindingWarning, told, "onerun migrate, as the role that owns the tables, or any start by it")
		return false
	}
	x.add(check, onerun.FindingOK, told, "")
	return true
}

// tables looks whether a crash leaves them as they are.
func (x *examination) tables() {
	const check = "tables"
	var unlogged string
	switch err := x.row(sqlExaminePersistence, []any{x.schema}, &unlogged); {
	case !x.unless(err, check):
	case unlogged != "":
		x.add(check, onerun.FindingDanger, unlogged+": unlogged, so a crash of the server empties it, and no standby has it: jobs run twice, and dates that SUCCEEDED run again",
			"as the tables' owner, for each of them: ALTER TABLE "+quoted(x.schema)+".NAME SET LOGGED")
	default:
		x.add(check, onerun.FindingOK, "all are in the write-ahead log", "")
	}
}

// nowhere says where a store would be made.
func (x *examination) nowhere(p place) {
	const check = "store"
	where, may := quoted(p.free), true
	var err error
	switch {
	case p.missing:
		where = quoted(x.s.named)
		err = x.row("SELECT has_database_privilege(current_database(), 'CREATE')", nil, &may)
	case x.s.named != "" || p.free == "":
		where, may = quoted(x.s.named), p.free != ""
	}
	switch {
	case !x.unless(err, check):
	case may:
		x.add(check, onerun.FindingUnknown, "there is no store yet; the first start makes one in schema "+where, "")
	default:
		x.add(check, onerun.FindingDanger, fmt.Sprintf("there is no store yet, and role %s may make none, so no start gets through", x.role),
			fmt.Sprintf("as an administrator: CREATE SCHEMA onerun AUTHORIZATION %s; then ?schema=onerun in the store's URL", quoted(x.role)))
	}
}

// otherStores looks for stores that this one could be taken for.
func (x *examination) otherStores() {
	const check = "other-schemas"
	var others []string
	err := x.s.connected(x.ctx, func(conn *pgx.Conn) error {
		others = nil
		return (&tx{ctx: x.ctx, conn: conn}).each(func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			if name != x.schema {
				others = append(others, name)
			}
			return err
		}, sqlExamineStores)
	})
	const remedy = "name the schema in the store's URL, everywhere: ?schema=NAME"
	switch n := len(others); {
	case !x.unless(err, check):
	case n > 0 && x.s.named == "" && x.schema == "":
		x.add(check, onerun.FindingDanger, fmt.Sprintf("schema %s of this database has a store, which is not in the search path of role %s, or not for it to see: its starts exclude nobody there", some(others), x.role), remedy)
	case n > 0 && x.s.named == "":
		x.add(check, onerun.FindingWarning, fmt.Sprintf("schema %s of this database has a store too, and which of them a role uses goes by its search path", some(others)), remedy)
	case n > 0:
		x.add(check, onerun.FindingOK, fmt.Sprintf("schema %s of this database has a store too; the URL names this one's", some(others)), "")
	default:
		x.add(check, onerun.FindingOK, "there is no other in this database", "")
	}
}

// some names the first of many.
func some(names []string) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// functionText finds the functions of the schema, and what they do.
var functionText = regexp.MustCompile(`(?s)CREATE OR REPLACE FUNCTION (\w+)\(.*?\sAS (?:\$\$(.*?)\$\$|'((?:[^']|'')*)');`)

// functionsOf is what this program's functions do, by their names.
func functionsOf() (map[string]string, error) {
	text, err := script(len(steps))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, m := range functionText.FindAllStringSubmatch(text, -1) {
		all[m[1]] = m[2] + strings.ReplaceAll(m[3], "''", "'")
	}
	return all, nil
}

// functions looks whether what decides in the server is this program's.
func (x *examination) functions() {
	const check = "functions"
	want, err := functionsOf()
	if !x.unless(err, check) {
		return
	}
	var changed, lost, forbidden []string
	found := map[string]bool{}
	err = x.in(0, func(t *tx) error {
		changed, lost, forbidden = nil, nil, nil
		return t.each(func(scan func(...any) error) error {
			var name, text, path string
			var may bool
			err := scan(&name, &text, &path, &may)
			found[name] = true
			if right, ours := want[name]; ours && right != text {
				changed = append(changed, name)
			}
			if path != "" && path != quoted(x.schema)+", pg_temp" {
				lost = append(lost, name)
			}
			if !may {
				forbidden = append(forbidden, name)
			}
			return err
		}, sqlExamineFunctions, x.schema)
	})
	if !x.unless(err, check) {
		return
	}
	for name := range want {
		if !found[name] {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if len(changed) > 0 {
		x.add(check, onerun.FindingDanger, fmt.Sprintf("%s: missing, or another than this program's; what it decides, nobody knows", some(changed)),
			"find out who can change it, and restore it from a backup")
	}
	if len(lost) > 0 {
		x.add(check, onerun.FindingDanger, fmt.Sprintf("%s: made for another schema, which may have been renamed since, and look for the tables there", some(lost)),
			"give the schema its old name back")
	}
	if len(forbidden) > 0 {
		x.add("privileges", onerun.FindingDanger, fmt.Sprintf("role %s may not call %s, so its starts fail", x.role, some(forbidden)),
			fmt.Sprintf("as the owner: GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA %s TO %s", quoted(x.schema), quoted(x.role)))
	}
	x.fine(check, fmt.Sprintf("%d, all of them this program's", len(want)))
}

// guards are the indexes that make a bug an error instead of a double run, in the words of
// pg_get_indexdef.
var guards = [...][3]string{
	{"onerun_lock_pkey", "onerun_lock", "(namespace, lock)"},
	{"onerun_run_key", "onerun_run", "(namespace, key) WHERE (key IS NOT NULL)"},
	{"onerun_run_running", "onerun_run", "(namespace, lock) WHERE (status = 'RUNNING'::text)"},
	{"onerun_attempt_running", "onerun_attempt", "(run_id) WHERE (status = 'RUNNING'::text)"},
	{"onerun_approval_open", "onerun_approval", "(run_id) WHERE (used_at IS NULL)"},
}

func (x *examination) indexes() {
	const check = "unique-indexes"
	var names []string
	for _, g := range guards {
		var have string
		err := x.row(`SELECT split_part(pg_get_indexdef(i.indexrelid), ' USING btree ', 2) || CASE WHEN i.indisvalid THEN '' ELSE ' (not valid)' END
			FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
			WHERE n.nspname = $1 AND c.relname = $2 AND i.indisunique`, []any{x.schema, g[0]}, &have)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			x.unless(err, check)
			return
		}
		if have != g[2] {
			why := "is missing"
			if have != "" {
				why = "is another one than the schema's: " + have
			}
			x.add(check, onerun.FindingDanger, g[0]+" "+why+"; a fault would be a double run now, and no error",
				fmt.Sprintf("as the owner: DROP INDEX IF EXISTS %[1]s.%[2]s; CREATE UNIQUE INDEX %[2]s ON %[1]s.%[3]s %[4]s", quoted(x.schema), g[0], g[1], g[2]))
		}
		names = append(names, g[0])
	}
	x.fine(check, strings.Join(names, ", "))
}
