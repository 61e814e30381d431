package fuzzbound

import (
	"strings"

	"github.com/onerun-dev/onerun/internal/storeurl"
)

// Canary stands for a password in the URLs of stores that a fuzz target begins with.
const Canary = "c4n4ry"

// StoreURL holds what a store of many machines made of its URL to what all of them promise: it is understood or refused, in words
// that show no password; and a password that the store takes from it is known for a secret, so that no job inherits it and
// nothing shows it. err is that of a refusal.
func StoreURL(t TB, raw, password string, err error) {
	t.Helper()
	if err != nil {
		_, rest, _ := strings.Cut(raw, "://")
		before, after, one := strings.Cut(rest, Canary)
		// A password follows a colon, and an @ follows it; a name, a host or a parameter may be shown.
		if one && strings.Contains(before, ":") && strings.Contains(after, "@") && !strings.Contains(after, Canary) && strings.Contains(err.Error(), Canary) {
			t.Errorf("%q: %v", raw, err)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: more than a line: %q", raw, err)
		}
		return
	}
	if kind, err := storeurl.KindOf(raw); err != nil || kind != storeurl.Remote {
		t.Errorf("%q: %v, %v", raw, kind, err)
	}
	if password != "" && !storeurl.Secret(raw) {
		t.Errorf("%q has the password %q, and is no secret", raw, password)
	}
	if strings.Contains(password, Canary) && strings.Contains(storeurl.Redact(raw), Canary) && strings.Count(raw, Canary) == 1 {
		t.Errorf("%q is shown as %q", raw, storeurl.Redact(raw))
	}
}
