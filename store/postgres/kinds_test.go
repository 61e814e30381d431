package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onerun-dev/onerun"
)

// TestKinds: what the server says, as the contract calls it. Nothing that a start could
// meet is a refusal.
func TestKinds(t *testing.T) {
	t.Parallel()
	s := &Store{place: "postgres://h:5432/db", password: "s3cr3t"}
	for code, kind := range map[string]error{
		"08006": onerun.ErrUnavailable, "57P01": onerun.ErrUnavailable, "57P03": onerun.ErrUnavailable, "57014": onerun.ErrUnavailable,
		"53300": onerun.ErrUnavailable, "25006": onerun.ErrUnavailable, "25P03": onerun.ErrUnavailable, "40001": onerun.ErrUnavailable,
		"40P01": onerun.ErrUnavailable, "55P03": onerun.ErrUnavailable, "28P01": onerun.ErrPermission, "28000": onerun.ErrPermission,
		"42501": onerun.ErrPermission, "3D000": onerun.ErrConfig, "42P01": onerun.ErrConfig, "53100": onerun.ErrIO, "58030": onerun.ErrIO,
		"XX001": onerun.ErrIO, "23505": onerun.ErrInternal, "22021": onerun.ErrInternal, "42601": onerun.ErrInternal,
	} {
		err := s.explain("claim", fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code, Message: "it says\ns3cr3t", Detail: "more"}))
		if !errors.Is(err, kind) {
			t.Errorf("%s: expected %q, got: %v", code, kind, err)
		}
		var e *onerun.StoreError
		if !errors.As(err, &e) || e.Do == "" || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %q", code, err)
		}
		var pg *pgconn.PgError
		if !errors.As(err, &pg) {
			t.Errorf("%s: the cause is lost", code)
		}
	}
	for _, err := range []error{&onerun.Refusal{}, &onerun.ItemRefusal{}, onerun.ErrLost, &onerun.StateError{}, onerun.ErrNotFound} {
		if got := s.explain("claim", err); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
}
