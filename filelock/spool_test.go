package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// unclaimedRun is one with all that the record can hold.
func unclaimedRun() Unclaimed {
	at := time.Date(2026, 9, 15, 1, 0, 0, 5e6, time.UTC)
	worker := thisWorker()
	worker.Label = "w"
	return Unclaimed{
		Store: "postgres://db:5432/jobs?schema=s", StartedAt: at, Worker: worker, Proven: []Proven{{Owner: onerun.NewID(), Void: true, Evidence: "gone"}},
		RunID: onerun.NewRunID(at.Add(-time.Hour)), Attempt: 2,
		Claim: onerun.Claim{
			Namespace: "default", Job: "j", Partition: "2026-09-15", BusinessDate: "2026-09-15", Lock: "job/j", LockMode: onerun.LockFlock,
			RunID: onerun.NewRunID(at), ScheduledAt: at.Add(-time.Second), InProcess: true, WorkerLabel: "w", VersionLabel: "v", Granted: 7, Labels: map[string]string{"a": "1\n2", "日": "x"},
			Policy: onerun.Policy{
				TTL: time.Minute, OnCrash: onerun.CrashAuto, StaleAfter: time.Hour, Retries: 3, BackoffMin: time.Second, BackoffMax: time.Minute, RetryLost: true, TwoPeople: true,
			},
		},
	}
}

// failure is an end with all that one can hold.
func failure() onerun.Outcome {
	code, n, failed := 3, int64(5), int64(1)
	return onerun.Outcome{
		Status: onerun.Failed, Reason: onerun.ReasonExit, ExitCode: &code, Signal: "SIGTERM", Error: "no such account", Processed: &n, Failed: &failed,
		FinishedAt: time.Date(2026, 9, 15, 1, 2, 0, 7e6, time.UTC), Void: true, Output: &onerun.Output{Text: "it printed\nthis", Total: 99, Truncated: true},
	}
}

func mustSpool(t testing.TB, l *Lock, u Unclaimed) *Spool {
	t.Helper()
	s, err := l.Spool(u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// spooled lists the runs that wait, none of which may be unreadable.
func spooled(t testing.TB, d *Dir) []Spooled {
	t.Helper()
	all, err := d.Spooled()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Err != nil {
			t.Fatal(s.Err)
		}
	}
	return all
}

// TestSpool: all that is known of a run is found in its file, whoever looks, and at each step
// what there is of its end. It outlives the lock.
func TestSpool(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			path := lockDir(t)
			d, other := mustOpen(t, path, Options{NoFlock: m.noFlock}), mustOpen(t, path, Options{NoFlock: m.noFlock, Looking: true})
			l := mustAcquire(t, d, request(m.mode))
			u := unclaimedRun()
			s := mustSpool(t, l, u)
			u.Claim.Owner, u.Claim.LockMode = l.note.Owner, m.mode
			see := func(begun bool, out *onerun.Outcome) {
				t.Helper()
				all := spooled(t, other)
				want := []Spooled{{Path: filepath.Join(path, base()+".spool-"+l.note.Owner), Base: base(), Owner: l.note.Owner, Run: u, Begun: begun, Outcome: out}}
				if !reflect.DeepEqual(all, want) {
					t.Fatalf("found %+v\nwant  %+v", all, want)
				}
			}
			see(false, nil)
			if err := s.Begin(); err != nil {
				t.Fatal(err)
			}
			see(true, nil)
			first := failure()
			if err := s.End(first); err != nil {
				t.Fatal(err)
			}
			see(true, &first)
			last := onerun.Outcome{Status: onerun.Succeeded, FinishedAt: first.FinishedAt}
			if err := s.End(last); err != nil {
				t.Fatal(err)
			}
			see(true, &last)
			mustRelease(t, l)
			see(true, &last)
			again, found, err := d.OpenSpool("default", "job/j", u.Claim.Owner)
			if err != nil || again == nil || !reflect.DeepEqual(found.Outcome, &last) {
				t.Fatalf("opened again: %+v, error %v", found, err)
			}
			if err := again.Remove(); err != nil || len(spooled(t, other)) > 0 {
				t.Errorf("removed: %v, error %v", spooled(t, other), err)
			}
			if again, _, err := d.OpenSpool("default", "job/j", u.Claim.Owner); again != nil || err != nil {
				t.Errorf("a file that is gone: %v, error %v", again, err)
			}
			if err := s.Remove(); err != nil {
				t.Errorf("removed by two: %v", err)
			}
			if err := s.End(last); !errors.Is(err, onerun.ErrLost) {
				t.Errorf("an end after that: %v", err)
			}
		})
	}
}

// TestSpoolOrder: those that began first come first.
func TestSpoolOrder(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{})
	u := unclaimedRun()
	var want, got []string
	for i := range 20 {
		l := mustAcquire(t, d, request(onerun.LockFlock))
		u.StartedAt, u.Claim.RunID = u.StartedAt.Add(time.Duration(i+1)*time.Second), onerun.NewRunID(time.Now())
		mustSpool(t, l, u)
		want = append(want, u.Claim.RunID)
		mustRelease(t, l)
	}
	for _, s := range spooled(t, d) {
		got = append(got, s.Run.Claim.RunID)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// TestSpoolLongTexts: labels may be as long as they like, and an end always has room, in place.
func TestSpoolLongTexts(t *testing.T) {
	d := mustOpen(t, lockDir(t), Options{})
	u := unclaimedRun()
	u.Claim.Labels = map[string]string{"long": strings.Repeat("\x01é", 50_000)}
	l := mustAcquire(t, d, request(onerun.LockFlock))
	s := mustSpool(t, l, u)
	before, err := os.Stat(s.path())
	if err != nil {
		t.Fatal(err)
	}
	out := failure()
	out.Error, out.Output = strings.Repeat("\x02", 5000), nil
	if err := s.End(out); err != nil {
		t.Fatal(err)
	}
	all := spooled(t, d)
	if len(all) != 1 || !reflect.DeepEqual(all[0].Run.Claim.Labels, u.Claim.Labels) || all[0].Outcome.Error == "" || all[0].Outcome.Reason != out.Reason {
		t.Fatalf("found %.300v", all)
	}
	if after, err := os.Stat(s.path()); err != nil || after.Size() != before.Size() {
		t.Errorf("the file grew from %d to %d bytes, error %v", before.Size(), after.Size(), err)
	}
}

// TestSpoolIsOurs: its names are known as the package's own, finished or not; what a job may be
// called makes no other file one.
func TestSpoolIsOurs(t *testing.T) {
	id := onerun.NewID()
	spool := base() + spoolInfix + id
	path := lockDir(t)
	for _, name := range []string{spool, spool + newInfix + id} {
		if !IsLockFile(name) {
			t.Errorf("%q is none", name)
		}
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := mustOpen(t, path, Options{})
	if foreign, err := d.Foreign(); err != nil || len(foreign) > 0 {
		t.Errorf("strange: %v, error %v", foreign, err)
	}
	if states, err := d.List(); err != nil || len(states) > 0 {
		t.Errorf("locks: %v, error %v", states, err)
	}
	for _, name := range []string{spool + "x", base() + ".spool-", base()[1:len(base())-1] + spoolInfix + id, FileName("n", "job/a"+onerun.LockName(spoolInfix+id))} {
		if IsLockFile(name) {
			t.Errorf("%q is one", name)
		}
	}
}

// TestSpoolUnreadable: a file that can't be understood is said to be there, and hides no other.
func TestSpoolUnreadable(t *testing.T) {
	path := lockDir(t)
	d := mustOpen(t, path, Options{})
	l := mustAcquire(t, d, request(onerun.LockFlock))
	s := mustSpool(t, l, unclaimedRun())
	whole, err := os.ReadFile(s.path())
	if err != nil {
		t.Fatal(err)
	}
	other := base() + spoolInfix + onerun.NewID()
	broken := map[string][]byte{
		"empty": nil, "cut": whole[:len(whole)-1], "another's": whole, "no record": append([]byte("{}\n"), whole[3:]...),
		"no JSON": append([]byte("x"), whole[1:]...), "an end that is none": append(whole[:len(whole)-3:len(whole)-3], "x\n\n"...),
	}
	for what, text := range broken {
		name := other
		if what == "an end that is none" {
			name = filepath.Base(s.path())
		}
		if err := os.WriteFile(filepath.Join(path, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := d.Spooled()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if filepath.Base(f.Path) != name {
				continue
			}
			wantKind(t, f.Err, onerun.ErrIO)
		}
		if name == other && len(all) != 2 {
			t.Errorf("%s: found %v", what, all)
		}
	}
	if err := os.Remove(filepath.Join(path, other)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.path(), filepath.Join(path, other)); err != nil {
		t.Fatal(err)
	}
	all, err := d.Spooled()
	if err != nil || len(all) != 2 {
		t.Fatalf("found %v, error %v", all, err)
	}
	for _, f := range all {
		if filepath.Base(f.Path) == other {
			wantKind(t, f.Err, onerun.ErrCreate)
		}
	}
}

// TestSpoolMark: a run that waits is seen by every other client of the directory, and where
// that can't be noted, it isn't begun.
func TestSpoolMark(t *testing.T) {
	path := lockDir(t)
	d := mustOpen(t, path, Options{Remote: true})
	wantKind(t, d.SetSpooled(), onerun.ErrIO) // no .held yet
	l := mustAcquire(t, d, request(onerun.LockFlock))
	if err := d.SetSpooled(); err != nil {
		t.Fatal(err)
	}
	if other := mustOpen(t, path, Options{Remote: true}); !waits(other) {
		t.Error("the mark isn't seen")
	}
	if local := mustOpen(t, path, Options{}); waits(local) {
		t.Error("the mark is the embedded store's too")
	}
	mustRelease(t, l)
}

// TestSpoolSwept: a file that was still being made when its maker died goes; one that has its
// name stays.
func TestSpoolSwept(t *testing.T) {
	path := lockDir(t)
	d := mustOpen(t, path, Options{})
	l := mustAcquire(t, d, request(onerun.LockFlock))
	u := unclaimedRun()
	u.Worker.PID, u.Worker.StartTicks = corpse(t)
	s := mustSpool(t, l, u)
	private := s.path() + newInfix + onerun.NewID()
	text, err := os.ReadFile(s.path())
	if err == nil {
		err = os.WriteFile(private, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.List(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(private); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the private file: %v", err)
	}
	if len(spooled(t, d)) != 1 {
		t.Error("the run is gone")
	}
}
