package postgres

import (
	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// What the external tests look at.
var (
	Encode = encode
	Micros = micros
	Steps  = len(steps)

	Encryption = encryption
	Clocks     = clocks
)

// Queries are what the store asks, with their arguments, for the test of their plans.
type Queries struct{}

func (Queries) Page(q onerun.Query, statuses ...onerun.Status) (string, []any) {
	return page(q, statuses)
}

func (Queries) Items(q onerun.ItemQuery) (string, []any) {
	tail, args := itemsWhere(q)
	return sqlItemColumns + tail, args
}

func (Queries) Prunable(q onerun.PruneRequest, cuts map[string]string) (string, []any) {
	at, err := sqlledger.DecodeCursor("", sqlledger.FirstTime().UnixMicro())
	if err != nil {
		panic(err)
	}
	for job, id := range cuts {
		if at.Cuts == nil {
			at.Cuts = map[string]sqlledger.Cut{}
		}
		at.Cuts[job] = sqlledger.Cut{Started: 1_900_000_000_000_000, ID: id}
	}
	query, args, err := prunableQuery(q, &at)
	if err != nil {
		panic(err)
	}
	return query, args
}

func (Queries) Forget(q onerun.PruneRequest) (string, []any) { return forgetQuery(q) }
