package capture

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestRing: whatever the pieces, the end of all of them is kept.
func TestRing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := ring{size: rapid.IntRange(1, 5000).Draw(t, "size")}
		var all []byte
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 3*Slack), 0, 20).Draw(t, "pieces") {
			piece := make([]byte, n)
			for i := range piece {
				piece[i] = byte(len(all) + i*7)
			}
			r.write(piece)
			all = append(all, piece...)
		}
		if r.total != int64(len(all)) {
			t.Fatalf("total %d of %d", r.total, len(all))
		}
		if want := all[max(0, len(all)-r.size-Slack):]; !bytes.Equal(r.bytes(), want) {
			t.Fatalf("%d bytes are kept, not the last %d", len(r.bytes()), len(want))
		}
	})
}

// TestRingOfNothing: it only counts.
func TestRingOfNothing(t *testing.T) {
	t.Parallel()
	var r ring
	r.write(make([]byte, 1<<20))
	if r.total != 1<<20 || cap(r.buf) != 0 {
		t.Errorf("total %d, room for %d bytes", r.total, cap(r.buf))
	}
}
