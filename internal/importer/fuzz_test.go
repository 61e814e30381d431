package importer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// seed gives a fuzz test the files of testdata.
func seed(f *testing.F, patterns ...string) {
	f.Helper()
	for _, p := range patterns {
		names, err := filepath.Glob(filepath.Join("testdata", p))
		if err != nil || len(names) == 0 {
			f.Fatalf("%s: %v, %v", p, names, err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
}

// timed is an import that ends in a moment, and whose file is read back as it was meant.
func timed(t *testing.T, do func() Result) Result {
	t.Helper()
	start := spent(t)
	r := do()
	if took := spent(t) - start; took > moment {
		t.Errorf("took %s", took)
	}
	readBack(t, r)
	return r
}

func FuzzCrontab(f *testing.F) {
	seed(f, "*.crontab", "*.anacrontab")
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, table := range []Table{TableAuto, TableSystem} {
			r := timed(t, func() Result { return Crontab("c", text, Options{Zone: "Asia/Seoul", Now: newYear, Table: table}) })
			if len(r.Reports) < maxReports {
				everyLine(t, string(text), r)
			}
		}
	})
}

func FuzzTimer(f *testing.F) {
	seed(f, "*.timer")
	files := fstest.MapFS{"t.service": &fstest.MapFile{Data: []byte("[Service]\nExecStart=/bin/true\n")}}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := timed(t, func() Result { return Systemd("t.timer", text, Options{Zone: "UTC", Now: newYear, Files: files}) })
		if len(r.Reports) < maxReports {
			everyLine(t, string(text), r)
		}
	})
}

func FuzzService(f *testing.F) {
	seed(f, "*.service")
	f.Fuzz(func(t *testing.T, text []byte) {
		files := fstest.MapFS{"t.service": &fstest.MapFile{Data: text}}
		r := timed(t, func() Result {
			return Systemd("t.timer", []byte("\n[Timer]\nOnCalendar=daily\n"), Options{Zone: "UTC", Now: newYear, Files: files})
		})
		if len(r.Reports) < maxReports {
			everyLine(t, string(text), r)
		}
	})
}

func FuzzKubernetes(f *testing.F) {
	seed(f, "*.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		r := timed(t, func() Result { return Kubernetes("k", text, Options{Now: newYear}) })
		if len(r.jobs) == 0 && len(r.Reports) == 0 && strings.Trim(string(text), "- \t\r\n.") != "" && !strings.Contains(string(text), "#") &&
			!strings.Contains(string(text), "%") && !strings.Contains(string(text), "null") && !strings.Contains(string(text), "~") && !strings.Contains(string(text), "items") {
			t.Errorf("nothing is said of %q", text)
		}
	})
}
