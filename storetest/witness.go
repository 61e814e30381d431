package storetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/onerun-dev/onerun"
)

// testify appends one line to a witness: a file that is independent of the store,
// to which every client appends with O_APPEND, so that the order of its lines is
// the order of what happened.
func testify(path, what string, c onerun.Claim, l onerun.Lease) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s %s %s %d\n", what, c.Lock, nameOf(c), l.Owner, l.Token)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (t *trial) witness() string { return filepath.Join(t.tempDir(), "witness") }

// seen is what a witness saw of one name.
type seen struct{ begun, ended int }

// question reads a witness, and checks that nobody worked under a lock, or on a
// key, while another one did, and that tokens grew in that order. Owners that were
// killed are known: their work doesn't end.
func (t *trial) question(path string, dead map[string]bool) map[string]seen {
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.must(err, "read the witness")
	}
	all := map[string]seen{}
	working, last := map[string]string{}, map[string]int64{} // by lock and by key
	for i, l := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		if l == "" {
			continue
		}
		var what, lock, name, owner string
		var token int64
		_, err := fmt.Sscan(l, &what, &lock, &name, &owner, &token)
		t.must(err, "witness, line %d: %q", i+1, l)
		s := all[name]
		if what == "end" {
			s.ended++
			all[name] = s
			delete(working, lock)
			delete(working, "key "+name)
			continue
		}
		s.begun++
		all[name] = s
		for _, id := range []string{lock, "key " + name} {
			if other := working[id]; other != "" && !dead[other] {
				t.failf("witness, line %d: owner %s began %s while %s worked under %s", i+1, owner, name, other, id)
			}
			working[id] = owner
		}
		if token <= last[lock] {
			t.failf("witness, line %d: expected a token over %d under %s, got %d", i+1, last[lock], lock, token)
		}
		last[lock] = token
	}
	return all
}
