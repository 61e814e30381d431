package importer

import (
	"path"
	"strings"
)

// percent parts a command from its standard input as crontab(5) says and Vixie's cron does it: the first % that no
// backslash stands before ends the command, also inside of quotes, and later ones are newlines of the input.
func percent(command string) (line, stdin string) {
	var b []byte
	i, escaped := 0, false
	for ; i < len(command); i++ {
		ch := command[i]
		if escaped {
			if ch == '%' {
				b = b[:len(b)-1]
			}
			b = append(b, ch)
			escaped = false
			continue
		}
		if ch == '%' {
			break
		}
		escaped = ch == '\\'
		b = append(b, ch)
	}
	line = string(b)
	if i == len(command) {
		return line, ""
	}
	var in strings.Builder
	escaped = false
	for _, ch := range []byte(command[i+1:]) {
		if escaped {
			if ch != '%' {
				in.WriteByte('\\')
			}
		} else if ch == '%' {
			ch = '\n'
		}
		if escaped = ch == '\\'; !escaped {
			in.WriteByte(ch)
		}
	}
	if escaped {
		in.WriteByte('\\')
	}
	return line, in.String()
}

// maxCronCommand is how long a line many crons take (MAX_COMMAND).
const maxCronCommand = 998

// aboutCommand says what somebody should know of how a command is executed.
func (c *crontab) aboutCommand(l cronLine, command string, x execution, j *job) {
	switch {
	case x.stdin != "" && unbalanced(x.line):
		c.warn(l.n, `a %% without a backslash cuts the command inside of quotes or brackets, so it fails with cron as here; \%% was probably meant: correct the job`)
	case x.stdin != "":
		j.note(`what follows the first %% is the command's standard input, each later %% a newline, as with cron`)
		if !strings.Contains(command, `\%`) && strings.Count(x.stdin, "\n") == 0 && strings.HasPrefix(x.stdin, " ") {
			c.warn(l.n, `what follows the %% has become standard input of the command, as with cron; if a percent sign was meant, it is \%% there`)
		}
	case strings.Contains(command, `\%`):
		j.note(`\%% is %% here`)
	}
	if len(l.text) > maxCronCommand {
		j.note("the line has %d characters; many crons take no more than %d", len(l.text), maxCronCommand)
	}
	if strings.HasSuffix(command, `\`) {
		c.warn(l.n, "the line ends with a backslash; cron does not join lines, so neither is it joined here")
	}
	if line := strings.TrimRight(x.line, " \t"); strings.HasSuffix(line, "&") && !strings.HasSuffix(line, "&&") && !strings.HasSuffix(line, `\&`) {
		c.warn(l.n, "the & at the end puts the command into the background: the job is done at once, whatever becomes of it, and can be beside itself; leave the & out")
	}
	wraps := map[string]string{}
	home := c.home == "" && !account(x.user) // as whoever runs the scheduler, and where that does
	for _, args := range commandsOf(x.line) {
		for len(args) > 0 && isAssignment(args[0]) {
			args = args[1:]
		}
		if len(args) == 0 {
			continue
		}
		switch name := path.Base(args[0]); name {
		case "flock", "lockf", "setlock", "solo", "lockrun", "run-one":
			wraps[name] = "is kept, and not needed: a job does not run beside itself. What shares its lock with others takes lock: NAME in each of them"
		case "chronic", "cronic":
			wraps[name] = "is kept, and not needed: output: on-failure does that"
		case "timeout":
			wraps[name] = "is kept, and not needed: timeout: D does that, and ends all that the job has started"
		}
		head := args[0]
		counts := strings.Contains(head, "/")
		if head == "cd" {
			head, counts = args[len(args)-1], len(args) > 1 && args[len(args)-1] != "-"
		}
		if home && counts && head != "" && strings.IndexByte("/$~", head[0]) < 0 {
			wraps[head] = "counts from the account's home with cron, and from the directory of onerun serve here: give the whole path"
		}
		home = home && args[0] != "cd" // from there on it counts from that directory
	}
	for _, name := range sortedKeys(wraps) {
		j.note("%s %s", shown(name, 60), wraps[name])
	}
	for _, b := range c.blocks {
		if b.from < l.n && l.n < b.to {
			j.note("a tool writes this line again (%s): take it out there", shown(b.mark, 80))
		}
	}
}

// unbalanced reports whether quotes or brackets of a line are left open.
func unbalanced(line string) bool {
	depth, quoted, escaped := 0, rune(0), false
	for _, r := range line {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quoted != '\'':
			escaped = true
		case quoted != 0:
			if r == quoted {
				quoted = 0
			}
		case r == '\'' || r == '"' || r == '`':
			quoted = r
		case r == '(' || r == '{':
			depth++
		case r == ')' || r == '}':
			depth--
		}
	}
	return quoted != 0 || depth > 0
}
