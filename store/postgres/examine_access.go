package postgres

import (
	_ "embed" // queries
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
)

//go:embed sql/examine_tables.sql
var sqlExamineTables string

//go:embed sql/examine_role.sql
var sqlExamineRole string

// needs says what a role that runs jobs needs of a table. What isn't named here needs all.
var needs = map[string][]string{
	"onerun_schema":    {"SELECT"},
	"onerun_event":     {"SELECT", "INSERT", "DELETE"},
	"onerun_note":      {"SELECT", "INSERT", "UPDATE"},
	"onerun_tombstone": {"SELECT", "INSERT", "DELETE"},
}

// prunes are the tables of which nothing is deleted but by pruning, and by what undoes it.
var prunes = []string{"onerun_run", "onerun_attempt", "onerun_output", "onerun_skip", "onerun_approval", "onerun_event", "onerun_tombstone"}

// lack is what a role would have to be granted, of some tables.
type lack struct {
	privileges string
	pruning    bool // nothing but pruning needs it
}

// privileges looks whether the role may do all that it has to, and what it may do besides.
func (x *examination) privileges() {
	const check = "privileges"
	lacks := map[lack][]string{}
	var more, open []string
	var public, owner bool
	err := x.in(0, func(t *tx) error {
		clear(lacks)
		open, owner = nil, true
		err := t.each(func(scan func(...any) error) error {
			var name string
			var table, owned, writable bool
			var may []string
			if err := scan(&name, &table, &owned, &may, &writable); err != nil {
				return err
			}
			need, ok := needs[name]
			switch {
			case !table:
				need = []string{"SELECT"}
			case !ok:
				need = []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
			}
			if missing := slices.DeleteFunc(slices.Clone(need), func(p string) bool { return slices.Contains(may, p) }); len(missing) > 0 {
				l := lack{privileges: strings.Join(missing, ", ")}
				l.pruning = l.privileges == "DELETE" && slices.Contains(prunes, name)
				lacks[l] = append(lacks[l], name)
			}
			if writable {
				open = append(open, name)
			}
			owner = owner && owned
			return nil
		}, sqlExamineTables, x.schema)
		if err != nil {
			return err
		}
		return t.row(sqlExamineRole, x.schema).Scan(&more, &public)
	})
	if !x.unless(err, check) {
		return
	}
	x.lacking(check, lacks)
	if len(more) > 0 {
		x.add(check, onerun.FindingWarning, fmt.Sprintf("role %s is %s, which no job needs: what reads its password can do more than start jobs", x.role, strings.Join(more, ", ")),
			"give the jobs a role of their own, with what docs/stores/postgres.md lists")
	}
	if len(open) > 0 {
		x.add(check, onerun.FindingDanger, fmt.Sprintf("everybody who can connect may write to %s", some(open)),
			fmt.Sprintf("as the owner: REVOKE ALL ON ALL TABLES IN SCHEMA %s FROM PUBLIC", quoted(x.schema)))
	}
	if public {
		x.add(check, onerun.FindingWarning, fmt.Sprintf("everybody who can connect may make tables and functions in schema %s, beside the store's", quoted(x.schema)),
			fmt.Sprintf("as the owner: REVOKE CREATE ON SCHEMA %s FROM PUBLIC", quoted(x.schema)))
	}
	told := "role " + x.role + " may do what it needs"
	if owner {
		told += "; it owns the tables, so it may migrate, and write the journal anew"
	}
	x.fine(check, told)
}

// lacking names what has to be granted.
func (x *examination) lacking(check string, lacks map[lack][]string) {
	for _, l := range slices.SortedFunc(maps.Keys(lacks), func(a, b lack) int { return strings.Compare(a.privileges, b.privileges) }) {
		status, why := onerun.FindingDanger, "so its starts or their ends fail"
		if l.pruning {
			status, why = onerun.FindingWarning, "so it can't prune"
		}
		tables := make([]string, len(lacks[l]))
		for i, name := range lacks[l] {
			tables[i] = quoted(x.schema) + "." + name
		}
		x.add(check, status, fmt.Sprintf("role %s lacks %s on %s, %s", x.role, l.privileges, some(lacks[l]), why),
			fmt.Sprintf("as the owner: GRANT %s ON %s TO %s", l.privileges, strings.Join(tables, ", "), quoted(x.role)))
	}
}
