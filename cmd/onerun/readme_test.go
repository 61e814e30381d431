package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// step is one command line of the README's tour with the output under it.
type step struct {
	line    int
	command string
	want    string
}

// tour reads the console blocks of the README.
func tour(t *testing.T) []step {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	in := false
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "```console":
			in = true
		case line == "```":
			in = false
		case in && strings.HasPrefix(line, "$ "):
			steps = append(steps, step{line: i + 1, command: line[2:]})
		case in && len(steps) > 0:
			steps[len(steps)-1].want += line + "\n"
		}
	}
	return steps
}

// differing are the parts of an output that are another each time.
var differing = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s)\b`), "SPAN"},
	{regexp.MustCompile(`[^ ]+/\d+\b`), "WORKER"},
	{regexp.MustCompile(` +`), " "}, // columns are as wide as what is in them
}

func normal(s string) string {
	for _, d := range differing {
		s = d.pattern.ReplaceAllString(s, d.with)
	}
	return s
}

// TestReadme executes the tour, every command line in one shell, and compares what
// each prints with what the README says.
func TestReadme(t *testing.T) {
	steps := tour(t)
	if len(steps) < 10 {
		t.Fatalf("the README's tour has %d command lines; that can't be all", len(steps))
	}
	const mark = "=== end of step ==="
	var script strings.Builder
	for _, s := range steps {
		// The status of a step is what $? is in the next.
		script.WriteString("(exit $status); " + s.command + "\nstatus=$?; echo '" + mark + "'\n")
	}
	cmd := exec.Command("bash", "-c", "status=0\n"+script.String())
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "ONERUN_STORE=sqlite:"+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the tour: %v\n%s", err, out)
	}
	got := strings.Split(string(out), mark+"\n")
	for i, s := range steps {
		if i >= len(got)-1 {
			t.Fatalf("README line %d was not reached: %s\n%s", s.line, s.command, out)
		}
		if normal(got[i]) != normal(s.want) {
			t.Errorf("README line %d: $ %s\nsays:\n%s\nprints:\n%s", s.line, s.command, s.want, got[i])
		}
	}
}

// TestReadmeCommands: the README's first screen shows exactly two commands, and the
// first is what it says.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```sh\n")
	block, _, _ := strings.Cut(rest, "```")
	lines := strings.Split(strings.TrimSpace(block), "\n")
	if len(lines) != 2 || lines[1] != "make test" {
		t.Fatalf("the README's first commands are %q, want two, the second make test", lines)
	}
	cmd := exec.Command("bash", "-c", lines[0])
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "ONERUN_STORE=sqlite:"+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "settling the day\n") {
		t.Errorf("%s: %v\n%s", lines[0], err, out)
	}
}
