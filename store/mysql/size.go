package mysql

import "context"

// Size implements onerun.Sizer: what the tables and their indexes take, as far as the server has
// counted. Their files don't become smaller when rows go: the room is used again.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	err = s.read(ctx, "measure the store", func(t *tx) error {
		return t.row(`SELECT COALESCE(SUM(data_length + index_length - LEAST(data_free, data_length)), 0) FROM information_schema.tables
			WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE' AND LEFT(table_name, 7) = 'onerun_'`).Scan(&size)
	})
	return size, err
}

// JobNames lists the jobs that have runs, in the order of their names.
func (s *Store) JobNames(ctx context.Context, namespace string) (names []string, err error) {
	err = s.read(ctx, "list the jobs", func(t *tx) (err error) {
		names, err = t.JobNames(namespace)
		return err
	})
	return names, err
}
