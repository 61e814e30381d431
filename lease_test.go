package onerun_test

import (
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"pgregory.net/rapid"
)

func TestLeaseArithmetic(t *testing.T) {
	const ms, s, h = time.Millisecond, time.Second, time.Hour
	for _, c := range []struct{ ttl, grace, margin, wait, term, kill, every, look time.Duration }{
		// m = max(200 ms, T/10), g = min(grace, T/3), TERM = T-m-g, KILL = T-m, T/6, min(1 s, m/2)
		{1 * s, 10 * s, 200 * ms, 333333333, 466666667, 800 * ms, 166666666, 100 * ms},
		{1 * s, 100 * ms, 200 * ms, 100 * ms, 700 * ms, 800 * ms, 166666666, 100 * ms},
		{5 * s, 10 * s, 500 * ms, 1666666666, 2833333334, 4500 * ms, 833333333, 250 * ms},
		{5 * s, 1 * s, 500 * ms, 1 * s, 3500 * ms, 4500 * ms, 833333333, 250 * ms},
		{60 * s, 10 * s, 6 * s, 10 * s, 44 * s, 54 * s, 10 * s, 1 * s},
		{60 * s, 1 * h, 6 * s, 20 * s, 34 * s, 54 * s, 10 * s, 1 * s},
		{60 * s, 1 * ms, 6 * s, 1 * ms, 53999 * ms, 54 * s, 10 * s, 1 * s},
		{24 * h, 10 * s, 8640 * s, 10 * s, 77750 * s, 77760 * s, 4 * h, 1 * s},
		{24 * h, 24 * h, 8640 * s, 8 * h, 48960 * s, 77760 * s, 4 * h, 1 * s},
	} {
		for _, v := range []struct {
			what      string
			got, want time.Duration
		}{
			{"margin", onerun.LeaseMargin(c.ttl), c.margin},
			{"grace", onerun.LeaseGrace(c.ttl, c.grace), c.wait},
			{"TERM", onerun.TermAfter(c.ttl, c.grace), c.term},
			{"KILL", onerun.KillAfter(c.ttl), c.kill},
			{"heartbeat", onerun.HeartbeatEvery(c.ttl), c.every},
			{"look", onerun.LookEvery(c.ttl), c.look},
		} {
			if v.got != v.want {
				t.Errorf("T %s, grace %s: %s %s; want %s", c.ttl, c.grace, v.what, v.got, v.want)
			}
		}
	}
}

// What holds for every lease and every grace. A heartbeat that hangs is given up
// after T/6 and sent again T/24 later, which is always before TERM. From T = 1.6 s on
// there is room for the whole of that second try too; for a shorter lease the margin
// of 200 ms takes part of it.
func TestLeaseOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.OneOf(rapid.Int64Range(int64(onerun.MinTTL), int64(3*time.Second)), rapid.Int64Range(int64(onerun.MinTTL), int64(onerun.MaxTTL)))
		ttl := time.Duration(span.Draw(t, "ttl"))
		grace := time.Duration(rapid.Int64Range(0, int64(2*onerun.MaxTTL)).Draw(t, "grace"))
		term, kill := onerun.TermAfter(ttl, grace), onerun.KillAfter(ttl)
		every, look := onerun.HeartbeatEvery(ttl), onerun.LookEvery(ttl)
		resent := every + every + every/4
		for _, c := range []struct {
			what string
			ok   bool
		}{
			{"a heartbeat comes before TERM", 0 < every && every < term},
			{"a heartbeat that hung is sent again before TERM", resent < term},
			{"the second try fits before TERM", ttl < 1600*time.Millisecond || resent+every <= term},
			{"TERM comes before KILL, or with it", term <= kill && (grace == 0 || term < kill)},
			{"the grace lies between them", kill-term == onerun.LeaseGrace(ttl, grace) && kill-term <= grace},
			{"KILL comes before T, even if it is seen a look too late", kill < ttl && kill+look < ttl},
			{"looks are frequent", 0 < look && look <= time.Second && look <= onerun.LeaseMargin(ttl)/2},
			{"TERM is seen before KILL, if the grace is longer than a look", term+look < kill || kill-term <= look},
		} {
			if !c.ok {
				t.Fatalf("not so: %s (heartbeat %s, look %s, TERM %s, KILL %s)", c.what, every, look, term, kill)
			}
		}
	})
}
