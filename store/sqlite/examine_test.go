package sqlite_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// onDisk makes a test's directory look as if it were on a disk; where it is can't be hidden.
const onDisk = 0xEF53

// examined looks at a store, and leaves out what is said of every test's directory.
func examined(t testing.TB, path string, opts ...sqlite.Option) []onerun.Finding {
	t.Helper()
	opts = append([]sqlite.Option{sqlite.Looking(), sqlite.WithFSType(onDisk)}, opts...)
	s, err := sqlite.Open(t.Context(), path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Examine(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(found, func(f onerun.Finding) bool { return f.Check == "temporary-place" })
}

// worse are the findings that are not ok.
func worse(found []onerun.Finding) []onerun.Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f onerun.Finding) bool { return f.Status == onerun.FindingOK })
}

// says checks that there is exactly one finding of a check that is not ok, or more that are
// alike, and nothing else that is wrong.
func says(t testing.TB, found []onerun.Finding, check string, status onerun.FindingStatus, words string) {
	t.Helper()
	bad := worse(found)
	if len(bad) == 0 {
		t.Fatalf("nothing is found, want %s %s", status, check)
	}
	hit := false
	for _, f := range bad {
		if f.Status != onerun.FindingUnknown && (f.Check != check || f.Status != status) {
			t.Errorf("also found: %+v", f)
		}
		hit = hit || strings.Contains(f.Evidence, words)
		if f.Status == onerun.FindingDanger && f.Remedy == "" {
			t.Errorf("a danger without a remedy: %+v", f)
		}
	}
	if !hit {
		t.Errorf("%q is not among %+v", words, bad)
	}
}

// snapshot is every file below a directory, with what is in it. Of the database it takes
// what SQLite's readers never change: its name.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		all[path] = st.Mode().String()
		if st.Mode().IsRegular() && !strings.Contains(path, sqlite.DatabaseName) {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			all[path] += string(sum[:])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestExamineHealthy: nothing is wrong with a store that has some history, and it is the
// same afterwards.
func TestExamineHealthy(t *testing.T) {
	t.Parallel()
	path := used(t)
	before := snapshot(t, filepath.Dir(path))
	found := examined(t, path)
	if bad := worse(found); len(bad) > 0 {
		t.Errorf("found: %+v", bad)
	}
	var checks []string
	for _, f := range found {
		checks = append(checks, f.Check)
		if f.Evidence == "" {
			t.Errorf("%s has no evidence", f.Check)
		}
	}
	for _, want := range []string{
		"file-system", "surroundings", "disk-room", "permissions", "owners", "lock-directory", "lock-files",
		"schema", "integrity", "unique-indexes", "journal-mode", "event-chain", "waiting-ends", "stale-runs",
	} {
		if !slices.Contains(checks, want) {
			t.Errorf("%s was not looked at: %s", want, checks)
		}
	}
	s := open(t, path, sqlite.Looking())
	err := s.Pause(soon(t), onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: "settle", Who: onerun.Who{By: "ann", Reason: "why"}})
	if jobs, e := s.Jobs(soon(t), onerun.DefaultNamespace); err == nil || e != nil || len(jobs) > 0 {
		t.Errorf("a store that was opened for looking was written to: %v %v %v", jobs, err, e)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	after := snapshot(t, filepath.Dir(path))
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s was changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("there were %d files, and are %d", len(before), len(after))
	}
}

// TestExamineMakesNothing: what isn't there is not there afterwards.
func TestExamineMakesNothing(t *testing.T) {
	t.Parallel()
	dir := home(t)
	path := filepath.Join(dir, sqlite.DatabaseName)
	says(t, slices.DeleteFunc(examined(t, path), func(f onerun.Finding) bool { return f.Check == "lock-directory" }),
		"store", onerun.FindingUnknown, "there is no store yet")
	if left := snapshot(t, dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
	s := open(t, path, sqlite.Looking())
	if _, err := s.Claim(soon(t), claimOf("settle", day)); err == nil {
		t.Error("a store that was opened for looking grants a claim")
	}
	if _, err := s.Runs(soon(t), onerun.Query{Namespace: onerun.DefaultNamespace}); err == nil {
		t.Error("a store that isn't there lists runs")
	}
	if left := snapshot(t, dir); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// TestExamineLedger: each thing that can be wrong with the database is found as what it is.
func TestExamineLedger(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, check string
		status      onerun.FindingStatus
		words       string
		spoil       func(t *testing.T, path string)
	}{
		{"no database", "integrity", onerun.FindingDanger, "not a database", func(t *testing.T, path string) { rewrite(t, path, []byte(strings.Repeat("no database. ", 1000))) }},
		{"cut in half", "integrity", onerun.FindingDanger, "", func(t *testing.T, path string) { b := read(t, path); rewrite(t, path, b[:len(b)/2]) }},
		{"a page zeroed", "integrity", onerun.FindingDanger, "", func(t *testing.T, path string) {
			d := rawSQL(t, path)
			page := one[int](t, d, "SELECT rootpage FROM sqlite_schema WHERE name = 'onerun_skip'")
			size := one[int](t, d, "PRAGMA page_size")
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			b := read(t, path)
			clear(b[(page-1)*size : page*size])
			rewrite(t, path, b)
		}},
		{"a row that can't be", "integrity", onerun.FindingDanger, "CHECK constraint failed", func(t *testing.T, path string) {
			mustExec(t, rawSQL(t, path), "PRAGMA ignore_check_constraints = 1; UPDATE onerun_run SET status = 'DONE' WHERE partition = '"+day+"'")
		}},
		{"somebody else's", "schema", onerun.FindingDanger, "not one of onerun's", func(t *testing.T, path string) {
			remove(t, path)
			d := rawSQL(t, path)
			mustExec(t, d, "CREATE TABLE customer (id INTEGER PRIMARY KEY)")
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
		{"newer", "schema", onerun.FindingDanger, "not one of this program's", func(t *testing.T, path string) {
			d := rawSQL(t, path)
			version := one[int](t, d, "PRAGMA user_version")
			_ = d.Close()
			pragma(t, path, "user_version", version+1)
		}},
		{"older", "schema", onerun.FindingWarning, "version 4, and this program's is 5", func(t *testing.T, path string) {
			d := rawSQL(t, path)
			version := one[int](t, d, "PRAGMA user_version")
			_ = d.Close()
			pragma(t, path, "user_version", version-1)
		}},
		{"an index dropped", "unique-indexes", onerun.FindingDanger, "onerun_run_running is missing", func(t *testing.T, path string) {
			mustExec(t, rawSQL(t, path), "DROP INDEX onerun_run_running")
		}},
		{"an index that isn't unique", "unique-indexes", onerun.FindingDanger, "onerun_attempt_running is another one", func(t *testing.T, path string) {
			mustExec(t, rawSQL(t, path), "DROP INDEX onerun_attempt_running; CREATE INDEX onerun_attempt_running ON onerun_attempt (run_id) WHERE status = 'RUNNING'")
		}},
		{"another journal", "journal-mode", onerun.FindingWarning, "delete", func(t *testing.T, path string) {
			d := rawSQL(t, path)
			if mode := one[string](t, d, "PRAGMA journal_mode = DELETE"); mode != "delete" {
				t.Fatal(mode)
			}
			_ = d.Close()
		}},
		{"a second name", "store-file", onerun.FindingDanger, "hard link", func(t *testing.T, path string) {
			other := filepath.Join(home(t), "other")
			if err := os.Link(path, other); err != nil {
				t.Fatal(err)
			}
		}},
		{"a link", "store-file", onerun.FindingDanger, "symbolic link", func(t *testing.T, path string) {
			other := filepath.Join(home(t), "other")
			if err := os.Rename(path, other); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(other, path); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := used(t)
			c.spoil(t, path)
			says(t, examined(t, path), c.check, c.status, c.words)
		})
	}
}

// TestExamineChain: a row of the journal that was changed, moved, inserted or removed shows,
// with its id and its chain.
func TestExamineChain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, words, sql string }{
		{"a reason changed", "row 2 of chain operator (resumed)", "UPDATE onerun_event SET reason = 'other' WHERE id = 2"},
		{"a person changed", "row 1 of chain operator (paused)", "UPDATE onerun_event SET by = 'eve' WHERE id = 1"},
		{"a time changed", "row 3 of chain operator", "UPDATE onerun_event SET at = at + 1 WHERE id = 3"},
		{"another type", "row 3 of chain operator", "UPDATE onerun_event SET at = 'soon' WHERE id = 3"},
		{"a hash changed", "row 2 of chain operator", "UPDATE onerun_event SET hash = 'abc' WHERE id = 2"},
		{"one removed", "row 3 of chain operator", "DELETE FROM onerun_event WHERE id = 2"},
		{"the first removed", "row 2 of chain operator", "DELETE FROM onerun_event WHERE id = 1"},
		{"two exchanged", "row 2 of chain operator", "UPDATE onerun_event SET id = -1 WHERE id = 2; UPDATE onerun_event SET id = 2 WHERE id = 3; UPDATE onerun_event SET id = 3 WHERE id = -1"},
		{"one inserted", "row 9 of chain operator", "INSERT INTO onerun_event SELECT 9, at, event, namespace, job, key, run_id, by, reason, detail, chain, hash, terminal FROM onerun_event WHERE id = 1"},
		{"a machine's changed", "row 6 of chain 0", "UPDATE onerun_event SET detail = 'other' WHERE id = 6"},
		{"one put into a chain of its own", "row 1 of chain mine", "UPDATE onerun_event SET chain = 'mine' WHERE id = 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.lived(claimOf("settle", day), onerun.Succeeded)
			p := onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: "settle", Who: onerun.Who{By: "ann", Reason: "why", Terminal: "/dev/pts/1"}}
			for range 2 {
				if err := b.Pause(soon(t), p); err != nil {
					t.Fatal(err)
				}
				if err := b.Resume(soon(t), p); err != nil {
					t.Fatal(err)
				}
				p.Terminal = ""
			}
			for _, job := range []string{"one", "two"} { // whose ends come late: a chain each
				if _, died := life(t, b, plan{KillAt: stepRecord}, claimOf(job, day), ended(onerun.Succeeded)); !died {
					t.Fatal("it lived on")
				}
			}
			if _, err := b.Flush(soon(t)); err != nil {
				t.Fatal(err)
			}
			before := examined(t, b.path)
			if bad := worse(before); len(bad) > 0 {
				t.Fatalf("before: %+v", bad)
			}
			if !slices.ContainsFunc(before, func(f onerun.Finding) bool { return strings.HasPrefix(f.Evidence, "6 events in 3 chains") }) {
				t.Fatalf("before: %+v", before)
			}
			mustExec(t, b.sql(), c.sql)
			says(t, examined(t, b.path), "event-chain", onerun.FindingDanger, c.words)
		})
	}
}

// TestExamineChainOfOldSchema: version 1 of the schema knew no terminals.
func TestExamineChainOfOldSchema(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := b.Pause(soon(t), onerun.PauseRequest{Namespace: onerun.DefaultNamespace, Job: "settle", Who: onerun.Who{By: "ann", Reason: "why"}}); err != nil {
		t.Fatal(err)
	}
	mustExec(t, b.sql(), "ALTER TABLE onerun_event DROP COLUMN terminal")
	version := one[int](t, b.sql(), "PRAGMA user_version")
	old := version - version%256 + 1
	pragma(t, b.path, "user_version", old)
	found := examined(t, b.path)
	says(t, found, "schema", onerun.FindingWarning, "version 1")
	if got := one[int](t, b.sql(), "PRAGMA user_version"); got != old {
		t.Errorf("the schema was brought up by looking: %d", got)
	}
	mustExec(t, b.sql(), "UPDATE onerun_event SET reason = 'other'")
	if bad := worse(examined(t, b.path)); len(bad) != 2 || bad[1].Check != "event-chain" {
		t.Errorf("found: %+v", bad)
	}
}

// TestExamineEndsAndSuspects: an end that waits, and a run whose owner is gone.
func TestExamineEndsAndSuspects(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if _, died := life(t, b, plan{KillAt: stepRecord}, claimOf("settle", day), ended(onerun.Succeeded)); !died {
		t.Fatal("it lived on")
	}
	found := examined(t, b.path)
	says(t, slices.DeleteFunc(found, func(f onerun.Finding) bool { return f.Check == "stale-runs" }), "waiting-ends", onerun.FindingDanger, "settle, attempt 1")
	if _, err := b.Flush(soon(t)); err != nil {
		t.Fatal(err)
	}
	if bad := worse(examined(t, b.path)); len(bad) > 0 {
		t.Errorf("after the delivery: %+v", bad)
	}
	byHand := claimOf("pay", day)
	byHand.OnCrash = onerun.CrashManual
	if _, died := life(t, b, plan{KillAt: stepOutcome}, byHand, ended(onerun.Succeeded)); !died {
		t.Fatal("it lived on")
	}
	says(t, examined(t, b.path), "stale-runs", onerun.FindingWarning, "pay:"+day)
}

// TestExamineTakesItsTime: what takes too long is unknown, and not a fault.
func TestExamineTakesItsTime(t *testing.T) {
	t.Parallel()
	found := worse(examined(t, used(t), sqlite.WithExamineTime(time.Nanosecond)))
	if len(found) != 2 || found[0].Check != "integrity" || found[1].Check != "event-chain" {
		t.Fatalf("found: %+v", found)
	}
	for _, f := range found {
		if f.Status != onerun.FindingUnknown || !strings.Contains(f.Remedy, "--store-timeout") {
			t.Errorf("found: %+v", f)
		}
	}
}
