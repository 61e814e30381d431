package importer

import (
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/onerun-dev/onerun"
)

// legal makes a name of a job of any text.
func legal(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(cut(text, 4*onerun.MaxName), "") {
		switch {
		case unicode.IsLetter(r) || unicode.Is(unicode.Nd, r) || unicode.IsMark(r) && b.Len() > 0 || strings.ContainsRune("._-", r):
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "._-")
	if name = strings.TrimRight(cut(name, onerun.MaxName), "._-"); name == "" {
		return "job"
	}
	if clean, err := onerun.CleanName("job", name); err == nil {
		return clean
	}
	return "job" // it begins with a mark
}

// cut is at most so many characters of a text.
func cut(text string, most int) string {
	n := 0
	for i := range text {
		if n++; n > most {
			return text[:i]
		}
	}
	return text
}

// nameOf is what a job can be called by its command: the base name of the program that does the work.
func nameOf(line string) string {
	first := ""
	for _, command := range commandsOf(line) {
		name := program(command)
		if name == "" {
			continue
		}
		if first == "" {
			first = name
		}
		if code(name) == 0 && !slices.Contains([]string{"cd", "test", "[", "[[", "export", "set", "source", ".", "sleep", "true", "if", "echo", "umask", "ulimit", "for", "while"}, command[0]) {
			return name
		}
	}
	if legal(first) == "job" {
		return "job"
	}
	return first
}

// wrappers are programs that execute another one, which their arguments name, with those of their options that take a
// value; and how many arguments come before it.
func wrapper(name string) (values string, before int, ok bool) {
	switch name {
	case "sudo":
		return "ugpCh", 0, true
	case "nice":
		return "n", 0, true
	case "ionice":
		return "cn", 0, true
	case "env", "chronic", "exec", "nohup", "setsid", "time", "command", "eval", "then", "do", "else", "!", "{", "caffeinate", "run-one", "cronic", "busybox":
		return "uCS", 0, true
	case "timeout":
		return "ks", 1, true
	case "flock", "lockf":
		return "wEt", 1, true
	case "setlock", "solo", "lockrun":
		return "", 1, true
	case "sh", "bash", "dash", "ksh", "zsh":
		return "oO", 0, true
	case "python", "python2", "python3", "perl", "ruby", "php", "node", "java", "npx":
		return "d", 0, true
	case "runuser", "su":
		return "ucgs", 0, true
	}
	return "", 0, false
}

// program is the base name of the program of one simple command, past what only wraps it.
func program(args []string) string {
	for range 20 {
		for len(args) > 0 && isAssignment(args[0]) {
			args = args[1:]
		}
		if len(args) == 0 {
			return ""
		}
		name := path.Base(strings.TrimPrefix(args[0], "@"))
		values, before, ok := wrapper(name)
		if !ok {
			if name == "run-parts" {
				return name + "-" + path.Base(args[len(args)-1])
			}
			for _, end := range []string{".sh", ".py", ".pl", ".rb", ".php", ".js", ".bash"} {
				name = strings.TrimSuffix(name, end)
			}
			return name
		}
		rest := args[1:]
		if at := slices.Index(rest, "-c"); name == "su" && at >= 0 && at+1 < len(rest) {
			return nameOf(rest[at+1])
		}
		for len(rest) > 0 && len(rest[0]) > 1 && rest[0][0] == '-' {
			option := rest[0]
			rest = rest[1:]
			switch {
			case option == "--":
			case option[1] != '-' && code(name) == option[len(option)-1]: // a program, of which no part is a name
				return name
			case option[1] != '-' && option[len(option)-1] == 'c' && (name == "flock" || values == "oO"): // a line for a shell
				if len(rest) > 0 {
					return nameOf(rest[0])
				}
			case option[1] != '-' && len(option) == 2 && strings.Contains(values, option[1:]) && len(rest) > 0:
				rest = rest[1:]
			}
		}
		if before > 0 && len(rest) > 0 {
			rest = rest[1:]
			if len(rest) > 1 && rest[0] == "-c" {
				return nameOf(rest[1])
			}
		}
		if len(rest) == 0 {
			return name
		}
		args = rest
	}
	return ""
}

// code is the option of an interpreter after which a program stands; 0: it has none.
func code(interpreter string) byte {
	switch interpreter {
	case "python", "python2", "python3":
		return 'c'
	case "perl", "ruby", "node":
		return 'e'
	case "php":
		return 'r'
	}
	return 0
}

// isAssignment reports whether a word is NAME=VALUE.
func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && identifier(name)
}

// identifier reports whether a shell can have a variable of that name.
func identifier(name string) bool {
	return name != "" && !('0' <= name[0] && name[0] <= '9') &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// commandsOf splits a line of a shell into simple commands of words, as far as quotes and backslashes go.
func commandsOf(line string) (all [][]string) {
	var args []string
	var b strings.Builder
	quoted, begun, escaped := byte(0), false, false
	inner, skip := 0, 0
	end := func() {
		if begun {
			args, begun = append(args, b.String()), false
			b.Reset()
		}
	}
	line = line[:min(len(line), 4096)] // a name is at its beginning
	for i := range len(line) {
		c := line[i]
		switch {
		case i == skip && i > 0:
		case escaped:
			b.WriteByte(c)
			escaped = false
		case c == '\\' && quoted != '\'':
			escaped, begun = true, true
		case quoted != 0:
			if c == quoted {
				quoted = 0
			} else {
				b.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quoted, begun = c, true
		case inner > 0: // of $( ), which is part of a word
			if c == '(' {
				inner++
			} else if c == ')' {
				inner--
			}
		case c == '$' && strings.HasPrefix(line[i+1:], "("):
			begun, inner, skip = true, 1, i+1
		case c == ' ' || c == '\t' || c == '\n':
			end()
		case c == '&' && (i > 0 && strings.IndexByte("<>", line[i-1]) >= 0 || strings.HasPrefix(line[i+1:], ">")): // 2>&1, &>
			b.WriteByte(c)
			begun = true
		case strings.IndexByte(";&|()", c) >= 0:
			end()
			if len(args) > 0 {
				all, args = append(all, args), nil
			}
		default:
			b.WriteByte(c)
			begun = true
		}
	}
	end()
	if len(args) > 0 {
		all = append(all, args)
	}
	return all
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
