package sqlite_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// sentinels are all that an error of the contract may be, by name.
var sentinels = map[string]error{
	"usage": onerun.ErrUsage, "unavailable": onerun.ErrUnavailable, "internal": onerun.ErrInternal, "create": onerun.ErrCreate,
	"io": onerun.ErrIO, "permission": onerun.ErrPermission, "config": onerun.ErrConfig,
	"state": onerun.ErrState, "not found": onerun.ErrNotFound, "lost": onerun.ErrLost,
}

// kinds tells which of them an error is.
func kinds(err error) (out []string) {
	for name, s := range sentinels {
		if errors.Is(err, s) {
			out = append(out, name)
		}
	}
	return out
}

// is checks that an error is of one kind and no other, in words for people.
func is(t testing.TB, err error, kind, doing string) {
	t.Helper()
	var ref *onerun.Refusal
	if errors.As(err, &ref) {
		t.Fatalf("%s: refused (%v), which is no error of kind %q", doing, err, kind)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	isKind(t, kinds(err), text, kind, doing)
}

func isKind(t testing.TB, got []string, text, kind, doing string) {
	t.Helper()
	if len(got) != 1 || got[0] != kind {
		t.Fatalf("%s: expected an error of kind %q alone, got %q: %s", doing, kind, got, text)
	}
	if text == "" || strings.ContainsAny(text, "\n\r") {
		t.Errorf("%s: the error is to be one line of words: %q", doing, text)
	}
}
