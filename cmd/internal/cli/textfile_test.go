package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// prom reads a text file by Prometheus' own parser: the values of all series, and of those with a reason by
// NAME/REASON. Every series has the labels of its job.
func prom(t testing.TB, path, namespace, job string) map[string]float64 {
	t.Helper()
	is, err := os.Lstat(path)
	if err != nil || is.Mode() != 0o644 {
		t.Fatalf("%s: mode %v, %v", path, is, err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	families, err := new(expfmt.TextParser).TextToMetricFamilies(f)
	if err != nil {
		t.Fatalf("%s can't be parsed: %v", path, err)
	}
	values := map[string]float64{}
	for name, family := range families {
		if family.GetHelp() == "" || family.GetType().String() != "GAUGE" {
			t.Errorf("%s is a %s and says %q", name, family.GetType(), family.GetHelp())
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			series := name
			if reason, ok := labels["reason"]; ok {
				series += "/" + reason
				delete(labels, "reason")
			}
			if want := map[string]string{"namespace": namespace, "job": job}; !maps.Equal(labels, want) {
				t.Errorf("%s has the labels %v, want %v", name, labels, want)
			}
			values[strings.TrimPrefix(series, "onerun_job_last_")] = m.GetGauge().GetValue()
		}
	}
	return values
}

// near checks that a time is one of the last minute.
func near(t testing.TB, values map[string]float64, series ...string) {
	t.Helper()
	for _, s := range series {
		at, ok := values[s+"_timestamp_seconds"]
		if now := float64(time.Now().Unix()); !ok || at < now-60 || at > now+1 {
			t.Errorf("%s is at %f, and now it is %f", s, at, now)
		}
	}
}

func promDir(t testing.TB, b *bed) string {
	t.Helper()
	if err := os.Mkdir(b.path("prom"), 0o755); err != nil {
		t.Fatal(err)
	}
	return b.path("prom")
}

// TestTextfile: the file tells of the last end, of the last success whatever came after it, and of refusals.
func TestTextfile(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := promDir(t, b)
	file := filepath.Join(dir, "onerun_prod_settle.prom")
	start := func(partition string, code int, command ...string) map[string]float64 {
		b.run(append([]string{"run", "settle", "--namespace", "prod", "--partition", partition, "--textfile-dir", "prom", "--"}, command...)...).exits(t, code).silent(t)
		return prom(t, file, "prod", "settle")
	}
	v := start("a", 0, "sleep", "0.3")
	near(t, v, "start", "end", "success")
	if took := v["duration_seconds"]; took < 0.29 || took > 30 || v["failed"] != 0 || v["exit_code"] != 0 || len(v) != 6 {
		t.Errorf("after a success it says %v", v)
	}
	won := v["success_timestamp_seconds"]

	b.run("run", "settle", "--namespace", "prod", "--partition", "b", "--textfile-dir", "prom", "--", "sh", "-c", "exit 3").exits(t, 3)
	v = prom(t, file, "prod", "settle")
	if v["failed"] != 1 || v["exit_code"] != 3 || v["success_timestamp_seconds"] != won || v["end_timestamp_seconds"] <= won || len(v) != 6 {
		t.Errorf("after a failure it says %v", v)
	}

	v = start("a", 0, "true")
	if len(v) != 7 || v["failed"] != 1 || v["exit_code"] != 3 || v["success_timestamp_seconds"] != won {
		t.Errorf("after a refusal it says %v", v)
	}
	near(t, v, "end")
	if v["refusal_timestamp_seconds/succeeded"] < v["end_timestamp_seconds"] {
		t.Errorf("after a refusal it says %v", v)
	}
	b.run("run", "settle", "--namespace", "prod", "--partition", "b", "--textfile-dir", "prom", "--", "true").exits(t, 79)
	if v = prom(t, file, "prod", "settle"); v["refusal_timestamp_seconds/failed"] < v["refusal_timestamp_seconds/succeeded"] || len(v) != 8 {
		t.Errorf("after two refusals it says %v", v)
	}

	// What never started failed; what found nothing to do didn't.
	b.run("run", "settle", "--namespace", "prod", "--textfile-dir", "prom", "--", "./no-such-command").exits(t, 127)
	if v = prom(t, file, "prod", "settle"); v["failed"] != 1 || v["exit_code"] != 127 {
		t.Errorf("without a command it says %v", v)
	}
	if v = start("c", 0, "onerun", "report", "skipped", "nothing there"); v["failed"] != 0 || v["success_timestamp_seconds"] <= won {
		t.Errorf("of a job with nothing to do it says %v", v)
	}
	if names := entriesOf(t, dir); !slices.Equal(names, []string{"onerun_prod_settle.prom"}) {
		t.Errorf("there are %q", names)
	}
}

func entriesOf(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestTextfileRetries: every attempt writes it, and so do backfill, rerun, and a job whose configuration says so.
func TestTextfileRetries(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	file := filepath.Join(promDir(t, b), "onerun_default_settle.prom")
	if err := os.WriteFile(b.path("conf"), []byte("defaults: {textfile_dir: prom}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The second attempt looks at what the first one left.
	b.run("run", "settle", "--config", "conf", "--retries", "1", "--backoff", "10ms", "--", "sh", "-c", `
		if test $ONERUN_ATTEMPT$ONERUN_PARTITION = 1 && test ! -e done; then touch done; exit 4; fi
		until grep -q "^onerun_job_last_exit_code{.*} 4$" `+file+`; do :; done`).exits(t, 0)
	if v := prom(t, file, "default", "settle"); v["failed"] != 0 || v["exit_code"] != 0 {
		t.Errorf("after a retry it says %v", v)
	}
	other := t.TempDir() // of a start from elsewhere: the path counts from the file
	cmd := b.command("backfill", "settle", "--config", b.path("conf"), "--from", "2026-09-15", "--to", "2026-09-16", "--keep-going", "-c", "exit 5")
	cmd.Dir = other
	outcome(cmd).exits(t, 5)
	if v := prom(t, file, "default", "settle"); v["exit_code"] != 5 {
		t.Errorf("after a backfill it says %v", v)
	}
	b.run("rerun", "settle:2026-09-15", "--reason", "mended", "--textfile-dir", "prom", "--", "sh", "-c", "exit 6").exits(t, 6)
	if v := prom(t, file, "default", "settle"); v["exit_code"] != 6 {
		t.Errorf("after a rerun it says %v", v)
	}
}

// TestTextfileGuard: the end of a job whose wrapper was killed is in the file, and so is one that only the next start
// found out.
func TestTextfileGuard(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	file := filepath.Join(promDir(t, b), "onerun_default_settle.prom")
	b.run("run", "settle", "--textfile-dir", "prom", "--", "true").exits(t, 0)
	won := prom(t, file, "default", "settle")
	p := b.start("run", "settle", "--textfile-dir", "prom", "--", "sh", "-c", "echo up; read x")
	p.says("up")
	guardOf(t, p, 0)
	p.kill()
	var v map[string]float64
	if !eventually(func() bool { v = prom(t, file, "default", "settle"); return v["failed"] == 1 }) {
		t.Fatalf("after the wrapper was killed it says %v", v)
	}
	near(t, v, "start", "end")
	if _, known := v["exit_code"]; known || v["success_timestamp_seconds"] != won["success_timestamp_seconds"] || v["start_timestamp_seconds"] < won["end_timestamp_seconds"] {
		t.Errorf("after the wrapper was killed it says %v, before it said %v", v, won)
	}

	b.run("run", "settle", "--textfile-dir", "prom", "--", "true").exits(t, 0)
	p = b.start("run", "settle", "--partition", "p", "--textfile-dir", "prom", "--", "sh", "-c", "echo up; read x")
	p.says("up")
	guardOf(t, p, 0)
	p.signal(unix.SIGSTOP) // or it would start another guard
	p.signalGuard(unix.SIGKILL)
	p.die()
	b.run("run", "settle", "--partition", "p", "--textfile-dir", "prom", "--", "true").exits(t, 79)
	if v = prom(t, file, "default", "settle"); v["failed"] != 1 || v["refusal_timestamp_seconds/failed"] == 0 {
		t.Errorf("after wrapper and guard were killed it says %v", v)
	}
}

// TestTextfileAtOnce: of jobs that end beside each other no reader ever sees half a file, and none loses the success of
// another.
func TestTextfileAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const writers, rounds = 8, 25
	over := make(chan struct{})
	var reader, all sync.WaitGroup
	path := filepath.Join(dir, textfileName("default", "j"))
	if err := changeTextfile(dir, "default", "j", func(*textState) {}); err != nil {
		t.Fatal(err)
	}
	reader.Go(func() {
		for {
			text, err := os.ReadFile(path)
			if err != nil || !strings.HasSuffix(string(text), textEOF+"\n") {
				t.Errorf("a reader sees %q, %v", text, err)
				return
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	for w := range writers {
		all.Go(func() {
			for range rounds {
				err := changeTextfile(dir, "default", "j", func(s *textState) {
					s.values[refusalSeries(textReasons[w])]++
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	close(over)
	reader.Wait()
	v := prom(t, path, "default", "j")
	for _, r := range textReasons {
		if n := v["refusal_timestamp_seconds/"+string(r)]; n != rounds {
			t.Errorf("%s: %v of %d changes are there", r, n, rounds)
		}
	}
	if names := entriesOf(t, dir); len(names) != 1 {
		t.Errorf("there are %q", names)
	}
}

// TestTextfileNames: any two jobs have two files, of names that every file system takes, and the labels are the names.
func TestTextfileNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("한", 100)
	seen := map[string]bool{}
	for _, name := range [][2]string{
		{"default", "settle"},
		{"a_b", "c"},
		{"a", "b_c"},
		{"a_b_c", "d"},
		{"a", "b_c_d"},
		{"a__b", "c"},
		{"a_b", "_c"},
		{"운영", "일일정산"},
		{long, long},
		{long, long[:len(long)-3]},
		{long[:len(long)-3], long},
		{"x", long},
		{"x_", long},
		{"x", "_" + long},
		{"quo\"te", "back\\slash\nline"}, // no names, and escaped all the same
	} {
		ns, job := name[0], name[1]
		file := textfileName(ns, job)
		if seen[file] || len(file) > 220 {
			t.Errorf("%q: the file is %q", name, file)
		}
		seen[file] = true
		for range 2 { // made, and read back
			err := changeTextfile(dir, ns, job, func(s *textState) { s.values[textExit]++ })
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
		}
		if v := prom(t, filepath.Join(dir, file), ns, job); v["exit_code"] != 2 {
			t.Errorf("%q: it says %v", name, v)
		}
	}
}

// TestTextfileBroken: what isn't a whole file of this job's is replaced, and nothing of it is believed.
func TestTextfileBroken(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	dir := promDir(t, b)
	file := filepath.Join(dir, "onerun_default_j.prom")
	good := (&textState{values: map[string]float64{textSuccess: 1e9}}).text("default", "j")
	if s := readText(good, "default", "j", time.Now()); s.values[textSuccess] != 1e9 {
		t.Fatalf("a good file says %v", s.values)
	}
	swap := func(a, b string) string { return strings.Replace(good, a, b, 1) }
	for what, text := range map[string]string{
		"empty": "", "noise": "\x00\xff{}\n", "cut off": good[:len(good)-9], "another job's": (&textState{values: map[string]float64{textSuccess: 1e9}}).text("default", "k"),
		"no number": swap(" 1000000000", " soon"), "NaN": swap(" 1000000000", " NaN"), "infinite": swap(" 1000000000", " +Inf"), "negative": swap(" 1000000000", " -1"),
		"the future": swap(" 1000000000", " 9000000000"), "another series": swap("seconds{", "second{"), "twice": swap("# EOF", "onerun_job_last_success_timestamp_seconds{namespace=\"default\",job=\"j\"} 1\n# EOF"),
		"long": strings.Repeat("# x\n", maxTextfile) + good,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b.run("run", "j", "--textfile-dir", "prom", "--", "false").exits(t, 1)
		v := prom(t, file, "default", "j")
		if at, ok := v["success_timestamp_seconds"]; ok || v["failed"] != 1 {
			t.Errorf("%s: a success at %f is believed: %v", what, at, v)
		}
	}

	// A link is replaced, and not followed; a pipe doesn't keep anybody; what can't be replaced is said.
	canary := b.path("canary")
	for what, put := range map[string]func() error{
		"a link": func() error { return os.Symlink(canary, file) },
		"a link from the temporary name": func() error {
			return os.Symlink(canary, filepath.Join(dir, ".onerun_default_j.prom.tmp"))
		},
		"a pipe": func() error { return unix.Mkfifo(file, 0o666) },
	} {
		if err := os.WriteFile(canary, []byte(good), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(file)
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if r := b.run("run", "j", "--textfile-dir", "prom", "--", "false").exits(t, 1); strings.Contains(r.err, eventTextfileFailed) {
			t.Errorf("%s: it says %s", what, r.err)
		}
		v := prom(t, file, "default", "j")
		if _, believed := v["success_timestamp_seconds"]; believed || v["failed"] != 1 || b.read("canary") != good {
			t.Errorf("%s: it says %v, and the file elsewhere %q", what, v, b.read("canary"))
		}
	}
	if names := entriesOf(t, dir); !slices.Equal(names, []string{"onerun_default_j.prom"}) {
		t.Errorf("there are %q", names)
	}
}

// TestTextfileTrouble: what keeps the file from being written is one line, and the job's exit code is its own.
func TestTextfileTrouble(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for path, says := range map[string]string{"gone": "no such file or directory; make the directory", "store/onerun.db": "not a directory", "taken": "directory"} {
		if path == "taken" { // a directory is where the file should be
			if err := os.MkdirAll(b.path("taken/onerun_default_j.prom/x"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, code := range []int{0, 3} {
			r := b.run("run", "j", "--retries", "1", "--backoff", "1ms", "--textfile-dir", path, "--", "sh", "-c", "exit $1", "sh", map[int]string{0: "0", 3: "3"}[code]).exits(t, code)
			n := 0
			for line := range strings.Lines(r.err) {
				if strings.Contains(line, "event="+eventTextfileFailed) {
					n++
					if !strings.Contains(line, "level=warn") || !strings.Contains(line, says) || !strings.Contains(line, "onerun_default_j.prom") {
						t.Errorf("%s: it says %s", path, line)
					}
				}
			}
			if n != 1 {
				t.Errorf("%s: %d lines: %s", path, n, r.err)
			}
		}
	}
}

// TestTextfileOrder: of two ends the later one is the last, in whatever order they are told, but for a time that can't be.
func TestTextfileOrder(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Millisecond)
	s := readText("", "n", "j", now)
	seven := 7
	s.end(textEnd{start: now.Add(-time.Minute), at: now.Add(-time.Second), exit: &seven})
	s.end(textEnd{start: now.Add(-time.Hour), at: now.Add(-time.Minute), well: true})
	s.end(textEnd{start: now.Add(-time.Hour), at: now.Add(-2 * time.Minute), well: true})
	if s.values[textExit] != 7 || s.values[textFailed] != 1 || s.values[textTook] != 59 || s.values[textSuccess] != unixSeconds(now.Add(-time.Minute)) {
		t.Errorf("it says %v", s.values)
	}
	for _, r := range []onerun.Reason{onerun.RefusedLocked, "no reason\" 1\nof ours"} {
		s.refused(r, now)
	}
	again := readText(s.text("n", "j"), "n", "j", now)
	if !maps.Equal(again.values, s.values) || len(s.values) != 7 {
		t.Errorf("it says %v, and read back %v", s.values, again.values)
	}
	if back := readText(s.text("n", "j"), "n", "j", now.Add(-time.Hour)); len(back.values) != 3 { // the clock was put back
		t.Errorf("of the future it believes %v", back.values)
	}
}
