package store

import (
	"context"
	"strings"

	"github.com/onerun-dev/onerun/store/sqlite"
)

// Names lists what a person may mean by start, the beginning of a name: the jobs that a
// store knows, and with keys the newest keys of the one that is meant. It is for a
// shell's completion, so it makes no store, migrates none and takes no lock. A store
// that can't answer without that has nothing to say.
//
// Errors: those of the store; a caller who completes a line has no use for them.
func Names(ctx context.Context, storeURL, namespace, start string, keys bool) ([]string, error) {
	rest, ok := strings.CutPrefix(storeURL, "sqlite:")
	if !ok {
		return nil, nil
	}
	path, _ := sqlitePath(rest)
	return sqlite.Names(ctx, path, namespace, start, keys)
}
