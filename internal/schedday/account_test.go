package schedday_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

var missedWords = regexp.MustCompile(`missed: (?:\d+ fires from (\S+) to (\S+?)|the fire of (\S+?))[,;]`)

// span are the slots of a job that a row tells as missed.
type span struct{ job, first, last string }

// account looks for a run, or a reason, of each slot, and at what people were told.
func (d *day) account(known time.Time) {
	s, err := postgres.Open(d.context(), d.plan.URL)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	missed := d.missed(s)
	ran, failed := map[string]int{}, map[string]bool{}
	for _, line := range d.lines("ran") {
		ran[line[0]]++
	}
	runs, err := s.Runs(d.context(), onerun.Query{Namespace: "default"})
	if err != nil {
		d.t.Fatal(err)
	}
	recorded := map[string]onerun.Run{}
	for _, r := range runs {
		recorded[r.Key()] = r
		if r.Status == onerun.Failed {
			failed[r.Job] = true
		}
		if r.Status == onerun.Running && !r.Stale { // an instance that was killed took its job with it; the job's next start closes it
			d.t.Errorf("%s is RUNNING, %s", r.Key(), r.Evidence)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ran)) {
		if ran[key] != 1 || recorded[key].RunID == "" {
			d.t.Errorf("%s ran %d times, and is %s in the ledger", key, ran[key], recorded[key].Status)
		}
	}
	slots, without := d.slots(known), 0
	for _, key := range slots {
		job, slot, _ := strings.Cut(key, ":")
		told := slices.ContainsFunc(missed, func(m span) bool { return m.job == job && m.first <= slot && slot <= m.last })
		skips, err := s.Skips(d.context(), "default", job, slot)
		if err != nil {
			d.t.Fatal(err)
		}
		if recorded[key].RunID == "" && !told && len(skips) == 0 {
			d.t.Errorf("%s: neither a run nor a reason", key)
		}
		if ran[key] == 0 {
			without++
		}
	}
	d.t.Logf("%d slots, %d of them with a reason instead of a run; %d runs; %d harms; messages: %v", len(slots), without, len(ran), len(d.harms), d.told(failed))
	if len(slots) < 100 || len(ran) < len(slots)/4 {
		d.t.Errorf("%d slots, %d runs: too little to show anything", len(slots), len(ran))
	}
}

func (d *day) missed(s *postgres.Store) (all []span) {
	runs, err := s.Runs(d.context(), onerun.Query{Namespace: "default", Statuses: []onerun.Status{onerun.Skipped}})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, r := range runs {
		x, err := s.Detail(d.context(), "default", r.RunID)
		if err != nil {
			d.t.Fatal(err)
		}
		for _, ev := range x.Events {
			m := missedWords.FindStringSubmatch(ev.Reason)
			if m == nil {
				d.t.Errorf("what does %q mean?", ev.Reason)
				continue
			}
			all = append(all, span{r.Job, m[1] + m[3], m[2] + m[3]})
		}
	}
	return all
}

// slots are the keys of all slots that have to be accounted for. Of the job whose schedule was changed those are left out that came
// while not all instances had read the newer file.
func (d *day) slots(known time.Time) (keys []string) {
	each := func(job, cron string, from, to time.Time) {
		s := scheduleOf(cron)
		for at, ok := s.Next(from); ok && at.Before(to); at, ok = s.Next(at) {
			keys = append(keys, job+":"+at.UTC().Format(time.RFC3339))
		}
	}
	for job, cron := range crons(2) {
		if cron == crons(1)[job] {
			each(job, cron, known, d.until)
			continue
		}
		each(job, crons(1)[job], known, d.edited.Add(-10*time.Minute))
		each(job, cron, d.everywhere.Add(10*time.Minute), d.until)
	}
	return keys
}

// told looks at the messages: of a job that fails for an hour one that it does, and one that it has recovered, and none of those
// that never failed, but that one is stale whose instance was killed or cut off until it is closed, and that this is over. What an instance has told that was harmed at that moment may be told again, and once what the machine had no time
// to note: a minute of the day is less than half a second.
func (d *day) told(failed map[string]bool) map[string]int {
	all := map[string]int{}
	type message struct {
		kind, by string
		at       time.Time
	}
	last, again, stale := map[string]message{}, 0, map[string]bool{}
	for _, line := range d.lines("told") {
		job, kind, by := line[0], line[1], line[2]
		at, err := time.Parse(time.RFC3339Nano, line[3])
		if err != nil {
			d.t.Fatal(err)
		}
		all[job+" "+kind]++
		switch kind {
		case "stale":
			stale[job] = d.afterHarm(at)
		case "recovery":
		default:
			stale[job] = false
		}
		if !failed[job] && !stale[job] {
			d.t.Errorf("told: %s %s, and it never failed", job, kind)
		}
		if was := last[job]; was.kind == kind && !d.harmed(was.by, was.at) && job == "broken" {
			if again++; again > 1 {
				d.t.Errorf("told twice: %s %s, by %s and %s, at %s and %s", job, kind, was.by, by, was.at, at)
			}
		}
		last[job] = message{kind, by, at}
	}
	for _, kind := range []string{"failure", "recovery"} {
		if key := fmt.Sprint("broken ", kind); all[key] == 0 {
			d.t.Errorf("nobody was told: %s", key)
		}
	}
	return all
}
