package cli

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// step is one command line of a document's console blocks, with the output under it.
type step struct {
	line    int
	who     string // as whom, "" for the shell's own account
	command string
	want    string
}

// chapter is what a document says under one heading. Each has a store and a shell of its own.
type chapter struct {
	title string
	steps []step
}

// prompt begins a command line: "$ ", or "kim$ " for another person.
var prompt = regexp.MustCompile(`^([a-z]*)\$ (.*)`)

// tour reads the console blocks of a document. A comment "<!-- scene" has lines that set
// the scene of what follows: they are executed too, and what they print doesn't matter.
func tour(t *testing.T, file string) (chapters []chapter) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := ""
	c := &chapter{}
	for i, line := range strings.Split(string(text), "\n") {
		command := prompt.FindStringSubmatch(line)
		switch {
		case line == "```console", line == "<!-- scene":
			in = line
		case line == "```", line == "-->":
			in = ""
		case in == "" && strings.HasPrefix(line, "## "):
			chapters = append(chapters, chapter{title: line[len("## "):]})
			c = &chapters[len(chapters)-1]
		case in == "<!-- scene":
			c.steps = append(c.steps, step{line: i + 1, command: line, want: anything})
		case in != "" && command != nil:
			c.steps = append(c.steps, step{line: i + 1, who: command[1], command: command[2]})
		case in != "" && len(c.steps) > 0:
			c.steps[len(c.steps)-1].want += line + "\n"
		}
	}
	return chapters
}

// anything stands for any lines.
const anything = "...\n"

// says reports whether a step printed what its document says.
func (s step) says(got string) bool {
	parts := strings.Split(normal(s.want), anything)
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(normal(got))
}

// differing are the parts of an output that are another each time.
var differing = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s)\b`), "SPAN"},
	{regexp.MustCompile(`[^ ]+/\d+\b`), "WORKER"},
	{regexp.MustCompile(`\b(process|group|pid) \d+`), "$1 PID"},
	{regexp.MustCompile(`\broot@[^ ]+`), "root@HOST"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "HASH"},
	{regexp.MustCompile(`"token":\d{13,}`), "TOKEN"},
	{regexp.MustCompile(`(?m)^.*line \d+: +\d+ Killed.*$`), "Killed"}, // as bash says it
	{regexp.MustCompile(` +`), " "},                                   // columns are as wide as what is in them
}

func normal(s string) string {
	for _, d := range differing {
		s = d.pattern.ReplaceAllString(s, d.with)
	}
	return s
}

// TestReadme executes the tour, and compares what each line prints with what the README says.
func TestReadme(t *testing.T) {
	chapters := tour(t, "../../../README.md")
	for _, c := range chapters {
		if len(c.steps) == 0 {
			continue
		}
		if len(c.steps) < 10 {
			t.Errorf("the README's tour has %d command lines; that can't be all", len(c.steps))
		}
		cmd := exec.Command("bash", "-c", c.script())
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "ONERUN_STORE=sqlite:"+t.TempDir(), "TMPDIR="+tmp)
		c.compare(t, cmd)
	}
}

// TestInside executes docs/inside.md, each chapter inside of a job.
func TestInside(t *testing.T) {
	t.Parallel()
	for _, c := range tour(t, "../../../docs/inside.md") {
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			if err := os.WriteFile(b.path("chapter"), []byte(c.script()), 0o600); err != nil {
				t.Fatal(err)
			}
			c.compare(t, b.command("run", "pay", "--partition", "a", "--", "bash", "chapter"))
		})
	}
}

// TestOperating executes docs/operating.md. Each of its symptoms has a machine of its own:
// what it mounts, and whom it knows, is gone with it.
func TestOperating(t *testing.T) {
	chapters := tour(t, "../../../docs/operating.md")
	if len(chapters) < 18 {
		t.Errorf("docs/operating.md has %d symptoms; that can't be all", len(chapters))
	}
	for _, c := range chapters {
		t.Run(c.title, func(t *testing.T) {
			t.Parallel()
			if len(c.steps) == 0 {
				t.Fatal("it has no command line")
			}
			c.compare(t, sandboxed(t, "bash", ". $SANDBOX/machine.sh\n"+c.script(), "--pid", "--fork", "--mount-proc"))
		})
	}
}

const mark = "=== end of step ==="

// script is the command lines of a chapter for one shell.
func (c chapter) script() string {
	var script strings.Builder
	script.WriteString("status=0\n")
	for i, s := range c.steps {
		// The status of a step is what $? is in the next. A scene may go on for several lines.
		if s.want == anything {
			script.WriteString(s.command + "\n")
			if i+1 == len(c.steps) || c.steps[i+1].want != anything {
				script.WriteString("\necho; echo '" + mark + "'\n")
			}
			continue
		}
		if s.who != "" {
			s.command = "person " + s.who + " bash -c '" + strings.ReplaceAll(s.command, "'", `'\''`) + "'"
		}
		script.WriteString("(exit $status); " + s.command + "\nstatus=$?; echo '" + mark + "'\n")
	}
	return script.String()
}

// compare executes a chapter by a command, and compares.
func (c chapter) compare(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", c.title, err, out)
	}
	got := strings.Split(string(out), mark+"\n")
	n := 0
	for i, s := range c.steps {
		if s.want == anything && i+1 < len(c.steps) && c.steps[i+1].want == anything {
			continue
		}
		if n >= len(got)-1 {
			t.Fatalf("line %d was not reached: %s\n%s", s.line, s.command, out)
		}
		if !s.says(got[n]) {
			t.Errorf("line %d: $ %s\nsays:\n%s\nprints:\n%s", s.line, s.command, s.want, got[n])
		}
		n++
	}
}

// TestReadmeCommands: the README's first screen shows exactly two commands, and the
// first is what it says.
func TestReadmeCommands(t *testing.T) {
	text, err := os.ReadFile("../../../README.md")
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
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), "ONERUN_STORE=sqlite:"+t.TempDir(), "TMPDIR="+tmp)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "settling the day\n") {
		t.Errorf("%s: %v\n%s", lines[0], err, out)
	}
}
