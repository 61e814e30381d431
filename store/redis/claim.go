package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/onerun-dev/onerun"
)

// Claim implements onerun.Claimer, in one round trip.
func (s *Store) Claim(ctx context.Context, c onerun.Claim) (onerun.Grant, error) {
	return s.ClaimKnowing(ctx, c, onerun.HostKnowledge{})
}

// ClaimKnowing implements onerun.HostClaimer, in one round trip too.
func (s *Store) ClaimKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (onerun.Grant, error) {
	mode := ""
	if c.Asking {
		mode = "asking"
	}
	s.hook("send the claim")
	g, refusal, err := s.decide(ctx, c, k, mode)
	switch {
	case err != nil:
		return onerun.Grant{}, s.explain("claim", err)
	case refusal != nil:
		return onerun.Grant{}, refusal
	}
	s.hook("claimed")
	return g, nil
}

// Explain implements onerun.Ledger.
func (s *Store) Explain(ctx context.Context, c onerun.Claim) (*onerun.Refusal, error) {
	return s.ExplainKnowing(ctx, c, onerun.HostKnowledge{})
}

// ExplainKnowing implements onerun.HostClaimer: by the claim's own script, which then writes
// nothing.
func (s *Store) ExplainKnowing(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge) (*onerun.Refusal, error) {
	_, refusal, err := s.decide(ctx, c, k, "explain")
	return refusal, s.explain("explain", err)
}

// errNoOrder: whoever wants a lock here asks again and again, and nobody knows who waits.
var errNoOrder = fmt.Errorf("%w: a store on Redis keeps no order among those who wait for a lock", onerun.ErrUsage)

// check refuses a malformed claim.
func check(c onerun.Claim) error {
	switch {
	case c.Namespace == "" || c.Lock == "" || c.Owner == "":
		return fmt.Errorf("%w: a claim needs a namespace, a lock and an owner", onerun.ErrUsage)
	case c.Job == "" && c.Partition != "":
		return fmt.Errorf("%w: a claim of partition %s needs a job", onerun.ErrUsage, c.Partition)
	case c.Job != "" && c.RunID == "":
		return fmt.Errorf("%w: a claim of a job needs a run id", onerun.ErrUsage)
	case c.Order != onerun.OrderAny:
		return errNoOrder
	case c.TTL < 0 || c.TTL > onerun.MaxTTL:
		return fmt.Errorf("%w: the lease of %s is out of range", onerun.ErrUsage, c.TTL)
	case c.OnCrash != "" && c.OnCrash != onerun.CrashAuto && c.OnCrash != onerun.CrashManual:
		return fmt.Errorf("%w: crash policy %q is unknown; use %s or %s", onerun.ErrUsage, c.OnCrash, onerun.CrashAuto, onerun.CrashManual)
	}
	return nil
}

func beginning(c onerun.Claim) begun {
	b := begun{
		Owner: c.Owner, OnCrash: cmp.Or(c.OnCrash, onerun.CrashAuto), StaleAfter: c.StaleAfter.Microseconds(), InProcess: c.InProcess,
		VersionLabel: clean(c.VersionLabel),
	}
	for name, v := range c.Labels {
		if b.Labels == nil {
			b.Labels = map[string]string{}
		}
		b.Labels[clean(name)] = clean(v)
	}
	return b
}

// decide asks the script, which answers with a grant or a refusal.
func (s *Store) decide(ctx context.Context, c onerun.Claim, k onerun.HostKnowledge, mode string) (onerun.Grant, *onerun.Refusal, error) {
	asked := c
	if mode == "explain" { // nobody claims
		asked.Owner, asked.RunID = cmp.Or(c.Owner, "-"), cmp.Or(c.RunID, "-")
	}
	if err := check(asked); err != nil {
		return onerun.Grant{}, nil, err
	}
	key := s.keys(c.Namespace)
	ttl, crash := cmp.Or(c.TTL, onerun.DefaultTTL), cmp.Or(c.OnCrash, onerun.CrashAuto)
	w := s.worker(c.WorkerLabel)
	first := &record{namespace: c.Namespace, id: c.RunID}
	begins, works, policy := encode(beginning(c)), encode(workerOf(w)), policyOf(c, ttl, crash)
	v, err := s.call(ctx, s.scripts.claim, key,
		[]string{key.dir(), key.lock(c.Lock), key.run(c.RunID), key.byStatus(onerun.Running), key.skips(c.Job, c.Partition), key.jobs(), key.alone()},
		c.Namespace, mode, version, c.Job, c.Partition, string(c.Lock), c.Owner, c.RunID, ceilMicros(ttl), string(crash), policy,
		flag(c.TwoPeople), strconv.FormatFloat(rand.Float64(), 'f', 6, 64), c.BusinessDate, micros(c.ScheduledAt), begins, works, w.String(), told(k))
	if err != nil {
		return onerun.Grant{}, nil, err
	}
	r := replyOf(v)
	now := fromMicros(r.text(1))
	switch r.text(0) {
	case "usage":
		return onerun.Grant{}, nil, fmt.Errorf("%w: %s", onerun.ErrUsage, r.text(1))
	case "schema":
		return onerun.Grant{}, nil, s.newer(r.text(1))
	case "refused":
		ref := &onerun.Refusal{
			Reason: onerun.Reason(r.text(2)), Namespace: c.Namespace, Job: c.Job, Key: c.Key(), Lock: c.Lock,
			RetryAt: fromMicros(r.text(4)), At: now, Count: r.number(5),
		}
		if ref.Holder, err = holder(r.text(3)); err == nil && mode != "explain" {
			ref.Closed, err = closed(c.Namespace, now, r.list(6))
		}
		if err != nil || r.err != nil {
			return onerun.Grant{}, nil, badAnswer("claim", cmp.Or(r.err, err))
		}
		return onerun.Grant{}, ref, nil
	case "granted":
		if mode == "explain" {
			return onerun.Grant{}, nil, nil
		}
	default:
		return onerun.Grant{}, nil, badAnswer("claim", fmt.Errorf("%q is no answer", r.text(0)))
	}
	g := onerun.Grant{At: now, Adopted: r.text(2) == "1", Lease: onerun.Lease{
		Namespace: c.Namespace, Lock: c.Lock, Owner: c.Owner, Token: r.number(3), TTL: time.Duration(r.number(4)) * time.Microsecond,
		RunID: r.text(5), Attempt: int(r.number(6)),
	}}
	g.TakenOver, err = closed(c.Namespace, now, r.list(10))
	switch {
	case g.Lease.RunID == "": // the lock alone has no run: what is told stands for one
		g.Run = onerun.Run{Namespace: c.Namespace, Lock: c.Lock, Execution: onerun.Execution{Owner: c.Owner, Token: g.Lease.Token, StartedAt: fromMicros(r.text(7))}}
	case r.list(8) != nil:
		var seen *record
		if seen, err = recordOf(c.Namespace, now, r.list(8)); err == nil {
			g.Run = seen.run()
		}
	default: // as the script has just made it
		first.now, first.expires, first.skips = now, micros(now.Add(g.Lease.TTL)), r.number(9)
		first.f = map[string]string{
			"status": string(onerun.Running), "attempt": "1", "lock": string(c.Lock), "token": r.text(3), "owner": c.Owner, "started": r.text(1),
			"job": c.Job, "part": c.Partition, "date": c.BusinessDate, "sched": micros(c.ScheduledAt), "a1": begins, "w1": works,
		}
		if c.TwoPeople {
			first.f["two_from"] = "1"
		}
		g.Run = first.run()
	}
	if err != nil || r.err != nil {
		return onerun.Grant{}, nil, badAnswer("claim", cmp.Or(r.err, err))
	}
	return g, nil, nil
}

// closed are the runs that a claim has closed on its way, each with why.
func closed(namespace string, now time.Time, list []any) ([]onerun.Run, error) {
	var out []onerun.Run
	for _, v := range list {
		p := replyOf(v)
		r, err := recordOf(namespace, now, p.list(1))
		if err = cmp.Or(p.err, err); err != nil {
			return out, err
		}
		r.evidence = p.text(0)
		out = append(out, r.run())
	}
	return out, nil
}

// newer refuses what a later version of this program keeps, and what no version does.
func (s *Store) newer(v string) error {
	if _, err := strconv.ParseUint(v, 10, 64); err != nil {
		return &onerun.StoreError{
			Kind: onerun.ErrIO, What: "open the store", Path: s.cfg.place(),
			Err: fmt.Errorf("the namespace's version is %q, which no onerun has written", v), Do: "find out who writes to these keys; a backup shows what stood there",
		}
	}
	return &onerun.StoreError{
		Kind: onerun.ErrConfig, What: "open the store", Path: s.cfg.place(),
		Err: fmt.Errorf("the namespace is of version %s, and this program knows up to %s", v, version), Do: "use a later onerun",
	}
}

// A holder travels as a list of texts: run, name, attempt, status, worker, since, detail, and
// what identifies it.
func holderRow(h onerun.Holder) []string {
	return []string{h.RunID, clean(h.Name), digits(h.Attempt), string(h.Status), encode(workerOf(h.Worker)), micros(h.Since), clean(h.Detail), clean(h.ID())}
}

func holder(text string) (onerun.Holder, error) {
	var h []string
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		return onerun.Holder{}, err
	}
	if len(h) != 8 {
		return onerun.Holder{}, fmt.Errorf("%d words are no holder", len(h))
	}
	return onerun.Holder{
		RunID: h[0], Name: h[1], Attempt: int(number(h[2])), Status: onerun.Status(h[3]), Worker: worker(h[4]), Since: fromMicros(h[5]), Detail: h[6],
	}, nil
}

// deadRow is an owner whose work is over.
type deadRow struct {
	Void     bool   `json:"void"`
	Evidence string `json:"evidence"`
	Error    string `json:"error"` // what its attempt says then
}

// told is what the claim's host knows, as the script takes it; "": nothing.
func told(k onerun.HostKnowledge) string {
	if k.Held == nil && len(k.Dead) == 0 {
		return ""
	}
	var p struct {
		Held  []string           `json:"held,omitempty"`
		Stale bool               `json:"stale"`
		Owner string             `json:"owner"`
		Dead  map[string]deadRow `json:"dead"`
	}
	if k.Held != nil {
		p.Held, p.Stale, p.Owner = holderRow(*k.Held), k.HeldStale, k.HeldOwner
	}
	p.Dead = map[string]deadRow{}
	for _, d := range k.Dead {
		r := deadRow{Void: d.Void, Evidence: clean(d.Evidence), Error: "the worker died"}
		switch {
		case d.Void:
			r.Error = "the worker died before the job was started"
		case d.Evidence != "":
			r.Error = onerun.CutError("the worker died: " + d.Evidence)
		}
		p.Dead[d.Owner] = r
	}
	return encode(p)
}
