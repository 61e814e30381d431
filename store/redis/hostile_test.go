package redis_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/redis"
)

// hostile is what a script, or JSON, could take for something else: NUL, broken UTF-8, and what only
// looks like that.
const hostile = "a\x00b\xff\xfe \\u0000 \\\\u0000 \xed\xa0\x80 \r\n$5 ' ]] %00 {x}"

// TestHostileText: whatever stands in the labels, the errors and the output of a job, or in the
// words of a person: it never costs a claim, an end or a decision.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	job := onerun.Job{
		Name: "settle", Partition: "2026-09-15", VersionLabel: hostile, WorkerLabel: hostile, Labels: map[string]string{"k" + hostile: hostile, "plain": "x"},
	}
	var id string
	err := onerun.NewRunner(s).Do(soon(t), job, func(_ context.Context, o *onerun.Owner) error {
		id = o.Run().RunID
		_, err := s.Claim(soon(t), claimOf("settle", "2026-09-16")) // is told of a holder with that label
		isRefusal(t, err, onerun.RefusedLocked)
		o.KeepOutput(onerun.Output{Text: hostile, Total: int64(len(hostile))})
		return errors.New(hostile)
	})
	var failure *onerun.Failure
	if !errors.As(err, &failure) {
		t.Fatalf("the job: %v", err)
	}
	isRefused(t, s, claimOf("settle", "2026-09-15"), onerun.RefusedFailed)
	run := detail(t, s, id).Run
	if run.Status != onerun.Failed || run.Error != onerun.CutError(hostile) || run.Labels["plain"] != "x" || len(run.Labels) != 2 {
		t.Errorf("the end: %s %q, labels %q", run.Status, run.Error, run.Labels)
	}
	if out, err := s.Output(soon(t), onerun.DefaultNamespace, id, 1); err != nil || out.Text != (onerun.Output{Text: hostile}).Cleaned().Text {
		t.Errorf("the output: %q, %v", out.Text, err)
	}
	who := onerun.Who{By: hostile, Terminal: hostile, Reason: hostile}
	if _, err := s.Approve(soon(t), onerun.ApprovalRequest{Namespace: run.Namespace, RunID: id, Expect: onerun.Expected(run), Who: who}); err != nil {
		t.Errorf("approve: %v", err)
	}
	if err := s.Pause(soon(t), onerun.PauseRequest{Namespace: run.Namespace, Job: "other", Who: who}); err != nil {
		t.Errorf("pause: %v", err)
	}
	isRefused(t, s, claimOf("other", ""), onerun.RefusedPaused)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	if err := s.Stop(soon(t), onerun.StopRequest{Namespace: run.Namespace, RunID: id, Expect: onerun.Expected(g.Run), Who: who}); err != nil {
		t.Errorf("stop: %v", err)
	}
	if b, err := s.Heartbeat(soon(t), g.Lease); err != nil || b.Stop == "" {
		t.Errorf("heartbeat of one that is to stop: %+v, %v", b, err)
	}
	succeed(t, s, g)
	if f := finding(t, s, "event-chain"); f.Status != onerun.FindingOK {
		t.Errorf("event-chain: %+v", f)
	}
}

// TestPayloadOfBytes: what stands for an item's content may be any bytes, such as a digest as it
// is. It is its own equal, and nobody else's.
func TestPayloadOfBytes(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	for _, payload := range []string{hostile, "\xff", "\xfe", "text"} {
		c := onerun.ItemClaim{Lease: g.Lease, Name: fmt.Sprintf("item %q", payload), Owner: onerun.NewID(), Payload: payload}
		if it, err := s.BeginItem(soon(t), c); err != nil || it.Payload != payload {
			t.Fatalf("%q: %q, %v", payload, it.Payload, err)
		}
		if err := s.EndItem(soon(t), onerun.ItemEnd{Namespace: g.Lease.Namespace, Job: "settle", Name: c.Name, Owner: c.Owner, State: onerun.ItemFailed}); err != nil {
			t.Fatal(err)
		}
		c.Owner = onerun.NewID()
		if it, err := s.BeginItem(soon(t), c); err != nil || it.Payload != payload || it.Tries != 2 {
			t.Errorf("%q again: %q, try %d, %v", payload, it.Payload, it.Tries, err)
		}
		c.Owner, c.Payload = onerun.NewID(), "\xfd"
		var refusal *onerun.ItemRefusal
		if _, err := s.BeginItem(soon(t), c); !errors.As(err, &refusal) || refusal.Reason != onerun.RefusedConflict {
			t.Errorf("another instead of %q: %v", payload, err)
		}
	}
}

// TestLaterVersion: what a later program keeps in a namespace is refused by whatever would read or
// change it; an owner that began before can still end.
func TestLaterVersion(t *testing.T) {
	t.Parallel()
	s, prefix := fresh(t)
	g := granted(t, s, claimOf("settle", "p"))
	if err := direct(t, sharedServer(t)).HSet(soon(t), prefix+":{default}:dir", "v", "99").Err(); err != nil {
		t.Fatal(err)
	}
	who := onerun.Who{By: "ana", Reason: "x"}
	for what, ask := range map[string]func() error{
		"claim": func() error { _, err := s.Claim(soon(t), claimOf("other", "p")); return err },
		"list":  func() error { _, err := s.Runs(soon(t), onerun.Query{Namespace: "default"}); return err },
		"look":  func() error { _, err := s.Detail(soon(t), "default", g.Run.RunID); return err },
		"stop": func() error {
			return s.Stop(soon(t), onerun.StopRequest{Namespace: "default", RunID: g.Run.RunID, Expect: onerun.Expected(g.Run), Who: who})
		},
		"pause": func() error {
			return s.Pause(soon(t), onerun.PauseRequest{Namespace: "default", Job: "settle", Who: who})
		},
		"resolve": func() error {
			_, err := s.Resolve(soon(t), onerun.Resolution{Namespace: "default", Job: "x", Partition: "p", As: onerun.Skipped, Who: who})
			return err
		},
	} {
		if err := ask(); !errors.Is(err, onerun.ErrConfig) || !strings.Contains(err.Error(), "version 99") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	succeed(t, s, g)
}

// TestBrokenVersion: where the version that a namespace has is no number, nothing of it is believed.
func TestBrokenVersion(t *testing.T) {
	t.Parallel()
	s, prefix := fresh(t)
	granted(t, s, claimOf("settle", "p"))
	for _, v := range []string{"", "x", "-1", "nan", "1e99999"} {
		if err := direct(t, sharedServer(t)).HSet(soon(t), prefix+":{default}:dir", "v", v).Err(); err != nil {
			t.Fatal(err)
		}
		_, claim := s.Claim(soon(t), claimOf("other", "p"))
		_, list := s.Runs(soon(t), onerun.Query{Namespace: "default"})
		pause := s.Pause(soon(t), onerun.PauseRequest{Namespace: "default", Job: "settle", Who: onerun.Who{By: "ana", Reason: "x"}})
		for what, err := range map[string]error{"claim": claim, "list": list, "pause": pause} {
			if !errors.Is(err, onerun.ErrIO) || !strings.Contains(err.Error(), "which no onerun has written") {
				t.Errorf("%s, version %q: %v", what, v, err)
			}
		}
	}
}

// TestNoPasswordInErrors: a URL that is refused, whatever of it was taken for what.
func TestNoPasswordInErrors(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://u:wr0ng?1@h", "redis://u:1?wr0ng@h", "redis://u:p@ss?wr0ng@h", "redis://u:pa/wr0ng?x@h", "redis://u:wr0ng", "redis://u:1/wr0ng", "redis://u:wr0ng@h:x", "redis://u:wr0ng%@h",
	} {
		if _, err := redis.Open(soon(t), url); !errors.Is(err, onerun.ErrUsage) || strings.Contains(err.Error(), "wr0ng") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestManyTombstones: to list what was pruned is to ask for a part at a time, since nobody else is
// answered while the server is at one.
func TestManyTombstones(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	s, admin := open(t, server.URL()), direct(t, server)
	const n = 1600
	ctx := soon(t)
	if _, err := admin.Pipelined(ctx, func(p driver.Pipeliner) error {
		for i := range n {
			key := fmt.Sprintf("job-%d:p%04d", i%2, i)
			job, part, _ := strings.Cut(key, ":")
			p.HSet(ctx, "onerun:{default}:dir", "k:"+key, fmt.Sprintf(
				`!{"run_id":"r%d","job":%q,"part":%q,"lock":"job/x","status":"SUCCEEDED","attempt":"1","token":"1","started":"%d","finished":"2","pruned":"3","v":"1"}`,
				i, job, part, i+1))
			p.ZAdd(ctx, "onerun:{default}:tombs", driver.Z{Score: float64(i + 1), Member: key})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	calls := func() string {
		text, err := admin.Info(soon(t), "commandstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		return regexp.MustCompile(`cmdstat_zrevrangebyscore:calls=\d+`).FindString(text)
	}
	for _, c := range []struct {
		q     onerun.Query
		found int
		calls string
	}{
		{onerun.Query{Job: "job-1", Pruned: true, Statuses: []onerun.Status{onerun.Succeeded}, Limit: 10}, 10, "=2"},
		{onerun.Query{Job: "job-1", Pruned: true, Statuses: []onerun.Status{onerun.Succeeded}}, n / 2, "=5"},
		{onerun.Query{Job: "job-1", Pruned: true, Statuses: []onerun.Status{onerun.Failed}}, 0, "=5"},
	} {
		if err := admin.ConfigResetStat(soon(t)).Err(); err != nil {
			t.Fatal(err)
		}
		c.q.Namespace = onerun.DefaultNamespace
		runs, err := s.Runs(soon(t), c.q)
		if err != nil || len(runs) != c.found {
			t.Errorf("%+v: %d found, %v", c.q, len(runs), err)
		}
		if got := calls(); !strings.HasSuffix(got, c.calls) {
			t.Errorf("%+v: %s, expected %s", c.q, got, c.calls)
		}
	}
}

// TestPrunedAtOnce: what was decided about a run is no error because the run is pruned before it is
// read again.
func TestPrunedAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := fresh(t)
	c := claimOf("settle", "p")
	g := granted(t, s, c)
	succeed(t, s, g)
	who := onerun.Who{By: "ana", Reason: "x"}
	for _, forget := range []bool{false, true} {
		q := onerun.PruneRequest{Namespace: c.Namespace, Job: c.Job, Partition: c.Partition, ForgetKeys: forget, Who: who}
		if p, err := s.Prune(soon(t), q); err != nil || p.Runs+p.Forgotten != 1 {
			t.Fatalf("prune: %+v, %v", p, err)
		}
		run, err := redis.After(soon(t), s, c.Namespace, g.Run.RunID)
		if err != nil || run.RunID != g.Run.RunID || run.Pruned.IsZero() != forget {
			t.Errorf("afterwards, forgotten %t: %+v, %v", forget, run, err)
		}
	}
}

// TestHalfAUser: a user that may not do all that a claim writes is told so, and leaves nothing behind
// that would keep anybody from the key once that is mended.
func TestHalfAUser(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	admin := direct(t, server)
	s := open(t, fmt.Sprintf("redis://half:pw@127.0.0.1:%d/", server.Port))
	set := func(rules ...any) {
		t.Helper()
		if err := admin.Do(soon(t), append([]any{"ACL", "SETUSER", "half"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("on", ">pw", "~*", "+@all")
	failed := claimOf("failed", "p") // whose run is there
	failed.Retries = 9
	g := granted(t, s, failed)
	if err := s.Finish(soon(t), g.Lease, onerun.Outcome{Status: onerun.Failed, Reason: onerun.ReasonExit}); err != nil {
		t.Fatal(err)
	}
	ends := []onerun.Outcome{{Status: onerun.Failed, Reason: onerun.ReasonExit}, {Status: onerun.Succeeded}}
	for i, command := range []string{"sadd", "zadd", "hset", "zrem", "hdel"} {
		for j, c := range []onerun.Claim{again(failed), claimOf(fmt.Sprint("job-", i), "p")} {
			set("-" + command)
			g, err := s.Claim(soon(t), c)
			set("+" + command)
			if errors.Is(err, onerun.ErrPermission) {
				g, err = s.Claim(soon(t), again(c)) // somebody else's
			}
			if err != nil {
				t.Fatalf("a claim of %s, when %s was mended: %v", c.Key(), command, err)
			}
			set("-" + command)
			err = s.Finish(soon(t), g.Lease, ends[j])
			set("+" + command)
			if err != nil && !errors.Is(err, onerun.ErrPermission) {
				t.Errorf("an end without %s: %v", command, err)
			}
			if err := s.Finish(soon(t), g.Lease, ends[j]); err != nil {
				t.Errorf("an end, when %s was mended: %v", command, err)
			}
			ended, err := s.Runs(soon(t), onerun.Query{Namespace: c.Namespace, Job: c.Job, Statuses: []onerun.Status{ends[j].Status}})
			if err != nil || len(ended) != 1 {
				t.Errorf("ended without %s: %v, %v", command, ended, err)
			}
		}
	}
}
