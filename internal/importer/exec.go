package importer

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// argument is one of a command line of systemd's.
type argument struct {
	text   string
	quoted bool
}

// exec takes ExecStart and its like.
func (s *service) exec(d directive) {
	if d.value == "" {
		s.execs = slices.DeleteFunc(s.execs, func(e directive) bool { return e.key == d.key })
		s.remark(d.line, "%s= drops those above, as with systemd", d.key)
		return
	}
	s.remark(d.line, "%s", d)
	s.execs = append(s.execs, d)
}

// command is what executes all that the service does.
func (s *service) command() (setting, *refusal) {
	if !slices.ContainsFunc(s.execs, func(d directive) bool { return d.key == "ExecStart" }) {
		return setting{}, &refusal{"the service has no ExecStart= that can be translated", "write the job's command by hand"}
	}
	s.x.setup = append(s.files, s.x.setup...)
	if s.x.user == "" && s.x.group != "" {
		s.job.note("the Group= of the service is left out, since it has no User=")
		s.x.group = ""
	}
	var lines []string
	var alone []string
	for _, key := range []string{"ExecStartPre", "ExecStart", "ExecStartPost"} {
		for _, d := range s.execs {
			if d.key != key {
				continue
			}
			if len(lines) >= maxNotes {
				return setting{}, &refusal{"the service has too many commands", "put them into a script"}
			}
			line, argv, r := s.execLine(d)
			if r != nil {
				return setting{}, &refusal{fmt.Sprintf("line %d, %s=: %s", d.line, d.key, r.why), r.do}
			}
			lines = append(lines, line)
			alone = argv
		}
	}
	if len(lines) == 1 && alone != nil && s.x.user == "" && len(s.x.env)+len(s.x.setup) == 0 {
		return words("command", alone...), nil
	}
	if len(lines) > 1 {
		s.job.note("the commands of the service are executed one after the other, as long as none fails")
	}
	s.x.line = strings.Join(lines, " && ")
	return s.x.settings(), nil
}

// execLine makes a line for a shell of a command line of systemd's, and its arguments if nothing in them is for a shell.
func (s *service) execLine(d directive) (line string, argv []string, r *refusal) {
	rest := d.value
	forgiven, argv0, literal := false, false, false
	for rest != "" && strings.IndexByte("@-:+!|", rest[0]) >= 0 {
		switch rest[0] {
		case '-':
			forgiven = true
		case '@':
			argv0 = true
		case ':':
			literal = true
		default:
			s.job.note("the %c before a command, which gives it other privileges, is left out (%s line %d)", rest[0], d.key, d.line)
		}
		rest = rest[1:]
	}
	args, r := splitExec(rest)
	if r != nil {
		return "", nil, r
	}
	if argv0 && len(args) > 1 {
		s.job.note("the program is not told another name of itself, as the @ before the command does")
		args = append(args[:1:1], args[2:]...)
	}
	if len(args) == 0 {
		return "", nil, &refusal{"there is no command", "write it by hand"}
	}
	for _, a := range args {
		if !a.quoted && a.text == ";" {
			return "", nil, &refusal{"a ; parts several commands", "write each in an ExecStart= of its own"}
		}
	}
	var parts []string
	plain := !forgiven
	for i, a := range args {
		if i == 0 && path.Base(a.text) == "env" && len(args) == 1 {
			plain = false
		}
		text, expands := a.text, false
		if !literal {
			text, expands = expansions(a)
		}
		if expands {
			plain = false
			parts = append(parts, text)
			continue
		}
		argv = append(argv, text)
		parts = append(parts, single(text))
	}
	line = strings.Join(parts, " ")
	if forgiven {
		line = "{ " + line + " || true; }"
		s.job.note("the - before a command: its failure doesn't count (%s line %d)", d.key, d.line)
	}
	if !plain {
		argv = nil
	}
	return line, argv, nil
}

// expansions writes a word in which systemd puts variables (${NAME}, and $NAME as a whole word, which it parts at blanks)
// for a shell, which then does it; false: there are none, and text is the word.
func expansions(a argument) (text string, expands bool) {
	if name, ok := strings.CutPrefix(a.text, "$"); ok && identifier(name) {
		return "$" + name, true
	}
	if !strings.Contains(a.text, "$") {
		return a.text, false
	}
	var b, word strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(a.text); i++ {
		c := a.text[i]
		if c == '$' && strings.HasPrefix(a.text[i+1:], "$") {
			b.WriteString(`\$`)
			word.WriteByte('$')
			i++
			continue
		}
		if c == '$' && strings.HasPrefix(a.text[i+1:], "{") {
			if end := strings.IndexByte(a.text[i:], '}'); end > 0 && identifier(a.text[i+2:i+end]) {
				b.WriteString(a.text[i : i+end+1])
				expands = true
				i += end
				continue
			}
		}
		if strings.IndexByte("$`\"\\", c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
		word.WriteByte(c)
	}
	b.WriteByte('"')
	if !expands {
		return word.String(), false
	}
	return b.String(), true
}

// splitExec parts a command line into arguments, as systemd.syntax(7) has it: quotes of both kinds, and the escapes of C.
func splitExec(text string) (args []argument, r *refusal) {
	var b strings.Builder
	quoted, begun, wasQuoted := byte(0), false, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\':
			n, ok := unescape(text[i+1:], &b)
			if !ok {
				return nil, &refusal{fmt.Sprintf("the escape %s is not known", shown(text[i:min(len(text), i+4)], 10)), "write the command by hand"}
			}
			i += n
			begun = true
			if text[i] == ';' {
				wasQuoted = true
			}
		case quoted != 0 && c == quoted:
			quoted = 0
		case quoted != 0:
			b.WriteByte(c)
		case c == '\'' || c == '"':
			quoted, begun, wasQuoted = c, true, true
		case c == ' ' || c == '\t':
			if begun {
				args = append(args, argument{b.String(), wasQuoted})
				b.Reset()
				begun, wasQuoted = false, false
			}
		default:
			b.WriteByte(c)
			begun = true
		}
	}
	if quoted != 0 {
		return nil, &refusal{"a quote is not closed", "close it"}
	}
	if begun {
		args = append(args, argument{b.String(), wasQuoted})
	}
	return args, nil
}

// unescape reads what follows a backslash, and how many bytes that are.
func unescape(text string, b *strings.Builder) (int, bool) {
	if text == "" {
		return 0, false
	}
	if at := strings.IndexByte(`abfnrtvs\"'; $`, text[0]); at >= 0 {
		b.WriteByte("\a\b\f\n\r\t\v \\\"'; $"[at])
		return 1, true
	}
	size := map[byte]int{'x': 2, 'u': 4, 'U': 8}[text[0]]
	if size > 0 && len(text) > size {
		n, err := strconv.ParseUint(text[1:1+size], 16, 32)
		if err != nil || n == 0 || size > 2 && !utf8.ValidRune(rune(n)) {
			return 0, false
		}
		if size == 2 {
			b.WriteByte(byte(n))
		} else {
			b.WriteRune(rune(n))
		}
		return 1 + size, true
	}
	if len(text) >= 3 && strings.Trim(text[:3], "01234567") == "" {
		n, err := strconv.ParseUint(text[:3], 8, 8)
		if err != nil || n == 0 {
			return 0, false
		}
		b.WriteByte(byte(n))
		return 3, true
	}
	return 0, false
}
