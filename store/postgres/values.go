package postgres

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// encode writes a value as JSON that the server takes: NUL has no place in a jsonb.
func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	if !strings.Contains(string(b), `\u0000`) {
		return string(b), nil
	}
	var out strings.Builder
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\\' && strings.HasPrefix(string(b[i:min(i+6, len(b))]), `\u0000`):
			out.WriteString(`\ufffd`)
			i += 5
		case b[i] == '\\':
			out.Write(b[i : i+2])
			i++
		default:
			out.WriteByte(b[i])
		}
	}
	return out.String(), nil
}

// The short names by which the values of a statement are written down, and read.

func null[T comparable](v T) *T      { return sqlledger.Null(v) }
func or[T any](p *T) T               { return sqlledger.Or(p) }
func micros(t time.Time) *int64      { return sqlledger.Micros(t) }
func fromMicros(us *int64) time.Time { return sqlledger.FromMicros(us) }

func millis(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }
