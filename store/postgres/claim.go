package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Claim implements onerun.Claimer, in one round trip.
func (s *Store) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	return s.ClaimKnowing(ctx, c, onerun.HostKnowledge{})
}

// ClaimKnowing implements onerun.HostClaimer, in one round trip too.
func (s *Store) ClaimKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	if err := check(c); err != nil {
		return onerun.Grant{}, err
	}
	request, err := s.request(c, k)
	if err != nil {
		return onerun.Grant{}, fmt.Errorf("%w: the labels can't be kept: %w", onerun.ErrUsage, err)
	}
	ctx = context.WithValue(ctx, applicationKey{}, applicationName(c.RunID))
	var closed []onerun.Run // by tries that then had to begin anew
	var answer answer
	err = s.patiently(ctx, func() error {
		s.hook("send the claim")
		if answer, err = s.asked(ctx, "claim", "onerun_claim", request); err != nil {
			return err
		}
		if answer.Result == "again" {
			return errAgain
		}
		for _, r := range answer.Closed {
			closed = append(closed, r.run())
		}
		return nil
	})
	if code(err) == codeLockTimeout {
		return onerun.Grant{}, s.busy(ctx, c, k, err)
	}
	if code(err) == codeUnique && constraint(err) == "onerun_run_pkey" {
		return onerun.Grant{}, fmt.Errorf("%w: the run id %s is taken", onerun.ErrUsage, c.RunID)
	}
	if err != nil {
		return onerun.Grant{}, s.explain("claim", err)
	}
	s.hook("claimed")
	if answer.Result == "refused" {
		ref := answer.refusal(c)
		ref.Closed = closed
		return onerun.Grant{}, ref
	}
	g := answer.grant(c, s.worker(c.WorkerLabel))
	g.TakenOver = closed
	return g, nil
}

// asked asks a function that knows which version of the schema its caller is of. A schema of
// another version is brought up, or is the end of it.
func (s *Store) asked(ctx context.Context, what, function, request string) (answer, error) {
	for range 2 {
		var text string
		if err := s.callOnce(ctx, function+"($1::jsonb)", []any{request}, &text); err != nil {
			return answer{}, err
		}
		var a answer
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return answer{}, badAnswer(what, err)
		}
		switch {
		case a.Result == "usage":
			return answer{}, fmt.Errorf("%w: %s", onerun.ErrUsage, a.Words)
		case a.Result != "schema":
			return a, nil
		case a.Version > len(steps):
			return answer{}, s.newer(a.Version)
		}
		if _, _, err := s.Migrate(ctx); err != nil {
			return answer{}, err
		}
	}
	return answer{}, &onerun.StoreError{Kind: onerun.ErrInternal, What: what, Path: s.place, Err: errors.New("the schema is of two versions"), Do: "please report this"}
}

// check refuses a malformed claim.
func check(c onerun.Claim) error {
	return sqlledger.CheckClaim(c, checkOrder(c.Order))
}

// checkOrder refuses an order that is unknown.
func checkOrder(o onerun.Order) error {
	if o != onerun.OrderAny && o != onerun.OrderFIFO {
		return sqlledger.UnknownOrder(o)
	}
	return nil
}

// claimRow is a claim as the function takes it. What it doesn't say is NULL there.
type claimRow struct {
	Version         int                 `json:"version"`
	Namespace       string              `json:"namespace"`
	Job             *string             `json:"job,omitempty"`
	Partition       *string             `json:"partition,omitempty"`
	Key             *string             `json:"key,omitempty"`
	BusinessDate    *string             `json:"business_date,omitempty"`
	Lock            onerun.LockName     `json:"lock"`
	Owner           string              `json:"owner"`
	RunID           string              `json:"run_id"`
	ScheduledUS     *int64              `json:"scheduled_us,omitempty"`
	TTL             int64               `json:"ttl"`
	OnCrash         onerun.OnCrash      `json:"on_crash"`
	StaleAfter      *int64              `json:"stale_after,omitempty"`
	Retries         int                 `json:"retries"`
	BackoffMin      int64               `json:"backoff_min"`
	BackoffMax      int64               `json:"backoff_max"`
	RetryLost       bool                `json:"retry_lost"`
	TwoPeople       bool                `json:"two_people"`
	InProcess       bool                `json:"in_process"`
	Asking          bool                `json:"asking"`
	FIFO            bool                `json:"fifo"`
	WorkerID        *string             `json:"worker_id,omitempty"`
	Worker          sqlledger.WorkerRow `json:"worker"`
	VersionLabel    *string             `json:"version_label,omitempty"`
	Labels          map[string]string   `json:"labels,omitempty"`
	LockTimeout     string              `json:"lock_timeout"`
	ApplicationName string              `json:"application_name"`
	Held            *holderRow          `json:"held,omitempty"`
	HeldStale       bool                `json:"held_stale,omitempty"`
	HeldOwner       *string             `json:"held_owner,omitempty"`
	Dead            map[string]deadRow  `json:"dead,omitempty"`
}

func (s *Store) request(c onerun.Claim, k onerun.HostKnowledge) (string, error) {
	ttl := cmp.Or(c.TTL, onerun.DefaultTTL)
	w := s.worker(c.WorkerLabel)
	p := claimRow{
		Version: len(steps), Namespace: c.Namespace, Job: null(c.Job), Partition: null(c.Partition), Key: null(c.Key()),
		BusinessDate: null(c.BusinessDate), Lock: c.Lock, Owner: c.Owner, RunID: c.RunID, ScheduledUS: micros(c.ScheduledAt),
		TTL: sqlledger.CeilMicros(ttl), OnCrash: cmp.Or(c.OnCrash, onerun.CrashAuto), StaleAfter: null(c.StaleAfter.Microseconds()),
		Retries: sqlledger.Within(c.Retries), BackoffMin: c.BackoffMin.Microseconds(), BackoffMax: c.BackoffMax.Microseconds(),
		RetryLost: c.RetryLost, TwoPeople: c.TwoPeople, InProcess: c.InProcess, Asking: c.Asking, FIFO: c.Order == onerun.OrderFIFO,
		WorkerID: null(w.String()), Worker: sqlledger.WorkerOf(w), VersionLabel: null(c.VersionLabel), Labels: c.Labels,
		LockTimeout: millis(patience(ttl)), ApplicationName: applicationName(c.RunID),
	}
	p.tell(k)
	return encode(p)
}

// patience is how long a claim waits for the row of a lock, which others have in hand for a
// moment only: a third of the lease, so that a grant is not half over when it arrives.
func patience(ttl time.Duration) time.Duration {
	return min(max(ttl/3, 200*time.Millisecond), lockTimeout)
}

func labels(l map[string]string) any {
	if len(l) == 0 {
		return nil
	}
	return l
}
