package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// This is another way to say what a cron expression means: it walks minute by minute, looks at the
// wall clock, and knows nothing of segments, of searching, or of how an expression is read.

// picked is a field of an expression with the values that it stands for.
type picked struct {
	text   string
	values map[int]bool
	star   bool
}

func pick(r *rand.Rand, lowest, highest int) picked {
	p := picked{values: map[int]bool{}}
	size := highest - lowest + 1
	var parts []string
	for n := 1 + r.IntN(3); n > 0; n-- {
		a, b := lowest+r.IntN(size), lowest+r.IntN(size)
		step := 1 + r.IntN(size)
		switch r.IntN(6) {
		case 0:
			parts = append(parts, "*")
			step = 1
			a, b = lowest, highest
		case 1:
			parts = append(parts, fmt.Sprintf("*/%d", step))
			a, b = lowest, highest
		case 2:
			parts = append(parts, fmt.Sprintf("%d-%d", a, b))
			step = 1
		case 3:
			parts = append(parts, fmt.Sprintf("%d-%d/%d", a, b, step))
		default:
			parts = append(parts, fmt.Sprint(a))
			b, step = a, 1
		}
		for left := 0; ; left++ { // counted one by one, around the end
			v := lowest + (a-lowest+left)%size
			if left%step == 0 {
				p.values[v] = true
			}
			if v == b {
				break
			}
		}
	}
	p.text = strings.Join(parts, ",")
	p.star = p.text[0] == '*'
	return p
}

// oracle is an expression that was made up, field by field.
type oracle struct{ minute, hour, dom, month, dow picked }

func (o oracle) text() string {
	return strings.Join([]string{o.minute.text, o.hour.text, o.dom.text, o.month.text, o.dow.text}, " ")
}

func (o oracle) matches(t time.Time) bool {
	if !o.minute.values[t.Minute()] || !o.hour.values[t.Hour()] || !o.month.values[int(t.Month())] {
		return false
	}
	dom, dow := o.dom.values[t.Day()], o.dow.values[int(t.Weekday())]
	if o.dom.star || o.dow.star {
		return dom && dow
	}
	return dom || dow
}

// walls are the readings of the wall clock, as if each were UTC, minute by minute from a minute
// before an instant on.
func walls(from, to time.Time, loc *time.Location) (read []time.Time) {
	for t := from.Add(-time.Minute); t.Before(to); t = t.Add(time.Minute) {
		l := t.In(loc)
		_, offset := l.Zone()
		read = append(read, t.Add(time.Duration(offset)*time.Second))
	}
	return read
}

// walk gives the minutes at which the oracle says that the expression fires.
func (o oracle) walk(from time.Time, walls []time.Time, dst DST) (fired []time.Time) {
	fixed := !o.minute.star && !o.hour.star
	shown := time.Time{} // up to here the clock has been, before it was set back
	for i, now := range walls[1:] {
		last := walls[i]
		jump := now.Sub(last) - time.Minute
		fire := o.matches(now)
		if fixed && jump != 0 && jump.Abs() < 3*time.Hour {
			if jump > 0 && dst != DSTSkip {
				for x := last.Add(time.Minute); x.Before(now); x = x.Add(time.Minute) {
					fire = fire || o.matches(x)
				}
			}
			if jump < 0 && dst != DSTTwice {
				shown = last
			}
		}
		if fire && !(fixed && !now.After(shown)) {
			fired = append(fired, from.Add(time.Duration(i)*time.Minute))
		}
	}
	return fired
}

// years are years in which zones did what is hard.
var years = []struct {
	zone string
	year int
}{
	{"UTC", 2026},
	{"America/New_York", 2026},
	{"Europe/London", 2026},
	{"Australia/Lord_Howe", 2026},
	{"Africa/Cairo", 2025},
	{"America/Santiago", 2025},
	{"Asia/Beirut", 2025},
	{"Antarctica/Troll", 2026},
	{"Pacific/Apia", 2011},
	{"Africa/Casablanca", 2026},
	{"Europe/Dublin", 2026},
	{"America/St_Johns", 2006},
	{"America/Caracas", 2007},
	{"America/Caracas", 2016},
	{"Asia/Pyongyang", 2015},
	{"Asia/Pyongyang", 2018},
	{"Pacific/Kwajalein", 1993},
	{"Asia/Kathmandu", 1986},
	{"America/Asuncion", 2020},
	{"Asia/Gaza", 2025},
	{"Pacific/Norfolk", 2015},
	{"Antarctica/Casey", 2020},
	{"Europe/Istanbul", 2016},
	{"Asia/Tehran", 2020},
	{"Europe/London", 2040},
	{"Australia/Lord_Howe", 2088}, // by rule, which no file lists
}

// TestCronOracle: the instants of a schedule are those that a walk through a whole year finds,
// forwards and backwards.
func TestCronOracle(t *testing.T) {
	t.Parallel()
	for i, y := range years {
		t.Run(fmt.Sprintf("%s %d", y.zone, y.year), func(t *testing.T) {
			t.Parallel()
			loc, err := LoadZone(y.zone)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(uint64(i), 7))
			from := time.Date(y.year, 1, 1, 0, 0, 0, 0, time.UTC).Add(-3 * 24 * time.Hour)
			to := from.AddDate(1, 0, 6)
			walls := walls(from, to, loc)
			for n, dst := range []DST{DSTOnce, DSTSkip, DSTTwice} {
				o := oracle{minute: pick(r, 0, 59), hour: pick(r, 0, 23), dom: pick(r, 1, 31), month: pick(r, 1, 12), dow: pick(r, 0, 6)}
				plain := oracle{minute: picked{"5,35", map[int]bool{5: true, 35: true}, false}, hour: nights(), dom: every(1, 31), month: every(1, 12), dow: every(0, 6)}
				agree(t, plain, Schedule{Zone: loc, DST: dst}, from, to, walls)
				if n == i%3 {
					agree(t, o, Schedule{Zone: loc, DST: dst}, from, to, walls)
				}
			}
		})
	}
}

// nights are the hours in which clocks are changed, without a star: fixed times.
func nights() picked {
	p := picked{"22-4", map[int]bool{}, false}
	for _, h := range []int{22, 23, 0, 1, 2, 3, 4} {
		p.values[h] = true
	}
	return p
}

func every(lowest, highest int) picked {
	p := picked{"*", map[int]bool{}, true}
	for v := lowest; v <= highest; v++ {
		p.values[v] = true
	}
	return p
}

func agree(t *testing.T, o oracle, s Schedule, from, to time.Time, walls []time.Time) {
	t.Helper()
	want := o.walk(from, walls, s.DST)
	c, err := ParseCron(o.text())
	if err != nil {
		if len(want) > 0 {
			t.Errorf("%v; but it fires at %s", err, want[0])
		}
		return
	}
	s.Cron = c
	var got []time.Time
	for at := from.Add(-1); ; {
		next, ok := s.Next(at)
		if !ok || !next.Before(to) {
			break
		}
		got, at = append(got, next), next
	}
	differ(t, o.text()+" "+string(s.DST)+", forwards", want, got)
	got = nil
	for at := to; ; {
		previous, ok := s.Previous(at)
		if !ok || previous.Before(from) {
			break
		}
		got, at = append(got, previous), previous
	}
	slices.Reverse(got)
	differ(t, o.text()+" "+string(s.DST)+", backwards", want, got)
}

func differ(t *testing.T, what string, want, got []time.Time) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Errorf("%s: %s is missing", what, want[i])
		case i >= len(want):
			t.Errorf("%s: %s is too much", what, got[i])
		case !want[i].Equal(got[i]):
			t.Errorf("%s: %s, want %s", what, got[i], want[i])
		default:
			continue
		}
		return
	}
}

// TestCronMirror: next and previous undo each other, in years near and far.
func TestCronMirror(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 11))
	for n := range 3000 {
		y := years[n%len(years)]
		loc, err := LoadZone(y.zone)
		if err != nil {
			t.Fatal(err)
		}
		o := oracle{minute: pick(r, 0, 59), hour: pick(r, 0, 23), dom: pick(r, 1, 31), month: pick(r, 1, 12), dow: pick(r, 0, 6)}
		text := o.text()
		if n%3 == 0 {
			text = pick(r, 0, 59).text + " " + text
		}
		c, err := ParseCron(text)
		if err != nil {
			continue
		}
		s := Schedule{Cron: c, Zone: loc, DST: []DST{DSTOnce, DSTSkip, DSTTwice}[r.IntN(3)]}
		at := time.Unix(r.Int64N(8e9)-3e9, r.Int64N(2)*5)
		mirror(t, s, at)
	}
}

// mirror checks that between an instant and the next one there is none, seen from there.
func mirror(t *testing.T, s Schedule, at time.Time) {
	t.Helper()
	next, ok := s.Next(at)
	if !ok {
		return
	}
	if !next.After(at) {
		t.Errorf("%s in %s: after %s comes %s", s.Cron, s.Zone, at, next)
	}
	if back, ok := s.Previous(next.Add(1)); !ok || !back.Equal(next) {
		t.Errorf("%s in %s: the last one up to %s is %s", s.Cron, s.Zone, next, back)
	}
	before, ok := s.Previous(next)
	if ok && before.After(at) {
		t.Errorf("%s in %s: %s lies between %s and its next, %s", s.Cron, s.Zone, before, at, next)
	}
	if again, _ := s.Next(before); ok && !again.Equal(next) {
		t.Errorf("%s in %s: after %s comes %s, want %s", s.Cron, s.Zone, before, again, next)
	}
}

// FuzzCron looks for an expression that panics, hangs, is refused in more than one line, or whose
// times don't mirror each other.
func FuzzCron(f *testing.F) {
	for _, text := range []string{
		"0 1 * * *", "*/15 22-2 L-3,15W * fri#2", "@every 90s", "@reboot", "0 0 29 2 */7", "*/0 * * * *", "59 59 23 31 12 ?", "0 0 LW 1-12/5 SUNL", "5-1/2 * * * 7-3",
	} {
		f.Add(text, "America/New_York", int64(1_789_000_000), "once")
	}
	f.Fuzz(func(t *testing.T, text, zone string, unix int64, dst string) {
		c, err := ParseCron(text)
		if err != nil {
			usage(t, err, "--cron")
			return
		}
		loc, err := LoadZone(zone)
		if err != nil || zone == "local" {
			loc = time.UTC
		}
		policy, err := ParseDST(dst)
		if err != nil {
			policy = DSTOnce
		}
		if again, err := ParseCron(c.String()); err != nil || again.String() != c.String() {
			t.Fatalf("%q came out as %q: %v", text, c, err)
		}
		mirror(t, Schedule{Cron: c, Zone: loc, DST: policy}, time.Unix(unix, 0))
	})
}
