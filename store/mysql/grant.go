package mysql

import (
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// grantNew writes the first attempt of a new run down, or a lock alone, and commits: the second
// round trip of a claim that nothing is in the way of.
func (q *question) grantNew(t *tx, f found) error {
	if err := t.wantFence(q.Namespace, q.Lock, f.fenced); err != nil {
		return err
	}
	token := onerun.NextToken(f.token, t.now)
	b := &batch{}
	q.addFence(b, f)
	q.addGrant(b, t.now, token, 1, nil, nil)
	b.add(commit)
	q.s.hook("commit the claim")
	if err := t.run(b); err != nil {
		return err
	}
	g := q.granted(t.now, token)
	if q.Job == "" {
		g.Run = aloneRun(g.Lease, q.worker, t.now)
	} else {
		g.Lease.RunID, g.Lease.Attempt = q.RunID, 1
		g.Run = q.newRun(t.now, token)
	}
	q.answer.grant = g
	return nil
}

// grantOn writes a grant down that followed from more than a first look.
func (q *question) grantOn(t *tx, v onerun.Verdict, run *sqlledger.RunRow, f found) error {
	if err := t.wantFence(q.Namespace, q.Lock, f.fenced); err != nil {
		return err
	}
	token := onerun.NextToken(f.token, t.now)
	b := &batch{}
	q.addFence(b, f)
	q.addGrant(b, t.now, token, v.Attempt, run, v.Spend)
	g := q.granted(t.now, token)
	if q.Job == "" {
		g.Run = aloneRun(g.Lease, q.worker, t.now)
		b.add(commit)
		q.answer.grant = g
		q.s.hook("commit the claim")
		return t.run(b)
	}
	if err := t.run(b); err != nil {
		return err
	}
	id := q.RunID
	if run != nil {
		id = run.RunID
	}
	var err error
	if g.Run, err = t.RunByID(id); err != nil {
		return err
	}
	g.Lease.RunID, g.Lease.Attempt = id, v.Attempt
	q.answer.grant = g
	q.s.hook("commit the claim")
	return t.exec(commit)
}

func (q *question) granted(at time.Time, token int64) onerun.Grant {
	return onerun.Grant{At: at, Lease: onerun.Lease{
		Namespace: q.Namespace, Lock: q.Lock, Owner: q.Owner, Token: token, TTL: sqlledger.Micro(q.ttl),
	}}
}

// aloneRun stands for the run of a claim of the lock alone, which has none.
func aloneRun(l onerun.Lease, w onerun.Worker, at time.Time) onerun.Run {
	return onerun.Run{Namespace: l.Namespace, Lock: l.Lock, Execution: onerun.Execution{Owner: l.Owner, Token: l.Token, Worker: w, StartedAt: at}}
}

// newRun is the new run of a claim, as it is kept. How often its key was refused before is not asked for.
func (q *question) newRun(now time.Time, token int64) onerun.Run {
	expires := now.Add(sqlledger.Micro(q.ttl))
	return onerun.Run{
		RunID: q.RunID, Namespace: q.Namespace, Job: q.Job, Partition: q.Partition, BusinessDate: q.BusinessDate, Lock: q.Lock,
		Status: onerun.Running, Attempt: 1, ScheduledAt: fromMicros(micros(q.ScheduledAt)), VersionLabel: q.VersionLabel, Labels: q.Labels,
		Execution: onerun.Execution{
			Owner: q.Owner, Token: token, Worker: q.worker, StartedAt: now, LeaseExpiresAt: expires, StaleAfter: q.StaleAfter, OnCrash: q.OnCrash, TwoPeople: q.TwoPeople,
		},
		Liveness: onerun.Unknown, Evidence: "its lease runs until " + expires.Format(time.RFC3339),
	}
}

// addFence adds the row of the fence of a lock that nobody has had yet. It is older than every
// transaction of the owner's then: one that sees what was there when it began, and nothing that
// came later, couldn't share a row that is made only when it asks for it.
func (q *question) addFence(b *batch, f found) {
	if f.token == 0 {
		b.add(`INSERT IGNORE INTO onerun_fence (namespace, "lock") VALUES (?, ?)`, q.Namespace, q.Lock)
	}
}

// addGrant adds the statements that write a grant down. Each expects that the one before it has
// changed one row; where that isn't so, a token would be NULL, which the server refuses: all is
// undone then, and asked again.
func (q *question) addGrant(b *batch, now time.Time, token int64, number int, run *sqlledger.RunRow, spend *onerun.Approval) {
	w := sqlledger.WorkerOf(q.worker)
	id, attempt := null(q.RunID), null(number)
	at, worker := now.UnixMicro(), null(q.worker.String())
	if q.Job == "" {
		id, attempt = nil, nil
	} else {
		twoPeople := q.TwoPeople
		if run == nil {
			q.addRun(b, at, token, worker, w)
		} else {
			id, twoPeople = &run.RunID, twoPeople || run.TwoPeople // what was once asked of its reruns stays
			b.add(`UPDATE onerun_run SET status = 'RUNNING', attempt = ?, "lock" = ?, running_lock = ?, started_at = ?, token = ?, worker_id = ?, host = ?, pid = ?,
					stale_after = ?, version_label = ?, labels = ?, finished_at = NULL, next_retry_at = NULL, reason = NULL, exit_code = NULL, "signal" = NULL,
					error = NULL, processed = NULL, failed = NULL
				WHERE run_id = ? AND status = ? AND attempt = ?`,
				number, q.Lock, q.Lock, at, token, worker, w.Host, w.PID, null(q.StaleAfter.Microseconds()), null(q.VersionLabel), null(q.labels),
				run.RunID, run.Status, run.Attempt)
		}
		b.add(`INSERT INTO onerun_attempt (run_id, attempt, status, running_run, owner, token, "lock", worker_id, host, machine, boot, pid_ns, time_ns, pid, start_ticks,
				in_process, ttl, on_crash, two_people, stale_after, retries, backoff_min, backoff_max, retry_lost, started_at)
			VALUES (?, ?, 'RUNNING', ?, ?, IF(ROW_COUNT() = 1, ?, NULL), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id, number, id, q.Owner, token, q.Lock, worker, w.Host, w.Machine, w.Boot, w.PIDNS, w.TimeNS, w.PID, w.StartTicks,
			q.InProcess, q.ttl, q.OnCrash, twoPeople, null(q.StaleAfter.Microseconds()), q.Retries, q.BackoffMin.Microseconds(), q.BackoffMax.Microseconds(),
			q.RetryLost, at)
		if spend != nil {
			b.add("UPDATE onerun_approval SET used_at = ?, used_attempt = ?, open_run = NULL WHERE id = ? AND used_at IS NULL", at, number, spend.ID)
		}
	}
	took := "IF(ROW_COUNT() = 1, ?, NULL)"
	if q.Job == "" {
		took = "?"
	}
	b.add(`UPDATE onerun_lock SET token = `+took+`, owner = ?, run_id = ?, attempt = ?, ttl = ?, expires_at = ?, on_crash = ?, acquired_at = ?, worker_id = ?, host = ?,
			pid = ?, stop = NULL, fenced = FALSE WHERE namespace = ? AND "lock" = ?`,
		token, q.Owner, id, attempt, q.ttl, at+q.ttl, q.OnCrash, at, worker, w.Host, w.PID, q.Namespace, q.Lock)
}

// addRun adds a new run. It isn't made where the job is paused, or the key was pruned.
func (q *question) addRun(b *batch, at, token int64, worker *string, w sqlledger.WorkerRow) {
	values := []any{
		q.RunID, q.Namespace, q.Job, null(q.Partition), null(q.Key()), null(q.BusinessDate), q.Lock, q.Lock, micros(q.ScheduledAt), at, token, worker, w.Host, w.PID,
		null(q.StaleAfter.Microseconds()), null(q.VersionLabel), null(q.labels),
	}
	where := "NOT EXISTS (SELECT 1 FROM onerun_job j WHERE j.namespace = ? AND j.job = ? AND j.paused_at IS NOT NULL)"
	args := append(values, q.Namespace, q.Job)
	if q.Partition != "" {
		where += ` AND NOT EXISTS (SELECT 1 FROM onerun_tombstone t WHERE t.namespace = ? AND t."key" = ?)`
		args = append(args, q.Namespace, q.Key())
	}
	b.add(`INSERT INTO onerun_run (run_id, namespace, job, "partition", "key", business_date, "lock", running_lock, scheduled_at, started_at, token,
		worker_id, host, pid, stale_after, version_label, labels, status, attempt) SELECT `+places(len(values))+`, 'RUNNING', 1 FROM DUAL WHERE `+where, args...)
}
