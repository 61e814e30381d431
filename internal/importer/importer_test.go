package importer

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/schedule"
)

var update = flag.Bool("update", false, "write what comes out into testdata")

// schema is what a job of an import may hold, as the configuration reads it.
func schema() config.Schema {
	duration := config.Key{Check: func(text string) error {
		_, err := time.ParseDuration(text)
		return err
	}}
	zone := config.Key{Check: func(text string) error {
		if text == "local" { // of which this host may have none
			return nil
		}
		_, err := schedule.LoadZone(text)
		return err
	}}
	number := config.Key{Check: func(text string) error { _, err := strconv.Atoi(text); return err }}
	oneOf := func(words ...string) config.Key {
		return config.Key{Check: func(text string) error {
			if !slices.Contains(words, text) {
				return fmt.Errorf("%q is none of %q", text, words)
			}
			return nil
		}}
	}
	return config.Schema{
		Top: map[string]config.Key{"timezone": zone},
		Job: map[string]config.Key{
			"schedule": {Check: func(text string) error { _, err := schedule.ParseCron(text); return err }},
			"tz":       zone, "command": {Kind: config.List}, "shell": {}, "catch_up": {Kind: config.Map}, "lock": {}, "retries": number, "backoff": {},
			"jitter": duration, "timeout": duration, "grace": duration, "start_by": duration,
			"overlap": oneOf("skip", "replace"), "scope": oneOf("key"),
		},
	}
}

// readBack reads the file as the program will, and holds what it says against what was meant.
func readBack(t *testing.T, r Result) *config.File {
	t.Helper()
	f, err := config.Parse("out.yaml", r.YAML, schema())
	if err != nil {
		t.Fatalf("the configuration is refused: %v\n%.5000s", err, r.YAML)
	}
	if len(f.Jobs) != len(r.jobs) {
		t.Fatalf("%d jobs are read, %d were meant", len(f.Jobs), len(r.jobs))
	}
	for _, j := range r.jobs {
		got, ok := f.Jobs[j.name]
		if !ok || len(got) != len(j.settings) {
			t.Fatalf("the job %q is read with %d settings of %d", j.name, len(got), len(j.settings))
		}
		for _, s := range j.settings {
			v := got[s.key]
			same := v.Text == s.text && slices.Equal(v.List, s.list) && len(v.Map) == len(s.pairs)
			for _, p := range s.pairs {
				same = same && v.Map[p[0]] == p[1]
			}
			if !same {
				t.Errorf("%s: %s is read as %q %q %v, meant was %q %q %v", j.name, s.key, v.Text, v.List, v.Map, s.text, s.list, s.pairs)
			}
		}
	}
	for _, one := range r.Reports {
		if strings.ContainsAny(one.String(), "\n\r\x1b\x00") {
			t.Errorf("a report is no single line: %q", one.String())
		}
	}
	return f
}

// mentioned are the lines that a comment names, or a report.
func mentioned(r Result) map[int]bool {
	lines := map[int]bool{}
	for _, m := range regexp.MustCompile(`\blines? (\d+)(?: to (\d+))?`).FindAllStringSubmatch(string(r.YAML), -1) {
		from, _ := strconv.Atoi(m[1])
		to := from
		if m[2] != "" {
			to, _ = strconv.Atoi(m[2])
		}
		for n := from; n <= to; n++ {
			lines[n] = true
		}
	}
	for _, one := range r.Reports {
		lines[one.Line] = true
	}
	return lines
}

// everyLine says that each line of an input is translated or reported, but for blank ones, comments and headings.
func everyLine(t *testing.T, text string, r Result) {
	t.Helper()
	said := mentioned(r)
	goesOn := false
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		bare := strings.TrimSpace(line)
		part := goesOn
		if bare == "" || bare[0] != '#' && bare[0] != ';' { // comments may stand between the parts of a line
			goesOn = strings.HasSuffix(bare, `\`)
		}
		if bare == "" || bare[0] == '#' || bare[0] == ';' || bare[0] == '[' || part {
			continue
		}
		if !said[i+1] {
			t.Errorf("line %d is neither translated nor reported: %q", i+1, line)
		}
	}
}

// newYear is when the tests are.
var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func imported(t *testing.T, name string) (text string, r Result) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Zone: "UTC", Now: newYear, Files: os.DirFS("testdata")}
	switch filepath.Ext(name) {
	case ".timer":
		r = Systemd(name, b, o)
	case ".yaml":
		r = Kubernetes(name, b, o)
	default:
		r = Crontab(name, b, o)
	}
	return string(b), r
}

// A host that names no zone, as in many a container, can't go by its own: a file that says so would be refused.
func TestHostWithoutZone(t *testing.T) {
	t.Setenv("TZ", "")
	files := fstest.MapFS{"t.service": &fstest.MapFile{Data: []byte("[Service]\nExecStart=/bin/true\n")}}
	for zone, lost := range map[string]bool{"": true, "Asia/Seoul": false} {
		o := Options{Zone: zone, Now: newYear, Files: files}
		for _, r := range []Result{Crontab("c", []byte("0 5 * * * a\n"), o), Systemd("t.timer", []byte("[Timer]\nOnCalendar=daily\n"), o)} {
			readBack(t, r)
			if r.Lost() != lost || lost && !strings.Contains(r.Reports[0].String(), "TZ is set but empty; name the zone: --tz") {
				t.Errorf("zone %q: %v", zone, r.Reports)
			}
		}
	}
}

// TestFiles: what becomes of files as people have them is what stands beside them, and has been read by somebody.
func TestFiles(t *testing.T) {
	var names []string
	for _, pattern := range []string{"*.crontab", "*.anacrontab", "*.timer", "*.yaml"} {
		found, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		names = append(names, found...)
	}
	for _, path := range names {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			text, r := imported(t, name)
			readBack(t, r)
			if filepath.Ext(name) != ".yaml" {
				everyLine(t, text, r)
			}
			got := string(r.YAML) + "--- reports\n"
			for _, one := range r.Reports {
				got += fmt.Sprintf("%s (lost: %v)\n", one, one.Lost)
			}
			want := path + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			b, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(b) {
				t.Errorf("another outcome than in %s; go test -update writes it anew:\n%s", want, got)
			}
		})
	}
}
