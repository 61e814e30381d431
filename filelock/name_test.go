package filelock

import (
	"regexp"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

func TestFileName(t *testing.T) {
	long := strings.Repeat("a", 250)
	locks := []struct {
		ns   string
		lock onerun.LockName
	}{
		{"default", "job/daily"},
		{"default", "job/Daily"},
		{"default", "job/DAILY"},
		{"prod", "job/daily"},
		{"default", "name/daily"},
		{"default", "key/daily:2026-09-15"},
		{"default", "key/daily:2026-09-16"},
		{"default", onerun.LockName("job/" + strings.Repeat("日", 90))},
		{"default", onerun.LockName("job/" + strings.Repeat("日", 89) + "月")},
		{"default", onerun.LockName("job/" + long + "1")},
		{"default", onerun.LockName("job/" + long + "2")},
		{"default", onerun.LockName("job/" + long[:99] + "1")},
		{"default", onerun.LockName("job/" + long[:99] + "2")},
		// no two of these may become one by the way they are put together
		{"a", "job/b"},
		{"a1:b", "job/"},
		{"ajob/", "b"},
		{"", "ajob/b"},
		{"ab", "job/"},
		{"default", "job/.."},
		{"default", "job/../../etc/passwd"},
		{"..", "job/.."},
		{"default", "job/a\x00b"},
		{"default", "../x/y"},
		{"default", ""},
	}
	pattern := regexp.MustCompile(`^[A-Za-z0-9._-]{0,4}-[A-Za-z0-9._-]{0,40}-[0-9a-f]{32}$`)
	seen := map[string]int{}
	for i, l := range locks {
		name := FileName(l.ns, l.lock)
		if !pattern.MatchString(name) {
			t.Errorf("%q %q: %q", l.ns, l.lock, name)
		}
		if other, ok := seen[strings.ToLower(name)]; ok { // as on a file system that ignores case
			t.Errorf("%+v and %+v have one file: %s", l, locks[other], name)
		}
		seen[strings.ToLower(name)] = i
	}
	if strings.Contains(FileName("default", "key/daily:2026-09-15"), "2026") {
		t.Error("a partition can be read in a file name")
	}
	if !strings.HasPrefix(FileName("default", "job/daily-settlement"), "job-daily-settlement-") {
		t.Error("a plain name can't be read in its file name")
	}
	// two spellings of one name are one lock (UAX #15)
	if FileName("default", "job/caf\u00e9") != FileName("default", "job/cafe\u0301") {
		t.Error("NFC and NFD have two files")
	}
	// the name of a file is for ever: older versions must find the same one
	if got, want := FileName("default", "job/daily-settlement"), "job-daily-settlement-f66219054bbb7aaead14cf02763b6789"; got != want {
		t.Errorf("the file name changed: %s, was %s", got, want)
	}
}

func TestOffsets(t *testing.T) {
	here, there := &Dir{tag: 1<<tagBits - 1}, &Dir{tag: 1 << (tagBits - 1)}
	for _, base := range []string{"job-x-" + strings.Repeat("f", 32), base()} {
		lock, trace, err := here.offsets(base)
		if err != nil || lock < 0 || uint64(lock)>>rangeBits != 0 || trace < 0 || uint64(trace)>>traceBits != here.tag {
			t.Errorf("%s: offsets %x, %x, error %v", base, lock, trace, err)
		}
		if lock2, trace2, _ := there.offsets(base); lock2 != lock || trace2 == trace {
			t.Errorf("%s: offsets %x, %x, and elsewhere %x, %x", base, lock, trace, lock2, trace2)
		}
	}
	for _, base := range []string{"", "x", "job-x-" + strings.Repeat("g", 32)} {
		if _, _, err := here.offsets(base); err == nil {
			t.Errorf("%q has offsets", base)
		}
	}
	if tagOf(1, 2, "d") == tagOf(2, 1, "d") || tagOf(1, 23, "d") == tagOf(12, 3, "d") || tagOf(1, 2, "d") == tagOf(1, 2, "e") || tagOf(^uint64(0), ^uint64(0), "d") >= 1<<tagBits {
		t.Error("tags are not told apart, or too large")
	}
	tags := map[uint64]bool{}
	for ino := range uint64(2000) {
		tags[tagOf(1, ino, "locks")] = true
	}
	if len(tags) != 2000 { // else a free lock in a new directory looks held in another
		t.Errorf("2000 directories have %d tags", len(tags))
	}
}

func TestOwner(t *testing.T) {
	if !isOwner(onerun.NewID()) {
		t.Error("an owner id is not taken for one")
	}
	for _, s := range []string{"", "abc", strings.Repeat("a", 33), "ABCDEF0123456789", "0123456789abcdeg", "../0123456789", "i123456789"} {
		if isOwner(s) {
			t.Errorf("%q is taken for an owner id", s)
		}
	}
	// the longest name of all: a mark at the last level
	name := FileName("n", onerun.JobLock(strings.Repeat("x", 100))) + exclSuffix
	for range maxMarks {
		name = markName(name, strings.Repeat("a", 32))
	}
	if len(name) > 255 {
		t.Errorf("a mark's name has %d bytes", len(name))
	}
}
