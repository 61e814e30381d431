package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestContention: two processes that see one lock directory exclude each other in every
// round; two that each see another don't, and that is told from the first.
func TestContention(t *testing.T) {
	t.Parallel()
	dirs := [2]string{filepath.Join(t.TempDir(), "locks"), filepath.Join(t.TempDir(), "locks")}
	for _, c := range []struct {
		dirs [2]string
		want string
	}{
		{[2]string{dirs[0], dirs[0]}, yes},
		{dirs, no},
	} {
		got, evidence := contention(t.Context(), program(), c.dirs)
		if got != c.want {
			t.Errorf("%s: %s: %s", c.dirs, got, evidence)
		}
	}
	if got, evidence := contention(t.Context(), program(), [2]string{"/no/such", "/no/such"}); got != unknown {
		t.Errorf("without a directory: %s: %s", got, evidence)
	}
	for _, mode := range probeModes {
		if found, err := bury(t.Context(), program(), dirs[0], mode); found != "won after dead" || err != nil {
			t.Errorf("after a kill, mode %s: %q %v", mode, found, err)
		}
	}
	for _, dir := range dirs {
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 || left[0].Name() != ".held" {
			t.Errorf("left in %s: %v %v", dir, left, err)
		}
	}
}

// TestCronLine reads lines of crontabs as cron and its shell do.
func TestCronLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line, account string
		want          cronStart
		not           bool
	}{
		{line: "0 1 * * *  onerun run settle --date yesterday --tz UTC -- /usr/bin/settle --store x", account: "ann", want: cronStart{account: "ann", start: start{command: "run", job: "settle", keyed: true}}},
		{line: "0 1 * * * root /usr/bin/onerun run settle --store sqlite:/a -- x", want: cronStart{account: "root", url: "sqlite:/a", start: start{command: "run", job: "settle", store: "sqlite:/a"}}},
		{line: "@daily\tbob\tcd /srv && ONERUN_STORE='sqlite:/b c' nice onerun run fetch -- fetch >/dev/null", want: cronStart{account: "bob", url: "sqlite:/b c", start: start{command: "run", job: "fetch"}}},
		{line: `*/5 * * * * onerun lock report --lock-dir /x -- sh -c "a | b"`, account: "ann", want: cronStart{account: "ann", start: start{command: "lock", lockDir: "/x"}}},
		{line: "0 1 * * * onerun --store sqlite:/a run settle -c 'a | b'", account: "ann", want: cronStart{account: "ann", url: "sqlite:/a", start: start{command: "run", job: "settle", store: "sqlite:/a"}}},
		{line: "0 1 * * * onerun history", account: "ann", not: true},
		{line: "0 1 * * * /usr/bin/settle", account: "ann", not: true},
		{line: "0 1 * *", account: "ann", not: true},
		{line: "@daily", not: true},
	} {
		got, ok := cronLine(c.line, c.account)
		if ok == c.not || !c.not && got != c.want {
			t.Errorf("%q: %t %+v, want %+v", c.line, ok, got, c.want)
		}
	}
	words := shellWords(`a 'b c' "d \" e" f\ g  ''h`)
	if want := []string{"a", "b c", `d " e`, "f g", "h"}; !slices.Equal(words, want) {
		t.Errorf("words: %q, want %q", words, want)
	}
}

// TestVerdict: the last line says the worst in words.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for status, want := range map[onerun.FindingStatus]string{
		onerun.FindingDanger: "not safe here", onerun.FindingWarning: "safe here now", onerun.FindingUnknown: "as far as can be seen", onerun.FindingOK: "as far as can be seen",
	} {
		if got := verdict(map[onerun.FindingStatus]int{status: 1}); !strings.Contains(got, want) {
			t.Errorf("%s: %s", status, got)
		}
	}
}
