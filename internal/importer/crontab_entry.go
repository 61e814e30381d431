package importer

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
)

// entryFields are the parts of an entry.
type entryFields struct {
	time  []string // five or six fields, or one macro with its argument
	extra string   // the seventh field, of the years
	rest  string   // what comes after the time
	nolog bool     // it begins with -, as SUSE's cron has it
}

const blanks = " \t"

// nextWord parts a line after its first word.
func nextWord(line string) (word, rest string) {
	line = strings.TrimLeft(line, blanks)
	if end := strings.IndexAny(line, blanks); end >= 0 {
		return line[:end], strings.TrimLeft(line[end:], blanks)
	}
	return line, ""
}

// fieldsOf parts an entry; false when it has no five fields, or nothing after them.
func fieldsOf(line string) (f entryFields, why string, ok bool) {
	if len(line) > 1 && line[0] == '-' && strings.IndexByte("0123456789*", line[1]) >= 0 {
		f.nolog, line = true, line[1:]
	}
	if strings.HasPrefix(line, "@") {
		name, rest := nextWord(line)
		f.time = []string{name}
		if strings.EqualFold(name, "@every") {
			var d string
			d, rest = nextWord(rest)
			f.time = append(f.time, d)
		}
		f.rest = rest
	} else {
		f.rest = line
		for range 5 {
			var field string
			field, f.rest = nextWord(f.rest)
			f.time = append(f.time, field)
		}
		for range 2 {
			field, rest := nextWord(f.rest)
			if !timeField(field) {
				break
			}
			if len(f.time) == 5 {
				f.time = append(f.time, field)
			} else {
				f.extra = field
			}
			f.rest = rest
		}
	}
	if f.rest == "" {
		return f, "it is no entry of a crontab: five fields of the time and a command, or NAME=VALUE", false
	}
	return f, "", true
}

// timeField reports whether a word can be nothing but one more field of a time.
func timeField(text string) bool {
	if strings.ContainsAny(text, "0123456789*?") && strings.Trim(text, "0123456789*?,-#LW") == "" && text[0] != '-' && text[0] != '#' {
		return true
	}
	if strings.HasPrefix(text, "*/") && strings.Trim(text[2:], "0123456789") == "" {
		return true
	}
	// A range or list of days; the name of one alone could be a command.
	if !strings.ContainsAny(text, "-,") {
		return false
	}
	for _, day := range strings.FieldsFunc(text, func(r rune) bool { return r == '-' || r == ',' }) {
		if !slices.Contains([]string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}, strings.ToLower(day)) {
			return false
		}
	}
	return text != "" && text[0] != '-' && text[0] != ','
}

// table finds out whether the entries name accounts.
func (c *crontab) table(name string) {
	const other = "if that is wrong, say"
	switch {
	case c.o.Table == TableSystem, c.o.Table == TableUser:
		c.system = c.o.Table == TableSystem
		return
	case strings.HasSuffix(name, "/etc/crontab"), path.Base(path.Dir(name)) == "cron.d":
		c.system = true
		c.say("Read as a system table, by its path: an account stands before each command (%s --no-system).", other)
		if strings.ContainsFunc(path.Base(name), func(r rune) bool { return r == '.' || r == '~' || r == '#' }) {
			c.warn(0, "crons don't read every file in cron.d: Debian's none with a dot in its name, others no backups; look whether these jobs run today")
		}
		return
	}
	entries, known, possible := 0, 0, 0
	for _, l := range c.lines {
		if l.kind == lineComment && heading(l.text) {
			c.system = true
			c.say("Read as a system table, by the heading in line %d: an account stands before each command (%s --no-system).", l.n, other)
			return
		}
		f, _, ok := fieldsOf(l.text)
		if l.kind != lineEntry || !ok {
			continue
		}
		entries++
		account, command := nextWord(f.rest)
		switch {
		case command == "":
		case wellKnown(account):
			known++
			fallthrough
		case possibleAccount(account):
			possible++
		}
	}
	switch {
	case known > 0 && possible == entries:
		c.system = true
		c.warn(0, "assumed to be a system table, since a word that can be an account stands before each command; %s --no-system", other)
	case known > 0:
		c.warn(0, "assumed to be one user's table, though some commands begin with the name of an account; %s --system", other)
	default:
		c.say("Read as one user's table: the command follows the time (%s --system).", other)
	}
}

// heading reports whether a comment is the line above the columns of a system table.
func heading(text string) bool {
	fields := strings.Fields(strings.TrimSuffix(strings.ToLower(strings.TrimLeft(text, "# \t")), " to be executed"))
	n := len(fields)
	return n >= 7 && slices.Contains([]string{"command", "cmd"}, fields[n-1]) && slices.Contains([]string{"user", "who", "user-name", "username", "account"}, fields[n-2])
}

// wellKnown reports whether a word is an account of many systems and no program.
func wellKnown(word string) bool {
	user, _, _ := strings.Cut(word, ":")
	return slices.Contains([]string{
		"root", "nobody", "daemon", "www-data", "www", "apache", "nginx", "http", "operator", "postgres", "_postgres", "oracle", "ubuntu", "ec2-user",
		"centos", "debian", "admin", "munin", "backup", "list", "smmsp", "amavis", "clamav", "logcheck", "asterisk", "jenkins", "deploy", "toor",
	}, user)
}

// possibleAccount reports whether a word has the form of an account's name (useradd(8)).
func possibleAccount(word string) bool {
	return word != "" && len(word) <= 32 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_-$:") == "" && (word[0] == '_' || 'a' <= word[0] && word[0] <= 'z')
}

// entry translates one.
func (c *crontab) entry(l cronLine) {
	f, why, ok := fieldsOf(l.text)
	switch {
	case c.anacron || ofAnacron(l.text):
		c.anacronLine(l)
		return
	case len(l.text) > MaxArg:
		c.lost(l.n, fmt.Sprintf("the line is longer than a command can be (%d bytes)", MaxArg), "put it into a script, and name that")
		return
	case !ok && strings.HasPrefix(l.text, "@"):
		c.lost(l.n, "there is no command after the time", "write the job by hand")
		return
	case !ok:
		c.lost(l.n, why, "correct the line, or write the job by hand")
		return
	}
	j := job{line: l.n, source: []string{fmt.Sprintf("line %d: %s", l.n, l.text)}}
	expr, jitter, r := c.when(f, l, &j)
	if r == nil {
		r = checked(expr)
	}
	if r != nil {
		c.lost(l.n, r.why, r.do)
		return
	}
	if first, _ := nextWord(f.rest); len(f.time) == 5 && len(first) == 3 && strings.Trim(first, "0123456789") == first && ordinal(first) > 0 {
		c.warn(l.n, "%s is taken for the command, as with cron; if it is a day, the line has six fields, of which the first is the second: correct the job", first)
	}
	x := execution{env: c.env, shell: c.shell}
	command := f.rest
	if c.system && !c.account(&command, &x, &j) {
		c.lost(l.n, "there is no command after the account", "if the table names no accounts, say --no-system")
		return
	}
	command = c.flags(command, &j)
	if command == "" {
		c.lost(l.n, "there is no command after its options", "write the job by hand")
		return
	}
	x.line, x.stdin = percent(command)
	if strings.TrimSpace(x.line) == "" {
		c.lost(l.n, "the command is empty: a % without a backslash begins it", `write \%`)
		return
	}
	j.name = c.name
	if j.name == "" {
		j.name = nameOf(x.line)
	}
	if x.atHome = c.home == ""; !x.atHome {
		x.setup = append(x.setup, "cd "+single(c.home)+" || exit;")
	}
	c.aboutCommand(l, command, x, &j)
	zone := c.zone
	j.set(word("schedule", expr))
	if zone != "" {
		j.set(word("tz", zone))
	} else if zone = c.o.Zone; zone == "" {
		zone = "local"
	}
	if jitter += time.Duration(c.delay) * time.Minute; jitter > 0 {
		j.set(word("jitter", span(jitter)))
	}
	j.set(x.settings())
	j.remarks(expr)
	j.next(expr, zone, c.o)
	c.add(j)
}

// when is the schedule of an entry.
func (c *crontab) when(f entryFields, l cronLine, j *job) (expr string, jitter time.Duration, r *refusal) {
	if f.nolog {
		j.note("the - before the time, with which SUSE's cron logs nothing, is left out")
	}
	fields := f.time
	if strings.HasPrefix(fields[0], "@") {
		macro := strings.ToLower(fields[0])
		switch {
		case macro == "@every_minute":
			return "* * * * *", 0, nil
		case macro == "@every_second":
			return "* * * * * *", 0, nil
		case macro == "@reboot":
			j.note("once per boot; some crons start it again when their daemon is restarted")
		case macro == "@every":
			j.note(everyNote)
		case digits(macro[1:]):
			return "", 0, &refusal{macro + " counts from the end of the run before, which can't be said here", "give a fixed distance: @every " + macro[1:] + "s"}
		}
		return strings.Join(append([]string{macro}, fields[1:]...), " "), 0, nil
	}
	switch {
	case len(fields) == 6 && len(fields[5]) == 4 && f.extra == "" && fields[5] > "1969" && fields[5] < "2100":
		return "", 0, &refusal{"the sixth field is a year, and there are no years here", "leave it out, or run the job by hand on its day"}
	case f.extra != "" && f.extra != "*" && f.extra != "?":
		return "", 0, &refusal{fmt.Sprintf("the seventh field is a year, %s, and there are no years here", f.extra), "leave it out if it may run in every year"}
	case len(fields) == 6:
		what := "six fields"
		if f.extra != "" {
			what = "seven fields, the last of which, the year, is left out"
		}
		quartz := slices.Contains(fields, "?")
		if quartz {
			fields[5] = quartzDay(fields[5])
			what += "; by the ? they are Quartz's, whose days of the week begin with 1 for Sunday"
		} else if strings.ContainsAny(fields[5], "123456") {
			what += "; 0 is Sunday (with Quartz 1 would be)"
		}
		c.warn(l.n, "%s: the first is taken for the seconds; cron itself would take the sixth for the command", what)
	}
	at := fields[len(fields)-5:]
	plain, jitter, r := randomless(at)
	if r != nil {
		return "", 0, r
	}
	if jitter > 0 {
		j.note("the random time has become the first one that it may be, and jitter the rest")
	}
	return strings.Join(append(slices.Clone(fields[:len(fields)-5]), plain...), " "), jitter, nil
}

// quartzDay names the days of a field of Quartz's, of which 1 is Sunday. What follows / or # is no day.
func quartzDay(field string) string {
	names := []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
	var b strings.Builder
	for i := range len(field) {
		c := field[i]
		counts := i > 0 && (field[i-1] == '/' || field[i-1] == '#')
		if c >= '1' && c <= '7' && !counts {
			b.WriteString(names[c-'1'])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// account takes the account before the command; false: there is nothing after it.
func (c *crontab) account(command *string, x *execution, j *job) bool {
	var user string
	user, *command = nextWord(*command)
	if *command == "" {
		return false
	}
	user, _, _ = strings.Cut(user, "/") // FreeBSD: a login class
	user, x.group, _ = strings.Cut(user, ":")
	if user == "root" {
		x.group = ""
		j.note("account root: a job runs as whoever runs onerun serve, so that has to be root")
		return true
	}
	x.user = user
	j.note("account %s: a job runs as whoever runs onerun serve; runuser changes that, for root alone. Leave it out where serve runs as %s.", user, user)
	return true
}

// flags takes the options that OpenBSD and FreeBSD have before a command.
func (c *crontab) flags(command string, j *job) string {
	for strings.HasPrefix(command, "-") {
		option, rest := nextWord(command)
		if len(option) < 2 || strings.Trim(option[1:], "nqs") != "" {
			break
		}
		j.note("%s before the command is left out: -n mails no success, -q logs nothing, -s lets none run beside it; onerun does all three", option)
		command = rest
	}
	return command
}

// ofAnacron reports whether an entry can only be a line of anacron's: PERIOD DELAY NAME COMMAND. With cron the delay would be
// an hour, or after a macro the command.
func ofAnacron(line string) bool {
	period, rest := nextWord(line)
	delay, rest := nextWord(rest)
	name, command := nextWord(rest)
	if command == "" || !digits(delay) {
		return false
	}
	if strings.HasPrefix(period, "@") {
		return slices.Contains([]string{"@daily", "@weekly", "@monthly", "@yearly"}, period)
	}
	month, _ := nextWord(command)
	return digits(period) && checked("0 0 "+name+" * *") != nil && strings.ContainsFunc(name, unicode.IsLetter) && !timeField(month)
}

func digits(word string) bool { return word != "" && strings.Trim(word, "0123456789") == "" }

// anacronLine says what to do with a line of anacron's.
func (c *crontab) anacronLine(l cronLine) {
	period, rest := nextWord(l.text)
	delay, rest := nextWord(rest)
	name, command := nextWord(rest)
	if command == "" {
		c.lost(l.n, "it is no line of an anacrontab: PERIOD DELAY NAME COMMAND", "write the job by hand")
		return
	}
	when := map[string]string{"1": "0 3 * * *", "7": "0 3 * * 0", "@daily": "0 3 * * *", "@weekly": "0 3 * * 0", "@monthly": "0 3 1 * *"}[period]
	if when == "" {
		when = "@every 24h"
	}
	c.lost(l.n, fmt.Sprintf("anacron runs %s by how long ago it ran (%s), %s minutes after it has looked, which is no time of a clock", shown(name, 40), shown(period, 20), shown(delay, 20)),
		fmt.Sprintf("write a job with schedule: %q and catch_up: {policy: latest}", when))
}
