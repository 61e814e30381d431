package sqlledger

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// TestMicros: a time comes back as it was, to the microsecond, but for those that are a broken clock's.
func TestMicros(t *testing.T) {
	first, last := time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC)
	if !FirstTime().Equal(first) {
		t.Errorf("the first time is %s, want %s", FirstTime(), first)
	}
	now := time.Date(2026, 3, 29, 2, 30, 0, 123456000, time.FixedZone("", 3600))
	for _, c := range []struct{ in, out time.Time }{
		{now, now},
		{now.Add(999), now},
		{time.Unix(0, 0), time.Unix(0, 0)},
		{first.Add(-1), first},
		{first, first},
		{first.Add(time.Microsecond), first.Add(time.Microsecond)},
		{last.Add(-time.Microsecond), last.Add(-time.Microsecond)},
		{last, last},
		{last.Add(1), last},
		{last.Add(time.Microsecond), last},
		{time.Unix(math.MinInt32, 0), time.Unix(math.MinInt32, 0)},
		{time.Date(-290000, 1, 1, 0, 0, 0, 0, time.UTC), first}, // its microseconds don't fit into 64 bits
		{time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC), last},
	} {
		if got := FromMicros(Micros(c.in)); !got.Equal(c.out) || got.Location() != time.UTC {
			t.Errorf("%s comes back as %s, want %s", c.in, got, c.out)
		}
	}
	if us := Micros(time.Time{}); us != nil || !FromMicros(nil).IsZero() {
		t.Errorf("no time travels as %v", us)
	}
}

// TestParams: what is text to Go is valid text to a server, and nothing else is touched.
func TestParams(t *testing.T) {
	type name string
	text, number := "a\x00b", 7
	got := Params([]any{"\xff", name("n\x00"), &text, (*string)(nil), nil, 3, &number, []byte{0xff, 0}})
	want := []any{"\uFFFD", "n\uFFFD", "a\uFFFDb", (*string)(nil), nil, 3, &number}
	if !slices.Equal(got[:7], want) || string(got[7].([]byte)) != "\xff\x00" {
		t.Errorf("got %#v", got)
	}
}

func TestWithin(t *testing.T) {
	if a, b, c := Within(math.MaxInt), Within(math.MinInt), Within(-3); a != math.MaxInt32 || b != math.MinInt32 || c != -3 {
		t.Error(a, b, c)
	}
	if us := CeilMicros(1500 * time.Nanosecond); us != 2 {
		t.Errorf("a lease of 1.5 µs became %d µs", us)
	}
}

// TestIsOurs: an error of the contract keeps its words; any other one is explained.
func TestIsOurs(t *testing.T) {
	for err, ours := range map[error]bool{
		Met():                         true,
		usage("no %s", "job"):         true,
		&onerun.Refusal{}:             true,
		errors.New("connection lost"): false,
	} {
		if IsOurs(err) != ours {
			t.Errorf("%v: ours: %v", err, !ours)
		}
	}
}

func TestWhere(t *testing.T) {
	var w Where
	w.And("a = ?", 1)
	w.And("b")
	if got := w.String(); got != "WHERE a = ? AND b" || !slices.Equal(w.Args, []any{1}) {
		t.Error(got, w.Args)
	}
	var n Where
	n.AndAt("a < at($%[1]d) AND b < at($%[1]d)", "x")
	n.AndAt("c = ?%d", "y")
	if got := n.String(); got != "WHERE a < at($1) AND b < at($1) AND c = ?2" || !slices.Equal(n.Args, []any{"x", "y"}) {
		t.Error(got, n.Args)
	}
}
