package importer

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// directive is one KEY=VALUE of a unit file.
type directive struct {
	line         int
	section, key string
	value        string
}

func (d directive) String() string { return d.key + "=" + d.value }

// badLine is a line of a unit file that can't be read.
type badLine struct {
	line int
	why  string
}

// parseUnit reads a unit file, as systemd.syntax(7) has it: lines that end with a backslash go on in the next one, but for
// comments in between.
func parseUnit(text string) (all []directive, bad []badLine) {
	section, n := "", 0
	open := directive{} // goes on in the next line
	var value strings.Builder
	end := func() {
		if open.line > 0 {
			open.value = strings.TrimSpace(value.String())
			all = append(all, open)
		}
		open = directive{}
		value.Reset()
	}
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.TrimSpace(line)
		if trimmed != "" && (trimmed[0] == '#' || trimmed[0] == ';') {
			continue
		}
		rest, goesOn := strings.CutSuffix(line, `\`)
		if open.line > 0 {
			value.WriteString(rest)
			value.WriteByte(' ')
			if !goesOn {
				end()
			}
			continue
		}
		if trimmed == "" {
			continue
		}
		if !utf8.ValidString(line) || strings.Contains(line, "\x00") {
			bad = append(bad, badLine{n, "the line is no UTF-8 text, so systemd ignores it"})
			continue
		}
		if trimmed[0] == '[' && strings.HasSuffix(trimmed, "]") {
			section = trimmed[1 : len(trimmed)-1]
			continue
		}
		key, first, ok := strings.Cut(rest, "=")
		key = strings.TrimSpace(key)
		switch {
		case !ok || key == "" || strings.ContainsAny(key, " \t["):
			bad = append(bad, badLine{n, fmt.Sprintf("it is neither a [Section] nor KEY=VALUE: %s", shown(trimmed, 60))})
			continue
		case section == "":
			bad = append(bad, badLine{n, fmt.Sprintf("%s stands before the first [Section], so systemd ignores it", shown(key, 60))})
			continue
		}
		open = directive{line: n, section: section, key: key}
		value.WriteString(first)
		if !goesOn {
			end()
		} else {
			value.WriteByte(' ')
		}
	}
	end()
	return all, bad
}

// unitName is what a name of a unit is made of: NAME@INSTANCE.TYPE.
type unitName struct{ full, prefix, instance, kind string }

func parseUnitName(full string) unitName {
	u := unitName{full: full}
	base, kind, ok := cutLast(full, ".")
	if !ok {
		base = full
	}
	u.kind = kind
	u.prefix, u.instance, _ = strings.Cut(base, "@")
	return u
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// template is the name of the file of all instances.
func (u unitName) template() string { return u.prefix + "@." + u.kind }

// specifiers puts what systemd knows in the place of %n and the like (systemd.unit(5)), where it is the same everywhere.
func (u unitName) specifiers(text string) (string, *refusal) {
	if !strings.Contains(text, "%") {
		return text, nil
	}
	// It is empty where the service is no template's. A timer that says it has a file of another name.
	known := u.instance != "" || u.kind == "service" && !strings.Contains(u.full, "@")
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		i++
		c := byte(0)
		if i < len(text) {
			c = text[i]
		}
		base, _, _ := cutLast(u.full, ".")
		switch {
		case c == '%':
			b.WriteByte('%')
		case c == 'n':
			b.WriteString(u.full)
		case c == 'N':
			b.WriteString(base)
		case c == 'p':
			b.WriteString(u.prefix)
		case c == 'P':
			b.WriteString(unescaped(u.prefix))
		case c == 'i' && known:
			b.WriteString(u.instance)
		case c == 'I' && known:
			b.WriteString(unescaped(u.instance))
		case c == 't':
			b.WriteString("/run")
		case c == 'S':
			b.WriteString("/var/lib")
		case c == 'C':
			b.WriteString("/var/cache")
		case c == 'L':
			b.WriteString("/var/log")
		case c == 'E':
			b.WriteString("/etc")
		case c == 'T':
			b.WriteString("/tmp")
		case c == 'V':
			b.WriteString("/var/tmp")
		case c == 'i' || c == 'I':
			why := fmt.Sprintf("%%%c is the instance of a template, which the file's name doesn't tell: %s", c, shown(text, 60))
			return "", &refusal{why, "import it by its instance's name, such as " + u.prefix + "@NAME." + u.kind}
		case c == 0:
			return "", &refusal{"it ends with a % alone", "write %% for a percent sign"}
		default:
			return "", &refusal{fmt.Sprintf("systemd puts something into the place of %%%c, which isn't known here: %s", c, shown(text, 60)), "write it out"}
		}
	}
	return b.String(), nil
}

// unescaped is a part of a unit's name as systemd-escape(1) --unescape gives it: a dash was a slash, and \xNN a byte.
func unescaped(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '-' {
			b.WriteByte('/')
			continue
		}
		if strings.HasPrefix(name[i:], `\x`) && len(name) >= i+4 {
			if n, err := strconv.ParseUint(name[i+2:i+4], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}
