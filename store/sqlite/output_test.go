package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// printed is an end of a job that printed n bytes.
func printed(n int) onerun.Outcome {
	out := ended(onerun.Succeeded)
	out.Output = &onerun.Output{Text: strings.Repeat("x", n), Total: int64(n)}
	return out
}

// leave leaves n bytes of a disk that was filled.
func (d smallDisk) leave(n int64) {
	d.t.Helper()
	path := filepath.Join(filepath.Dir(d.path), "filler")
	st, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, st.Size()-n)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// TestOutputFindsNoRoom: the status is not lost for the sake of its text.
func TestOutputFindsNoRoom(t *testing.T) {
	t.Parallel()
	d := newSmallDisk(t)
	b := d.bed()
	b.lived(claimOf("other", day), onerun.Succeeded)
	c := claimOf("settle", day)
	g := b.granted(c)
	d.fill()
	d.leave(100 << 10)
	if err := b.Finish(soon(t), g.Lease, printed(300<<10)); err != nil {
		t.Fatalf("finish: %v", err)
	}
	d.free()
	if r := b.run(c.RunID); r.Status != onerun.Succeeded {
		t.Errorf("it is %s", r.Status)
	}
	if o, err := b.Output(soon(t), c.Namespace, c.RunID, 1); !errors.Is(err, onerun.ErrNotFound) {
		t.Errorf("its output: %d bytes, %v", len(o.Text), err)
	}
	b.refused(again(c), onerun.RefusedSucceeded)
	sound(t, d.path)
}

// TestOutputIsRefused: whatever it is that the database has against a text.
func TestOutputIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.lived(claimOf("other", day), onerun.Succeeded)
	mustExec(t, b.sql(), "CREATE TRIGGER no BEFORE INSERT ON onerun_output BEGIN SELECT RAISE(ABORT, 'no'); END")
	c := claimOf("settle", day)
	g := b.granted(c)
	for range 2 { // its reply was lost
		if err := b.Finish(soon(t), g.Lease, printed(10)); err != nil {
			t.Fatalf("finish: %v", err)
		}
	}
	if r := b.run(c.RunID); r.Status != onerun.Succeeded {
		t.Errorf("it is %s", r.Status)
	}
	if n := one[int](t, b.sql(), "SELECT count(*) FROM onerun_output"); n != 0 {
		t.Errorf("%d outputs are kept", n)
	}
	sound(t, b.path)
}
