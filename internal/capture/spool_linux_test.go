package capture

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// TestSpool: what is held back comes out as it came in, each piece to its descriptor, and
// takes little memory.
func TestSpool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		s := &spool{dir: dir}
		defer s.close()
		var want [3][]byte
		for i, n := range rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 100), rapid.IntRange(1, inMemory*2)), 0, 10).Draw(t, "pieces") {
			number := 1 + rapid.IntRange(0, 1).Draw(t, "number")
			piece := bytes.Repeat([]byte{byte(i)}, n)
			if err := s.write(number, piece); err != nil {
				t.Fatal(err)
			}
			want[number] = append(want[number], piece...)
			if cap(s.buf) > 2*inMemory {
				t.Fatalf("%d bytes in memory", cap(s.buf))
			}
		}
		var got [3][]byte
		if err := s.replay(func(number int, b []byte) error { got[number] = append(got[number], b...); return nil }); err != nil {
			t.Fatal(err)
		}
		for number := range got {
			if !bytes.Equal(got[number], want[number]) {
				t.Fatalf("descriptor %d: %d bytes, want %d", number, len(got[number]), len(want[number]))
			}
		}
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestSpoolOneReaderGone: the other one gets all of its own.
func TestSpoolOneReaderGone(t *testing.T) {
	t.Parallel()
	s := &spool{dir: t.TempDir()}
	defer s.close()
	for range 3 {
		for number := range 2 {
			if err := s.write(number+1, []byte{'x'}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []int
	err := s.replay(func(number int, _ []byte) error {
		got = append(got, number)
		if number == 1 {
			return unix.EPIPE
		}
		return nil
	})
	if !errors.Is(err, unix.EPIPE) || len(got) != 4 {
		t.Errorf("%v, pieces of %v", err, got)
	}
}

// TestSpoolNoRoom: what found room is given back, and it is said that there is no more.
func TestSpoolNoRoom(t *testing.T) {
	t.Parallel()
	s := &spool{dir: "/no/such/directory"}
	defer s.close()
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		err = s.write(1, bytes.Repeat([]byte{'x'}, inMemory/4))
	}
	if err == nil || !strings.Contains(err.Error(), "no room to hold it back") {
		t.Errorf("writing: %v", err)
	}
	n := 0
	if err := s.replay(func(_ int, b []byte) error { n += len(b); return nil }); err != nil || n < inMemory/2 {
		t.Errorf("%d bytes given back, %v", n, err)
	}
}
