package postgres

import (
	"context"
	_ "embed" // queries
)

//go:embed sql/size.sql
var sqlSize string

// Size implements onerun.Sizer: what the rows take that are there, with their share of the
// indexes. The files on the server's disk don't become smaller when rows go: their room is
// used again.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	err = s.read(ctx, "measure the store", func(t *tx) error {
		return t.row(sqlSize).Scan(&size)
	})
	return size, err
}
