package importer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onerun-dev/onerun"
)

// setting is one key of a job, with the one of the three kinds of values that isn't nil.
type setting struct {
	key   string
	text  string
	list  []string
	pairs [][2]string
}

func word(key, text string) setting            { return setting{key: key, text: text} }
func words(key string, list ...string) setting { return setting{key: key, list: list} }
func table(key string, p ...[2]string) setting { return setting{key: key, pairs: p} }
func catchUp(policy string) setting            { return table("catch_up", [2]string{"policy", policy}) }

func (s setting) yaml() string {
	switch {
	case s.list != nil:
		var items []string
		for _, item := range s.list {
			items = append(items, quote(item))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case s.pairs != nil:
		var items []string
		for _, p := range s.pairs {
			items = append(items, p[0]+": "+quote(p[1]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return quote(s.text)
}

// job is one job of the file in the making.
type job struct {
	line     int    // where it comes from
	name     string // what it should be called, if that is free
	source   []string
	notes    []string
	settings []setting
}

func (j *job) note(format string, args ...any) {
	j.notes = append(j.notes, fmt.Sprintf(format, args...))
}
func (j *job) set(s ...setting) { j.settings = append(j.settings, s...) }

// writer makes the file: a head about all of it, and the jobs with comments between them.
type writer struct {
	file    string
	head    []string
	top     []string // the lines before the jobs
	body    strings.Builder
	jobs    []job
	taken   map[string]bool
	reports []Report
	more    int // reports beyond the most that are kept
	lastOne int // the line of the last of these
	parts   int // of YAML: comments, keys, values and punctuation
	full    bool
}

func newWriter(kind, file string) *writer {
	w := &writer{file: shown(file, maxShown), taken: map[string]bool{}}
	w.say("Made by: onerun import %s %s", kind, w.file)
	w.say("Read it before use. Each comment names the line that it is about; next: is when the job would start.")
	return w
}

// say adds to what the file begins with.
func (w *writer) say(format string, args ...any) {
	w.head = append(w.head, shown(fmt.Sprintf(format, args...), 2*maxShown))
}

// comment writes a comment between the jobs.
func (w *writer) comment(text string) { w.write("  # " + shown(text, 2*maxShown) + "\n") }

// remark is a comment on a line.
func (w *writer) remark(line int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if line > 0 {
		text = fmt.Sprintf("line %d: ", line) + text
	}
	w.comment(text)
}

func (w *writer) write(text string) {
	if w.full = w.full || w.body.Len()+len(text) > maxOutput || w.parts >= maxParts; w.full {
		return
	}
	w.parts++
	w.body.WriteString(text)
}

// lost says that a line is not in the file, why, and what to do.
func (w *writer) lost(line int, why, do string) {
	text := why
	if do != "" {
		text += "; " + do
	}
	w.report(line, text, true)
	w.remark(line, "NOT TRANSLATED: %s", text)
}

// warn says what is in the file, but has to be looked at.
func (w *writer) warn(line int, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.report(line, text, false)
	w.remark(line, "%s", text)
}

// report is told, and not written into the file.
func (w *writer) report(line int, text string, lost bool) {
	if len(w.reports) >= maxReports {
		// One that is lost must be among those that are told: it decides how the program ends.
		if lost && !w.reports[maxReports-1].Lost {
			w.reports[maxReports-1] = Report{w.file, line, shown(text, 2*maxShown), true}
		}
		w.more, w.lastOne = w.more+1, line
		return
	}
	w.reports = append(w.reports, Report{w.file, line, shown(text, 2*maxShown), lost})
}

// add writes a job, unless the file would become more than the configuration may be.
func (w *writer) add(j job) bool {
	if w.full {
		w.tooLarge(j.line)
		return false
	}
	for _, s := range j.settings {
		if why := unsayable(s); why != "" {
			w.lost(j.line, why, "put it into a script, and name that")
			return false
		}
	}
	j.name = w.unique(j.name)
	var b strings.Builder
	for _, text := range j.source {
		b.WriteString("  # " + shown(text, maxShown+40) + "\n")
	}
	b.WriteString("  " + quote(j.name) + ":\n")
	for _, text := range j.notes {
		b.WriteString("    # " + shown(text, 2*maxShown) + "\n")
	}
	parts := len(j.source) + len(j.notes) + 2
	for _, s := range j.settings {
		b.WriteString("    " + s.key + ": " + s.yaml() + "\n")
		parts += 4 + 2*len(s.list) + 4*len(s.pairs)
	}
	if len(w.jobs) >= maxJobs || w.body.Len()+b.Len() > maxOutput || w.parts+parts > maxParts {
		w.full = true
		w.tooLarge(j.line)
		return false
	}
	w.parts += parts
	w.body.WriteString(b.String())
	w.jobs = append(w.jobs, j)
	return true
}

func (w *writer) tooLarge(line int) {
	w.report(line, "the configuration would become larger than it may be; import the file in parts", true)
}

// unsayable says why no configuration can hold a value, or "".
func unsayable(s setting) string {
	for _, text := range append(append([]string{s.text}, s.list...), flatten(s.pairs)...) {
		switch {
		case strings.ContainsRune(text, 0):
			return "it holds a NUL character, which no program can be given"
		case !utf8.ValidString(text):
			return "it is not valid UTF-8, as a configuration file has to be"
		case len(text) > MaxArg:
			return fmt.Sprintf("it is longer than a command can be (%d bytes)", MaxArg)
		}
	}
	return ""
}

func flatten(pairs [][2]string) (all []string) {
	for _, p := range pairs {
		all = append(all, p[1])
	}
	return all
}

// unique makes a name that is legal and that no other job has.
func (w *writer) unique(name string) string {
	name = legal(name)
	for n, try := 2, name; ; n++ {
		if !w.taken[try] {
			w.taken[try] = true
			return try
		}
		suffix := "-" + strconv.Itoa(n)
		try = cut(name, onerun.MaxName-len(suffix)) + suffix
	}
}

// result is the whole file.
func (w *writer) result() Result {
	var b strings.Builder
	for _, line := range w.head {
		b.WriteString("# " + line + "\n")
	}
	for _, line := range w.top {
		b.WriteString(line + "\n")
	}
	if len(w.jobs) == 0 {
		b.WriteString("jobs: {}\n")
	} else {
		b.WriteString("jobs:\n")
	}
	b.WriteString(w.body.String())
	if w.full {
		b.WriteString("  # The rest is left out: the file would become larger than a configuration may be. Import the input in parts.\n")
	}
	sortReports(w.reports)
	if w.more > 0 {
		w.reports = append(w.reports, Report{w.file, w.lastOne, fmt.Sprintf("and %d reports more up to here; import the file in parts", w.more), false})
	}
	return Result{YAML: []byte(b.String()), Reports: w.reports, jobs: w.jobs}
}

// sortReports brings them into the order of the lines, each file for itself, and what is about a whole file last.
func sortReports(all []Report) {
	files := map[string]int{}
	for _, r := range all {
		if _, ok := files[r.File]; !ok {
			files[r.File] = len(files)
		}
	}
	last := func(line int) int {
		if line == 0 {
			return math.MaxInt
		}
		return line
	}
	slices.SortStableFunc(all, func(a, b Report) int {
		return cmp.Or(cmp.Compare(files[a.File], files[b.File]), cmp.Compare(last(a.Line), last(b.Line)))
	})
}

// shown is a text on one line, without anything that could write to a terminal, cut to so many characters.
func shown(text string, most int) string {
	var b strings.Builder
	n, less := 0, 0
	for _, r := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		if less++; r != '<' {
			less = 0
		}
		switch {
		case less > 50: // more of them in a row than internal/config reads
		case r == '\t':
			b.WriteByte(' ')
		case r == utf8.RuneError:
			b.WriteByte('?')
		case r != ' ' && !unicode.IsPrint(r):
			b.WriteString(strings.Trim(fmt.Sprintf("%+q", r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// quote writes a text as a YAML scalar that is read as that text.
func quote(text string) string {
	if plain(text) {
		return text
	}
	clean := !strings.ContainsFunc(text, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }) && !strings.Contains(text, strings.Repeat("<", 50))
	if clean && strings.ContainsAny(text, `"\`) && !strings.Contains(text, "'") {
		return "'" + text + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '<' && !clean:
			b.WriteString(`\x3c`)
		case r != ' ' && !unicode.IsPrint(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r != ' ' && !unicode.IsPrint(r) && r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		case r != ' ' && !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// plain reports whether a text can stand without quotes, and is no word that YAML reads as something else.
func plain(text string) bool {
	if text == "" || strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-") != "" {
		return false
	}
	if c := text[0]; c == '-' || c == '.' {
		return false
	}
	switch strings.ToLower(text) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf":
		return false
	}
	return true
}
