package importer

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun/schedule"
)

// crontab is one in the reading.
type crontab struct {
	*writer
	o       Options
	lines   []cronLine
	system  bool // the account comes before the command
	anacron bool

	env    []variable // of the lines that follow
	zone   string     // CRON_TZ
	delay  int        // RANDOM_DELAY, in minutes
	shell  string
	home   string
	name   string // of the next job, by a tool's comment above it
	blocks []block
	ends   map[string]int // the last line of a comment
}

// cronLine is one line of it.
type cronLine struct {
	n     int
	text  string // without the white space before it
	kind  lineKind
	vname string // of a variable
	value string
}

type lineKind int

const (
	lineBlank lineKind = iota
	lineComment
	lineVariable
	lineEntry
	lineBad // it can't be read at all
)

// More than anybody has.
const (
	maxBlocks    = 100
	maxVariables = 500
	maxValues    = 32 << 10 // bytes of all variables together
)

// block is a part of the file that a tool writes.
type block struct {
	from, to int
	mark     string
}

// Crontab translates a crontab(5). name is its path, by which /etc/crontab and /etc/cron.d are known.
func Crontab(name string, text []byte, o Options) Result {
	c := &crontab{writer: newWriter("crontab", name), o: o}
	if len(text) > MaxSize {
		c.lost(0, fmt.Sprintf("the file is larger than %d KiB, so it is no crontab", MaxSize>>10), "import it in parts")
		return c.result()
	}
	c.split(text)
	if c.anacron = c.isAnacron(name); !c.anacron {
		c.table(name)
	}
	zone := o.Zone
	if zone == "" {
		zone = c.hostZone(o)
		c.say("cron goes by the clock of its host. Better name the zone, such as Asia/Seoul: another host may have another one.")
	}
	c.say("cron starts a command in its account's home, with PATH=/usr/bin:/bin; onerun serve gives it its own directory and environment.")
	c.say("A job does not run beside itself, as it did with cron: a start that comes too early is skipped (scope: key lets it).")
	c.top = append(c.top, "timezone: "+quote(zone), "defaults:", "  catch_up: {policy: none} # cron does not make up for what it missed; latest does, once")
	for i, l := range c.lines {
		switch l.kind {
		case lineComment:
			c.commented(i, l)
		case lineVariable:
			c.variable(l)
		case lineEntry:
			c.entry(l)
			c.name = ""
		case lineBlank:
			c.name = ""
		}
	}
	if len(c.jobs)+len(c.reports) == 0 {
		c.report(0, "no line of it is an entry, so nothing is translated; is it a crontab?", false)
	}
	return c.result()
}

// split finds the lines, and says what is wrong with the text as such.
func (c *crontab) split(text []byte) {
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		text = text[3:]
		c.warn(1, "the file begins with a byte order mark, which makes cron refuse its first line; it is left out here")
	}
	c.ends = map[string]int{}
	cr := 0
	body := string(text)
	if !strings.Contains(body, "\n") && strings.Contains(strings.TrimRight(body, "\r"), "\r") {
		body = strings.ReplaceAll(body, "\r", "\n")
		c.warn(1, "the lines end with carriage returns alone, as those of old Macs: cron takes all of them for one line; they are parted here")
	}
	ended := strings.HasSuffix(body, "\n")
	n := 0
	for line := range strings.Lines(body) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if strings.HasSuffix(line, "\r") {
			line = strings.TrimRight(line, "\r")
			if cr == 0 {
				cr = n
			}
		}
		if strings.Contains(line, "\r") {
			c.warn(n, "there is a carriage return within the line; with cron it is a part of the command, and so it is here")
		}
		l := cronLine{n: n, text: strings.TrimLeft(line, " \t")}
		switch {
		case strings.TrimSpace(l.text) == "":
		case l.text[0] == '#':
			l.kind = lineComment
			c.ends[commentText(l.text)] = n
		case strings.Contains(l.text, "\x00"):
			l.kind = lineBad
			c.lost(n, "the line holds a NUL character, so it is no text", "look at the file with an editor")
		default:
			var ok bool
			if l.vname, l.value, ok = assignmentOf(l.text); ok {
				l.kind = lineVariable
			} else {
				l.kind = lineEntry
			}
		}
		c.lines = append(c.lines, l)
	}
	if cr > 0 {
		c.warn(cr, "the lines end as those of Windows do: cron gives the carriage return to the command, which then fails; it is left out here")
	}
	if !ended && n > 0 && c.lines[n-1].kind != lineBlank {
		c.warn(n, "the last line has no newline at its end: cron ignores it, or refuses the file; it is translated here")
	}
}

// assignmentOf reads a line NAME = VALUE as Vixie's cron does: the value is not expanded, and quotes around it are taken off.
func assignmentOf(line string) (name, value string, ok bool) {
	rest := line
	if q := line[0]; q == '"' || q == '\'' {
		end := strings.IndexByte(line[1:], q)
		if end < 0 {
			return "", "", false
		}
		name, rest = line[1:1+end], line[2+end:]
	} else {
		end := strings.IndexAny(line, "= \t")
		if end < 0 {
			return "", "", false
		}
		name, rest = line[:end], line[end:]
	}
	rest = strings.TrimLeft(rest, " \t")
	if name == "" || !strings.HasPrefix(rest, "=") {
		return "", "", false
	}
	value = strings.Trim(rest[1:], " \t")
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && strings.IndexByte(value[1:], value[0]) == n-2 {
		value = value[1 : n-1]
	}
	return name, value, true
}

// variable takes a line NAME = VALUE, which holds for the lines below it.
func (c *crontab) variable(l cronLine) {
	line := cut(l.text, maxShown)
	switch l.vname {
	case "MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "MAIL_CHARSET", "MAILSUBJECT", "APPEND_LOCALTIME":
		c.remark(l.n, "%s: cron mails what jobs print; here alerts and notify tell of failures, and onerun logs shows what was printed", line)
		return
	case "CRON_TZ":
		if r := zoneOf(l.value); r != nil {
			c.zone = ""
			c.lost(l.n, r.why, "correct it; the jobs below go by the file's zone meanwhile")
			return
		}
		c.zone = l.value
		c.remark(l.n, "%s: tz of the jobs below (a cron that does not know CRON_TZ went by the host's clock)", line)
		return
	case "RANDOM_DELAY":
		n := 0
		if _, err := fmt.Sscanf(l.value, "%d", &n); err != nil || n < 0 || n > 24*60 {
			c.lost(l.n, fmt.Sprintf("RANDOM_DELAY is no number of minutes: %q", shown(l.value, 40)), "say jitter: below the jobs")
			return
		}
		c.delay = n
		c.remark(l.n, "%s: jitter of the jobs below", line)
		return
	case "START_HOURS_RANGE":
		if c.anacron {
			c.remark(l.n, "%s: of anacron; see the lines below", line)
			return
		}
	case "LOGNAME", "USER":
		c.remark(l.n, "%s: left out, as cron sets it itself", line)
		return
	case "SHELL":
		c.shell = l.value
		c.remark(l.n, "%s: the shell of the jobs below", line)
		return
	}
	size := len(l.value)
	for _, v := range c.env {
		size += len(v.value)
	}
	switch {
	case len(c.env) >= maxVariables || size > maxValues:
		c.lost(l.n, "there are too many variables, or too long ones, to export them in each job", "set them in a script of the job's")
		return
	case !identifier(l.vname):
		c.lost(l.n, fmt.Sprintf("no shell can have a variable of the name %q", shown(l.vname, 60)), "set it in a script of the job's")
		return
	case unsayable(word("", l.value)) != "":
		c.lost(l.n, unsayable(word("", l.value)), "set it in a script of the job's")
		return
	case l.vname == "HOME":
		c.home = l.value
		c.remark(l.n, "%s: the directory in which cron starts the jobs below, and exported", line)
	case strings.ContainsAny(l.value, "$`~"):
		c.remark(l.n, "%s: exported in the jobs below, as it stands: cron does not expand it either", line)
	default:
		c.remark(l.n, "%s: exported in the jobs below", line)
	}
	c.env = setVariable(c.env, variable{l.vname, l.value, l.n})
}

// isAnacron reports whether it is a table of anacron(8).
func (c *crontab) isAnacron(name string) bool {
	if strings.HasSuffix(path.Base(name), "anacrontab") {
		return true
	}
	for _, l := range c.lines {
		if l.kind == lineVariable && l.vname == "START_HOURS_RANGE" {
			return true
		}
	}
	return false
}

// commented takes a comment: one of a tool's, an entry that is switched off, or what somebody has written.
func (c *crontab) commented(i int, l cronLine) {
	text := strings.TrimLeft(l.text, "# \t")
	if text == "" {
		return
	}
	for _, mark := range []string{"Ansible: ", "Puppet Name: ", "Chef Name: ", "SALT_CRON_IDENTIFIER:"} {
		if name, ok := strings.CutPrefix(text, mark); ok {
			c.name = strings.TrimSpace(name)
			c.warn(l.n, "%s%s: the tool that wrote this comment writes the entry again: take it out there, else cron runs it too", mark, c.name)
			return
		}
	}
	if c.begins(i, text) {
		return
	}
	if heading(l.text) {
		c.comment(text)
		return
	}
	if fields, _, ok := fieldsOf(text); ok {
		if _, err := schedule.ParseCron(strings.Join(fields.time, " ")); err == nil {
			c.warn(l.n, "commented out, so not translated: %s", text)
			c.name = ""
			return
		}
	}
	c.comment(text)
}

// begins reports whether a comment begins, or ends, what a tool writes, and notes which lines those are.
func (c *crontab) begins(i int, text string) bool {
	n := c.lines[i].n
	for _, b := range c.blocks {
		if n == b.to {
			c.comment(text)
			return true
		}
	}
	last := len(c.lines)
	to := 0
	switch lower := strings.ToLower(text); {
	case strings.Contains(lower, "below here are managed by salt"), strings.HasPrefix(lower, "header: this file was autogenerated"):
		to = last
	default:
		for _, pair := range [][2]string{{"BEGIN", "END"}, {"Begin", "End"}, {"START", "END"}, {"Start", "End"}} {
			if !slices.Contains(strings.Fields(cut(text, maxShown)), pair[0]) {
				continue
			}
			if to = c.ends[commentText(strings.Replace(text, pair[0], pair[1], 1))]; to > n {
				break
			}
			to = 0
		}
	}
	if to == 0 || len(c.blocks) == maxBlocks {
		return false
	}
	c.blocks = append(c.blocks, block{n, to, text})
	c.warn(n, "lines %d to %d are written by a tool (%s): take them out there, else cron runs them beside onerun", n, to, shown(text, 80))
	return true
}

// commentText is a comment without its marks, and without the time that whenever's bear, which differs from end to end.
func commentText(line string) string {
	text, _, _ := strings.Cut(strings.TrimLeft(line, "# \t"), " at: ")
	return text
}
