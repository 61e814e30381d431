package redis

import (
	"context"
	"slices"
)

// JobNames lists the jobs that have runs in a namespace.
func (s *Store) JobNames(ctx context.Context, namespace string) ([]string, error) {
	names, err := s.members(ctx, s.keys(namespace).jobs())
	slices.Sort(names)
	return names, s.explain("list the jobs", err)
}
