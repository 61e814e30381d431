package cli

import (
	"context"

	"github.com/onerun-dev/onerun"
)

type migrateCmd struct {
	JSON bool `name:"json" help:"One JSON document instead of a line."`
}

// Help explains the command.
func (migrateCmd) Help() string {
	return `A store is brought up to this program's schema by the first command of this program that opens it, a look included. On a large history that takes seconds, in which
other starts wait: with this command it happens when you want it. Jobs that run meanwhile end as usual. An older program
can't use the store afterwards (78).`
}

func (c *migrateCmd) run(ctx context.Context, e *env) error {
	s, _, err := e.open(ctx, "")
	if err != nil {
		return err
	}
	m, ok := onerun.Ability[onerun.Migrator](s)
	if !ok {
		return &onerun.StateError{Why: "this store has no schema"}
	}
	from, to, err := m.Migrate(ctx) // however long it takes: it is what was asked for
	if err != nil {
		return err
	}
	switch {
	case c.JSON:
		return writeJSON(e.out, map[string]any{"from": from, "to": to})
	case from == 0:
		return say(e, "the store is made, with schema version %d", to)
	case from == to:
		return say(e, "the store has schema version %d, which is this program's", to)
	}
	return say(e, "the store was brought from schema version %d to %d", from, to)
}
