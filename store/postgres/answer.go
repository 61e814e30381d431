package postgres

import (
	"cmp"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// answer is what a function says that was asked about a claim; see sql/functions/06_claim.sql
// and 08_line.sql.
type answer struct {
	Result     string     `json:"result"`
	Words      string     `json:"words"`
	Version    int        `json:"version"`
	Adopted    bool       `json:"adopted"`
	NowUS      int64      `json:"now_us"`
	Token      int64      `json:"token"`
	TTL        int64      `json:"ttl"`
	AcquiredUS *int64     `json:"acquired_us"`
	Run        *runRow    `json:"run"`
	Closed     []runRow   `json:"closed"`
	Reason     string     `json:"reason"`
	Holder     *holderRow `json:"holder"`
	RetryUS    *int64     `json:"retry_us"`
	Count      int64      `json:"count"`
	WakeUS     *int64     `json:"wake_us"`
	Other      *string    `json:"other"`
}

func (a answer) grant(c onerun.Claim, w onerun.Worker) onerun.Grant {
	now := fromMicros(&a.NowUS)
	g := onerun.Grant{
		At: now, Adopted: a.Adopted,
		Lease: onerun.Lease{
			Namespace: c.Namespace, Lock: c.Lock, Owner: c.Owner, Token: a.Token, TTL: time.Duration(a.TTL) * time.Microsecond,
		},
	}
	switch {
	case a.Run != nil:
		g.Run = a.Run.run()
	case c.Job != "": // it begins with this claim, which says all of it but when and with what token
		g.Run = onerun.Run{
			RunID: c.RunID, Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, BusinessDate: c.BusinessDate, Lock: c.Lock,
			Status: onerun.Running, Attempt: 1, ScheduledAt: fromMicros(micros(c.ScheduledAt)), VersionLabel: c.VersionLabel, Labels: c.Labels,
			Liveness: onerun.Unknown,
			Execution: onerun.Execution{
				Owner: c.Owner, Token: a.Token, Worker: w, StartedAt: now, LeaseExpiresAt: now.Add(g.Lease.TTL), StaleAfter: c.StaleAfter,
				OnCrash: cmp.Or(c.OnCrash, onerun.CrashAuto), TwoPeople: c.TwoPeople,
			},
		}
	default: // the lock alone has no run: what is told stands for one
		g.Run = onerun.Run{
			Namespace: c.Namespace, Lock: c.Lock,
			Execution: onerun.Execution{Owner: c.Owner, Token: a.Token, StartedAt: fromMicros(a.AcquiredUS)},
		}
	}
	g.Lease.RunID, g.Lease.Attempt = g.Run.RunID, g.Run.Attempt
	return g
}

func (a answer) refusal(c onerun.Claim) *onerun.Refusal {
	ref := sqlledger.Refusal(c, onerun.Verdict{Reason: onerun.Reason(a.Reason), RetryAt: fromMicros(a.RetryUS)}, fromMicros(&a.NowUS))
	if a.Holder != nil {
		ref.Holder = a.Holder.holder()
	}
	ref.Count = a.Count
	return ref
}

// holderRow is a holder in an answer.
type holderRow struct {
	RunID    string  `json:"run_id"`
	Name     string  `json:"name"`
	Attempt  int     `json:"attempt"`
	Status   string  `json:"status"`
	WorkerID *string `json:"worker_id"`
	SinceUS  *int64  `json:"since_us"`
	Detail   string  `json:"detail"`
	sqlledger.WorkerRow
}

func holderOf(h onerun.Holder) holderRow {
	return holderRow{
		RunID: h.RunID, Name: h.Name, Attempt: h.Attempt, Status: string(h.Status), WorkerID: null(h.Worker.String()),
		SinceUS: micros(h.Since), Detail: h.Detail, WorkerRow: sqlledger.WorkerOf(h.Worker),
	}
}

func (h holderRow) holder() onerun.Holder {
	return onerun.Holder{
		RunID: h.RunID, Name: h.Name, Attempt: h.Attempt, Status: onerun.Status(h.Status),
		Worker: h.WorkerRow.Worker(h.WorkerID), Since: fromMicros(h.SinceUS), Detail: h.Detail,
	}
}

// constraint is the constraint that an error is about.
func constraint(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.ConstraintName
	}
	return ""
}
