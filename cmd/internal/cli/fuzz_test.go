package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/expfmt"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/internal/fuzzbound"
)

// FuzzFlagValues: a duration, a size or a backoff is what it says or refused on one line: never negative, never nothing
// where there was something, and what is written again means the same.
func FuzzFlagValues(f *testing.F) {
	for _, s := range []string{
		"90s", "5m", "2d", "1d12h", "90", "-1", "1e9", "100000d100000d", "100000d2400000h", "9223372036", "9223372037", "0x10", "1_0", "d", "1dd", "forever", "10s..10m", "2m..1s", "..", "1s..",
		"64K", "1M", "1.5G", "0.0001", "1e-9", "inf", "nan", "1KIB", "KB", "B", "1e400", "0x1p-3", "99999999T", "none", "１s", "1s\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fuzzbound.Run(t, len(s), func() {
			words := func(err error) bool {
				if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "write") && !strings.Contains(err.Error(), "range")) {
					t.Errorf("%q: %v", s, err)
				}
				return err == nil
			}
			var d, d2 duration
			if words(d.UnmarshalText([]byte(s))) && (d < 0 || d2.UnmarshalText([]byte(time.Duration(d).String())) != nil || d2 != d) {
				t.Errorf("%q is %d, and written again %d", s, d, d2)
			}
			var w, w2 waiting
			if words(w.UnmarshalText([]byte(s))) && (w < 0 && time.Duration(w) != onerun.Forever || w2.UnmarshalText([]byte(w.String())) != nil || w2 != w) {
				t.Errorf("%q is %d, and written again %d", s, w, w2)
			}
			var b, b2 backoff
			if words(b.UnmarshalText([]byte(s))) && (b.least < 0 || b.least > b.most || b2.UnmarshalText([]byte(b.String())) != nil || b2 != b) {
				t.Errorf("%q is %v, and written again %v", s, b, b2)
			}
			var n size
			if words(n.UnmarshalText([]byte(s))) && n < 1 {
				t.Errorf("%q is %d bytes", s, n)
			}
			var c, c2 captureSize
			if words(c.UnmarshalText([]byte(s))) && (c < 0 || c > maxCapture || c2.UnmarshalText([]byte(c.String())) != nil || c2 != c) {
				t.Errorf("%q is %d bytes, and written again %d", s, c, c2)
			}
		})
	})
}

// FuzzMeeting: whatever stands in the note of a rendezvous, a host sits down, waits, or says that it is none.
func FuzzMeeting(f *testing.F) {
	good, err := json.Marshal(table{ID: "0123456789ab", Hosts: 2, Rounds: 3, Seats: map[string]*seated{"other": {Name: "h/1", Beat: 1, Wins: [][2]int64{{1, 2}}}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{
		string(good), "", "null", "{}", `{"id":"x","seats":null}`, `{"id":"x","hosts":2,"rounds":3,"seats":{"a":null}}`, `{"id":"x","hosts":2,"rounds":3,"seats":{"me":null,"a":{}}}`,
		`{"id":"x","seats":{"me":{"stage":99,"wins":[[1,2],[3]]}}}`, `{"id":"x","seats":[]}`, `{"id":"x","hosts":-1}`,
	} {
		f.Add(text, 0)
	}
	f.Fuzz(func(t *testing.T, text string, stage int) {
		fuzzbound.Run(t, len(text), func() {
			m := &meeting{verification: &verification{env: &env{}, rendezvous: "code", hosts: 2, rounds: 3}, note: "n", me: "me", heard: map[string]heardFrom{}, stage: int(uint(stage) % 4)}
			for range 2 { // who is there, and who has said something since
				table, err := m.read(text)
				if err != nil {
					return
				}
				if _, err := m.change(&table); err != nil && strings.Contains(err.Error(), "\n") {
					t.Errorf("%q: %v", text, err)
				}
				m.last = table
				_, _ = m.all(stageReady), m.everybody(&table)
				out, err := json.Marshal(table)
				if err != nil {
					t.Errorf("%q: %v", text, err)
				}
				if text = string(out); table.ID == "" && len(table.Seats) > 0 {
					t.Errorf("a table without an id has seats: %s", text)
				}
			}
		})
	})
}

// FuzzTextfile: whatever stands where a job's text file should be, what is written in its place is Prometheus' text
// format, and reads back the same.
func FuzzTextfile(f *testing.F) {
	now := time.Unix(1789000000, 0)
	code := 3
	s := textState{now: unixSeconds(now), values: map[string]float64{}}
	s.end(textEnd{start: now.Add(-time.Minute), at: now, exit: &code, well: true})
	s.refused(onerun.RefusedLocked, now)
	good := s.text("n", "j")
	for _, text := range []string{good, good[:len(good)-9], "", "# EOF\n", strings.ReplaceAll(good, " 1789", " 1e300"), strings.ReplaceAll(good, "reason", "n"), "x{} 1\n# EOF\n", good + good} {
		f.Add(text, "n", "j")
	}
	f.Add("", "a\"\\\n}", "x{} 1")
	f.Fuzz(func(t *testing.T, text, namespace, job string) {
		fuzzbound.Run(t, 16*(len(text)+len(namespace)+len(job)), func() {
			s := readText(text, namespace, job, now)
			s.refused(onerun.RefusedPaused, now)
			s.end(textEnd{start: now.Add(-time.Minute), at: now, exit: &code})
			out := s.text(namespace, job)
			families, err := new(expfmt.TextParser).TextToMetricFamilies(strings.NewReader(out))
			if err != nil {
				if !utf8.ValidString(namespace) || !utf8.ValidString(job) {
					return
				}
				t.Fatalf("%q: %v in %s", text, err, out)
			}
			for name, family := range families {
				for _, m := range family.GetMetric() {
					if len(m.GetLabel()) > 3 || m.GetLabel()[0].GetValue() != namespace || m.GetLabel()[1].GetValue() != job {
						t.Errorf("%s has the labels %v", name, m.GetLabel())
					}
				}
			}
			if len(families) < 6 || len(s.values) > len(textSeries)+len(textReasons) {
				t.Errorf("%d families of %d values", len(families), len(s.values))
			}
			again := readText(out, namespace, job, now)
			if again.text(namespace, job) != out {
				t.Errorf("%s\nread back is\n%s", out, again.text(namespace, job))
			}
			for k, v := range s.values {
				if d := again.values[k] - v; d > 1e-3*max(1, v/1e9) || d < -1e-3*max(1, v/1e9) {
					t.Errorf("%s is %v, and read back %v", k, v, again.values[k])
				}
			}
			if !maps.EqualFunc(again.values, s.values, func(float64, float64) bool { return true }) {
				t.Errorf("%v is read back as %v", s.values, again.values)
			}
		})
	})
}

// FuzzStarts: whatever stands in a crontab or in a service of systemd, doctor looks at it: what it takes for a start of
// onerun's names onerun, and a line that says so plainly is found.
func FuzzStarts(f *testing.F) {
	for _, text := range []string{
		"0 1 * * * root onerun run rates -- true\n", "@daily root ONERUN_STORE=x onerun run 'a b' --store \"y\\\"\n", "SHELL = /bin/sh\n#\n* * * * *", "@", "@x", "0 1 * * * root env -i onerun lock n -- true; onerun run j -- x",
		"[Service]\nUser=x\nEnvironment=\"ONERUN_STORE=a\" B=c\nExecStart=-/usr/bin/onerun run \\\n j -- true\n", "[Service]\nExecStart=\nExecStart=@+\nEnvironmentFile=-/no\nEnvironment=", "[Service]\n\\\n\\\n", "[", "=",
		"[Service]\nEnvironmentFile=/dev/zero\nEnvironmentFile=/dev/full", "x=" + strings.Repeat("x", 70_000), `\`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fuzzbound.Run(t, 64*len(text), func() {
			u := unit{account: "root"}
			u.read(path)
			for _, s := range append(append(cronFile(nil, path, ""), cronFile(nil, path, "me")...), u.found()...) {
				if s.command != "run" && s.command != "lock" || !strings.Contains(text, "onerun") || !strings.HasPrefix(s.where, path+":") {
					t.Errorf("%q starts %+v", text, s)
				}
			}
		})
		plain := "\n0 1 * * * root onerun run rates --partition p -- true\n"
		if len(text) > config.MaxSize/2 {
			return // a file of no sensible size isn't read
		}
		if err := os.WriteFile(path, []byte(text+plain), 0o600); err != nil {
			t.Fatal(err)
		}
		if found := cronFile(nil, path, ""); len(found) == 0 || found[len(found)-1].job != "rates" || !found[len(found)-1].keyed || found[len(found)-1].account != "root" {
			t.Errorf("%q hides a start: %+v", text, found)
		}
	})
}
