package kvledger

import (
	"context"
	"strings"
)

// JobNames lists the jobs that have runs in a namespace, with two reads for each. A long name can't be told by its key, so
// a run of it is read.
func (l *Ledger) JobNames(ctx context.Context, namespace string) (names []string, err error) {
	below := path("hist", segment(namespace))
	from, to := under(below)
	for {
		found, err := l.space.Range(ctx, from, to, 1)
		if err != nil || len(found) == 0 {
			return names, err
		}
		job, _, _ := strings.Cut(strings.TrimPrefix(found[0].Key, below+"/"), "/")
		_, from = under(path(below, job))
		key := keyRun(string(found[0].Value))
		entries, err := l.space.Read(ctx, key)
		if err != nil {
			return names, err
		}
		if entries[0].Version == 0 { // pruned in between
			continue
		}
		r, err := decode[runRecord](key, entries[0].Value)
		if err != nil {
			return names, err
		}
		names = append(names, r.Run.Job)
	}
}
