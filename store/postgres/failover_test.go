package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
)

// pair is a primary and a standby that follows it by streaming replication.
type pair struct {
	t                testing.TB
	primary, standby *pgbed.Server
	url              string // of both, whichever may be written to
}

func newPair(t testing.TB, args ...string) *pair {
	t.Helper()
	p := &pair{t: t}
	var err error
	p.primary, err = newServer(args...)
	must(t, err, "start a server")
	stopsAfter(t, p.primary)
	p.standby, err = bed.Standby(p.primary, "second", "-c", "max_connections=400", "-c", "shared_buffers=32MB")
	must(t, err, "start a standby")
	stopsAfter(t, p.standby)
	one := p.primary.URL("postgres", "schema", "onerun", "target_session_attrs", "read-write")
	p.url = strings.Replace(one, "/postgres?", fmt.Sprintf(",127.0.0.1:%d/postgres?", p.standby.Port), 1)
	return p
}

// caughtUp waits until the standby has all that was committed.
func (p *pair) caughtUp() {
	p.t.Helper()
	var at string
	must(p.t, direct(p.t, p.primary.URL("postgres")).QueryRow(soon(p.t), "SELECT pg_current_wal_flush_lsn()::text").Scan(&at), "ask the primary how far it is")
	waitFor(p.t, p.standby.URL("postgres"), "the standby to catch up", "SELECT pg_last_wal_replay_lsn() >= '"+at+"'")
}

// cut parts the two.
func (p *pair) cut() {
	p.t.Helper()
	standby := direct(p.t, p.standby.URL("postgres"))
	mustExec(p.t, standby, "ALTER SYSTEM SET primary_conninfo = ''")
	mustExec(p.t, standby, "SELECT pg_reload_conf()")
	waitFor(p.t, p.primary.URL("postgres"), "nobody to follow", "SELECT count(*) = 0 FROM pg_stat_replication")
}

// failOver kills the primary, and makes the standby one.
func (p *pair) failOver() {
	p.t.Helper()
	p.primary.Stop(syscall.SIGQUIT)
	mustExec(p.t, direct(p.t, p.standby.URL("postgres")), "SELECT pg_promote()")
}

// TestFailoverLoses: the standby that takes over lacks the last moments. A claim that it has
// goes on as if nothing had been. The owner of one that vanished hears that it is lost, and
// can't record its end. A date that SUCCEEDED meanwhile runs again. Tokens go on above those
// that were lost.
func TestFailoverLoses(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	s := open(t, p.url)
	_, _, err := s.Migrate(soon(t))
	must(t, err, "migrate")
	runner := onerun.NewRunner(s, onerun.WithStoreTimeout(30*time.Second))
	run := func(name string, started chan<- onerun.Lease, release <-chan struct{}) chan error {
		ended := make(chan error, 1)
		go func() {
			job := onerun.Job{Name: name, Partition: "2026-09-15", Policy: onerun.Policy{TTL: 20 * time.Second}}
			ended <- runner.Do(soon(t), job, func(ctx context.Context, o *onerun.Owner) error {
				started <- o.Lease()
				select {
				case <-release:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
		}()
		return ended
	}
	started, release := make(chan onerun.Lease, 1), make(chan struct{})
	kept := run("kept", started, release)
	<-started
	p.caughtUp()
	p.cut()
	vanished := run("vanished", started, nil)
	lease := <-started
	done := granted(t, s, claimOf("done", "2026-09-15"))
	succeed(t, s, done)
	refused(t, s, claimOf("done", "2026-09-15"), onerun.RefusedSucceeded)
	p.failOver()

	err = <-vanished
	if !errors.Is(err, onerun.ErrLost) {
		t.Errorf("the owner of a claim that vanished is told: %v", err)
	}
	_, err = s.Heartbeat(soon(t), lease)
	if !errors.Is(err, onerun.ErrLost) {
		t.Errorf("a heartbeat of a claim that vanished: %v", err)
	}
	for what, l := range map[string]onerun.Lease{"a claim": lease, "an end": done.Lease} {
		if err := s.Finish(soon(t), l, onerun.Outcome{Status: onerun.Succeeded}); !errors.Is(err, onerun.ErrLost) {
			t.Errorf("to record the end of %s that vanished: %v", what, err)
		}
	}
	for _, l := range []onerun.Lease{lease, done.Lease} {
		job, _, _ := strings.Cut(strings.TrimPrefix(string(l.Lock), "job/"), ":")
		g := granted(t, s, claimOf(job, "2026-09-15")) // it runs again
		if g.Lease.Token <= l.Token {
			t.Errorf("%s: token %d after %d, which was lost", job, g.Lease.Token, l.Token)
		}
		succeed(t, s, g)
	}
	refused(t, s, claimOf("kept", "2026-09-15"), onerun.RefusedRunning)
	close(release)
	must(t, <-kept, "the job whose claim the standby had")
	refused(t, s, claimOf("kept", "2026-09-15"), onerun.RefusedSucceeded)
}

// TestFailoverSynchronous: with a standby that commits wait for, nothing that was acknowledged
// is lost; and while that one is away, nothing is acknowledged.
func TestFailoverSynchronous(t *testing.T) {
	t.Parallel()
	p := newPair(t, "-c", "synchronous_standby_names=second")
	s := open(t, p.url)
	running := granted(t, s, claimOf("running", "2026-09-15"))
	succeed(t, s, granted(t, s, claimOf("done", "2026-09-15")))
	p.cut()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := s.Claim(ctx, claimOf("late", "2026-09-15"))
	told(t, "a claim without the standby", err, onerun.ErrUnavailable, "in time")
	p.failOver()
	refused(t, s, claimOf("done", "2026-09-15"), onerun.RefusedSucceeded)
	if _, err := s.Heartbeat(soon(t), running.Lease); err != nil {
		t.Errorf("a heartbeat after the failover: %v", err)
	}
	succeed(t, s, running)
	succeed(t, s, granted(t, s, claimOf("late", "2026-09-15")))
}

// TestExamineStandbys: what a failover would lose.
func TestExamineStandbys(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	patient := newPatient(t, p.primary)
	admin := direct(t, p.primary.URL("postgres"))
	set := func(name, value string) {
		mustExec(t, admin, fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", name, value))
		mustExec(t, admin, "SELECT pg_reload_conf()")
		waitFor(t, p.primary.URL("postgres"), name+" to be set", fmt.Sprintf("SELECT current_setting('%s') = '%s'", name, value))
	}
	says(t, "a role that may not see", examined(t, patient.url), "standbys", onerun.FindingUnknown, "followed by 1,", "GRANT pg_monitor")
	patient.exec("GRANT pg_monitor TO {role}")
	says(t, "asynchronous", examined(t, patient.url), "standbys", onerun.FindingWarning, "standby second is asynchronous", "a failover can lose", "synchronous_standby_names")
	set("synchronous_standby_names", "second")
	waitFor(t, p.primary.URL("postgres"), "the standby to be synchronous", "SELECT bool_and(sync_state = 'sync') FROM pg_stat_replication")
	found := examined(t, patient.url)
	i := slices.IndexFunc(found, func(f onerun.Finding) bool { return f.Check == "standbys" })
	if len(worse(found)) > 0 || !strings.Contains(found[i].Evidence, "standby second is synchronous") {
		t.Errorf("synchronous: %+v, %+v", found[i], worse(found))
	}
	patient.exec("ALTER ROLE {role} SET synchronous_commit = local")
	says(t, "synchronous, and not waited for", examined(t, patient.url), "standbys", onerun.FindingWarning, "local", "RESET synchronous_commit")
	patient.exec("ALTER ROLE {role} RESET synchronous_commit")
	p.cut()
	says(t, "synchronous, and away", examined(t, patient.url), "standbys", onerun.FindingDanger, "none of them is connected", "no start gets through")

	onStandby := strings.Replace(patient.url, fmt.Sprintf(":%d/", p.primary.Port), fmt.Sprintf(":%d/", p.standby.Port), 1)
	says(t, "the standby itself", examined(t, onStandby), "primary", onerun.FindingDanger, "standby", "target_session_attrs=read-write")
}
