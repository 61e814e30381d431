package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// page is a manual page in the making, in the macros of man(7).
type page struct {
	strings.Builder
	flagWords, exitCodes, variables, mentions, programs *regexp.Regexp
}

// newPage compiles the patterns here, since every start of the program would pay for
// those of the package.
func newPage() *page {
	return &page{
		flagWords: regexp.MustCompile(`(^|[\s(])(--?[A-Za-z][A-Za-z0-9-]*)`),
		exitCodes: regexp.MustCompile(`(?:^|\s) *(\d{1,3})  `),
		variables: regexp.MustCompile(`\bONERUN_[A-Z_]+\b`),
		mentions:  regexp.MustCompile(`\b([a-z][a-z0-9._-]*)\(([1-8])\)`),
		programs:  regexp.MustCompile(`\bonerun ([a-z]+)\b`),
	}
}

func (p *page) line(text string) {
	p.WriteString(text)
	p.WriteByte('\n')
}

func (p *page) title(m manual, name string) {
	p.line(fmt.Sprintf(`.TH %s 1 "%s" "%s %s"`, roff(strings.ToUpper(name)), m.date, roff(m.app.Name), roff(buildVersion())))
	p.section("NAME")
}

func (p *page) section(name string) { p.line(".SH " + name) }

// item begins an entry of a list, whose text follows.
func (p *page) item(tag string) {
	p.line(".TP")
	p.line(tag)
}

// prose writes text as it stands in a help: paragraphs with empty lines between them,
// of which those that are set in are left as they are.
func (p *page) prose(text string) {
	for i, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			p.line(".PP")
		}
		asIs := strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t")
		if asIs {
			p.line(".EX")
		}
		for l := range strings.SplitSeq(paragraph, "\n") {
			if l = strings.TrimRight(l, " "); l != "" {
				p.line(guarded(p.marked(l)))
			}
		}
		if asIs {
			p.line(".EE")
		}
	}
}

// options lists flags with all that there is to know of each.
func (p *page) options(flags []*kong.Flag) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		tag := bold("--" + f.Name)
		if f.Short != 0 {
			tag = bold("-"+string(f.Short)) + ", " + tag
		}
		if !f.IsBool() {
			tag += "=" + placeholder(f)
		}
		p.item(tag)
		p.prose(f.Help + extra(f.Value, f.PlaceHolder))
	}
}

func placeholder(f *kong.Flag) string { return `\fI` + roff(f.FormatPlaceHolder()) + `\fP` }

// extra is what the help of a flag or argument leaves out: the words that it may be, if
// its placeholder doesn't show them, and the default.
func extra(v *kong.Value, shown string) string {
	text := ""
	words := v.EnumSlice()
	if v.Enum != "" && slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(v.Help+" "+shown, w) }) {
		text += " One of " + strings.Join(words, ", ") + "."
	}
	if v.HasDefault && v.Default != "" && !strings.Contains(v.Help, "("+v.Default+")") && !strings.Contains(v.Help, "(default: ") {
		text += " Default: " + v.Default + "."
	}
	return text
}

// exitStatus makes a list of what a help says of the exit codes: a sentence of clauses,
// and a table of codes in columns.
func (p *page) exitStatus(text string) {
	p.section("EXIT STATUS")
	intro, table, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "Exit codes: "), "\n")
	var codes []exitLine
	var words []string
	for clause := range strings.SplitSeq(strings.TrimSuffix(intro, ":"), "; ") {
		number, text, _ := strings.Cut(clause, " ")
		switch n, err := strconv.Atoi(number); {
		case err == nil:
			codes = append(codes, exitLine{n, text})
		case clause != "else":
			words = append(words, clause)
		}
	}
	if words != nil {
		p.prose(capital(strings.Join(words, "; ")) + ":")
	}
	for l := range strings.SplitSeq(table, "\n") {
		starts := p.exitCodes.FindAllStringSubmatchIndex(l, -1)
		if starts == nil && len(codes) > 0 { // goes on
			codes[len(codes)-1].text += " " + strings.TrimSpace(l)
		}
		for i, at := range starts {
			end := len(l)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			number, _ := strconv.Atoi(l[at[2]:at[3]]) // digits, by the pattern
			codes = append(codes, exitLine{number, strings.TrimSpace(l[at[1]:end])})
		}
	}
	slices.SortStableFunc(codes, func(a, b exitLine) int { return a.number - b.number })
	for _, c := range codes {
		p.item(bold(strconv.Itoa(c.number)))
		p.prose(c.text)
	}
}

type exitLine struct {
	number int
	text   string
}

// asked lists the variables that flags name in their help.
func (p *page) asked(flags []*kong.Flag) {
	found := false
	seen := map[string]bool{}
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		for _, name := range p.variables.FindAllString(f.Help, -1) {
			if !seen[name] {
				p.item(bold(name))
				p.line("Used when " + bold("--"+f.Name) + " is not given.")
			}
			seen[name], found = true, true
		}
	}
	if !found {
		p.line("It asks for no variable of its own.")
	}
}

// given are the variables of a job.
var given = []struct{ name, help string }{
	{"ONERUN_JOB", "Name of the job; a lock alone has none, and none of those that name a run."},
	{"ONERUN_NAMESPACE", "Its namespace."},
	{"ONERUN_KEY", "Its key, JOB:PARTITION; empty for an unkeyed run."},
	{"ONERUN_PARTITION", "The partition of the key."},
	{"ONERUN_BUSINESS_DATE", "The date that the run is for, if its partition is one."},
	{"ONERUN_ATTEMPT", "Number of the execution, from 1."},
	{"ONERUN_RUN_ID", "Id of the run."},
	{"ONERUN_TOKEN", "Fencing token: greater with every claim under the same lock."},
	{"ONERUN_OWNER", "By which its processes are recognised."},
	{"ONERUN_TMPDIR", "A directory of its own for temporary files, removed at the end."},
	{"ONERUN_SOCKET", "The unix socket by which a job reports, checks and does items: HTTP with JSON."},
}

func (p *page) files(app *kong.Node) {
	p.section("FILES")
	for _, f := range []struct{ path, help string }{
		{shared + "/onerun.db", "The embedded store of root, and of every account that may write there."},
		{"~/.local/state/onerun/onerun.db", "The embedded store of other accounts, in the home of the user database."},
		{"locks/", "Beside the store: the lock files."},
	} {
		p.item(`\fI` + roff(f.path) + `\fP`)
		p.prose(f.help)
	}
	for _, f := range app.Flags {
		if f.Name == "config" && !f.Hidden {
			p.item(`\fI` + roff("/etc/onerun/onerun.yaml") + `\fP`)
			p.prose("Where no other is named.")
		}
	}
}

// seeAlso lists the pages that a help mentions. The program's lists all commands.
func (p *page) seeAlso(m manual, n *kong.Node, program string) {
	text := n.Help + " " + n.Detail
	for _, f := range n.Flags {
		text += " " + f.Help
	}
	var pages []string
	add := func(name, chapter string) {
		if page := bold(name) + "(" + chapter + ")"; !slices.Contains(pages, page) {
			pages = append(pages, page)
		}
	}
	if program != "" {
		add(program, "1")
	}
	for _, c := range m.app.Children {
		named := slices.ContainsFunc(p.programs.FindAllStringSubmatch(text, -1), func(found []string) bool { return found[1] == c.Name })
		if !c.Hidden && c != n && (program == "" || named) {
			add(m.app.Name+"-"+c.Name, "1")
		}
	}
	for _, found := range p.mentions.FindAllStringSubmatch(text, -1) {
		add(found[1], found[2])
	}
	if program == "" {
		add("flock", "1")
		add("crontab", "5")
		add("systemd.timer", "5")
	}
	p.section("SEE ALSO")
	p.line(strings.Join(pages, ",\n"))
}

// roff is text without anything that roff would act on. A hyphen becomes a minus, which
// can be copied and searched.
func roff(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r == '\'':
			b.WriteString(`\(aq`)
		case r == '"':
			b.WriteString(`\(dq`)
		case r == '`':
			b.WriteString(`\(ga`)
		case r == '^':
			b.WriteString(`\(ha`)
		case r == '~':
			b.WriteString(`\(ti`)
		case r > unicode.MaxASCII:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func bold(s string) string { return `\fB` + roff(s) + `\fP` }

// marked is a line of a help in roff, with its flags bold.
func (p *page) marked(s string) string {
	var b strings.Builder
	for {
		at := p.flagWords.FindStringSubmatchIndex(s)
		if at == nil {
			break
		}
		b.WriteString(roff(s[:at[4]]) + bold(s[at[4]:at[5]]))
		s = s[at[5]:]
	}
	return b.String() + roff(s)
}

// guarded keeps a line from being taken for a request.
func guarded(s string) string {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}

// decapital makes the first letter small, unless the word is a name.
func decapital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if next, _ := utf8.DecodeRuneInString(s[n:]); unicode.IsUpper(next) {
		return s
	}
	return string(unicode.ToLower(r)) + s[n:]
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
