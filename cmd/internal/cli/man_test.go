package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// rendered is a page as mandoc(1) shows it on a terminal of 80 columns.
func rendered(t *testing.T, page string) string {
	t.Helper()
	cmd := exec.Command("mandoc", "-Tutf8", "-O", "width=80")
	cmd.Stdin = strings.NewReader(page)
	r := outcome(cmd).exits(t, 0)
	return regexp.MustCompile(".\b").ReplaceAllString(r.out, "") // bold and underlined are typed over
}

// flat is a text without its line breaks.
func flat(s string) string { return strings.Join(strings.Fields(s), " ") }

// TestManPages: mandoc finds nothing wrong with any page, they can be read at 80 columns,
// and all that the help says is on them.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	newBed(t).run("man", "--dir", dir).exits(t, 0).silent(t)
	k, _ := model(&env{out: io.Discard, err: io.Discard}, "")
	for _, n := range append([]*kong.Node{k.Model.Node}, k.Model.Children...) {
		name, flags, exits := "onerun", k.Model.Flags, exitHelp
		if n != k.Model.Node {
			name, flags, exits = "onerun-"+n.Name, append(slices.Clone(flags), n.Flags...), exitHelpOf(n.Name)
		}
		path := filepath.Join(dir, name+".1")
		if r := outcome(exec.Command("mandoc", "-Tlint", "-W", "warning", path)); r.code != 0 || r.out+r.err != "" {
			t.Errorf("mandoc on %s: %d\n%s%s", name, r.code, r.out, r.err)
		}
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := rendered(t, string(page))
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\n"); utf8.RuneCountInString(line) > 80 && len(strings.Fields(line)) > 1 {
				t.Errorf("%s has a line of more than 80 columns: %s", name, line)
			}
		}
		said := func(what, s string) {
			if !strings.Contains(flat(text), flat(s)) {
				t.Errorf("%s: %s is not on the page: %s", name, what, s)
			}
		}
		said("the help", n.Help)
		said("the description", n.Detail)
		for _, heading := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"} {
			if !strings.Contains(text, "\n"+heading+"\n") {
				t.Errorf("%s has no section %s", name, heading)
			}
		}
		for _, a := range n.Positional {
			said("argument "+a.Name, strings.ToUpper(a.Name))
			said("argument "+a.Name, a.Help)
		}
		for _, f := range flags {
			if !f.Hidden {
				said("--"+f.Name, f.String()) // as --help shows it
				said("--"+f.Name, f.Help)
				if f.HasDefault && !strings.Contains(f.Help, "("+f.Default+")") && !strings.Contains(f.Help, "(default: ") {
					said("the default of --"+f.Name, "Default: "+f.Default+".")
				}
			}
		}
		_, list, _ := strings.Cut(text, "\nEXIT STATUS\n")
		list, _, _ = strings.Cut(list, "\nENVIRONMENT\n")
		for _, code := range regexp.MustCompile(`\b\d{1,3}\b`).FindAllString(exits, -1) {
			if code != "128" && !regexp.MustCompile(`(?m)^ +`+code+` +\S`).MatchString(list) {
				t.Errorf("%s: exit status %s is not in the list: %s", name, code, list)
			}
		}
	}
}

// TestManVariables: the page lists what a job really gets.
func TestManVariables(t *testing.T) {
	b := newBed(t)
	var want, got []string
	for _, v := range given {
		want = append(want, v.name)
	}
	for line := range strings.Lines(b.run("run", "settle", "--date", "2026-09-15", "--", "env").exits(t, 0).out) {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "ONERUN_") && name != "ONERUN_STORE" {
			got = append(got, name)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("a job gets %q, and the page lists %q", got, want)
	}
}

// TestManText: whatever a help may say comes out as it was.
func TestManText(t *testing.T) {
	for _, text := range []string{
		".TH at the beginning of a line",
		"'so is this",
		`a \fBbackslash\fP, \(aq and "quotes" 'of' both kinds, ~ ^ and ` + "`",
		"-w, --wait=D (or --no-wait): a-b",
		"업무일 café",
		"one\n.two\n'three",
	} {
		p := newPage()
		p.line(`.TH X 1 "2026-09-15"`)
		p.section("TEXT")
		p.prose(text)
		if got := flat(rendered(t, p.String())); !strings.Contains(got, "TEXT "+flat(text)+" ") {
			t.Errorf("%q comes out as %q", text, got)
		}
	}
	p := newPage()
	p.line(`.TH X 1 "2026-09-15"`)
	p.section("TEXT")
	p.prose("Said.\n\n    an example\n    of two lines\n\nMore.")
	if got := rendered(t, p.String()); !regexp.MustCompile(`Said\.\n\n +an example\n +of two lines\n\n +More\.`).MatchString(got) {
		t.Errorf("an example is not left as it is: %s", got)
	}
}

func TestPageDate(t *testing.T) {
	now := time.Date(2026, 9, 15, 1, 0, 0, 0, time.FixedZone("Seoul", 9*60*60))
	for epoch, want := range map[string]string{"": "2026-09-14", "0": "1970-01-01", "1789430400": "2026-09-15", "soon": "2026-09-14", "-1": "2026-09-14"} {
		if got := pageDate(epoch, now); got != want {
			t.Errorf("%q: %s, want %s", epoch, got, want)
		}
	}
}
