package mysql

import (
	"encoding/json"
	"time"

	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// encode writes a value as JSON.
func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// The short names by which the values of a statement are written down, and read.

func null[T comparable](v T) *T      { return sqlledger.Null(v) }
func or[T any](p *T) T               { return sqlledger.Or(p) }
func micros(t time.Time) *int64      { return sqlledger.Micros(t) }
func fromMicros(us *int64) time.Time { return sqlledger.FromMicros(us) }
