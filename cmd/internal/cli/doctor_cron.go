package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// cronStart is a line of a crontab, or of a service, that starts onerun.
type cronStart struct {
	start
	where   string // FILE:LINE
	account string
	url     string // the store that the line or the file names; "" for none
	envFile string // the configuration file that they name
}

// crontabs are the files that cron(8) reads: in those of the system a line names its
// account, a file of the spool is named after its own.
const (
	systemCrontab = "/etc/crontab"
	cronDirectory = "/etc/cron.d"
	cronSpool     = "/var/spool/cron"
)

const manyCrontabs = 1000 // files, beyond which nobody looks

// readCrontabs finds the starts of onerun in the crontabs that this account can read.
func (d *doctor) readCrontabs() (all []cronStart) {
	all = cronFile(all, systemCrontab, "")
	for _, file := range filesIn(cronDirectory) {
		all = cronFile(all, file, "")
	}
	for _, dir := range []string{filepath.Join(cronSpool, "crontabs"), cronSpool} { // Debian's; others'
		for _, file := range filesIn(dir) {
			all = cronFile(all, file, filepath.Base(file))
		}
	}
	return all
}

func filesIn(dir string) (files []string) {
	entries, _ := os.ReadDir(dir) // what can't be read is not looked at
	for _, e := range entries {
		if !e.IsDir() && len(files) < manyCrontabs {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
}

// cronFile reads one crontab (crontab(5)); account is "" where each line names its own.
func cronFile(all []cronStart, path, account string) []cronStart {
	text, err := foreign(path)
	if err != nil {
		return all
	}
	url, envFile, n := "", "", 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if name, value, ok := assignment(line); ok {
			switch name {
			case "ONERUN_STORE":
				url = value
			case "ONERUN_CONFIG":
				envFile = value
			}
			continue
		}
		if s, ok := cronLine(line, account); ok {
			s.where = path + ":" + strconv.Itoa(n)
			s.url, s.envFile = cmp.Or(s.url, url), cmp.Or(s.envFile, envFile)
			all = append(all, s)
		}
	}
	return all
}

// assignment is a line NAME = VALUE.
func assignment(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, "=")
	name = strings.Trim(strings.TrimSpace(name), `"'`)
	if !ok || name == "" || strings.ContainsAny(name, " \t*/@") {
		return "", "", false
	}
	return name, strings.Trim(strings.TrimSpace(value), `"'`), true
}

// cronLine reads a line with a time and a command.
func cronLine(line, account string) (s cronStart, ok bool) {
	fields := 5
	if line[0] == '@' {
		fields = 1
	}
	if account == "" {
		fields++
	}
	for i := range fields {
		end := strings.IndexAny(line, " \t")
		if end < 0 {
			return s, false
		}
		if account == "" && i == fields-1 {
			account = line[:end]
		}
		line = strings.TrimLeft(line[end:], " \t")
	}
	s, ok = commandStart(shellWords(line))
	s.account = account
	return s, ok
}

// commandStart finds onerun in a command.
func commandStart(words []string) (s cronStart, ok bool) {
	url, envFile := "", ""
	for i, w := range words {
		if value, is := strings.CutPrefix(w, "ONERUN_STORE="); is {
			url = value
		}
		if value, is := strings.CutPrefix(w, "ONERUN_CONFIG="); is {
			envFile = value
		}
		if filepath.Base(w) != "onerun" {
			continue
		}
		end := i + 1
		for end < len(words) && !strings.ContainsAny(words[end], ";&|<>") {
			end++
		}
		s.start = parseStart(words[i+1 : end])
		if s.command != "run" && s.command != "lock" {
			return s, false
		}
		s.url, s.envFile = cmp.Or(s.store, url), cmp.Or(s.config, envFile)
		return s, true
	}
	return s, false
}

// shellWords splits a line into words, as far as quotes and backslashes go.
func shellWords(line string) (words []string) {
	var b strings.Builder
	quote, begun := rune(0), false
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			b.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if begun {
				words = append(words, b.String())
			}
			b.Reset()
			begun = false
		default:
			b.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, b.String())
	}
	return words
}

// file is the database that a crontab's line uses, or "".
func (s cronStart) file(all []localAccount) string {
	a, known := accountOf(all, 0, s.account)
	switch {
	case s.url != "":
		return storeFile(s.url, a.home)
	case storeByConfig(s.envFile, a.home) != "":
		return storeByConfig(s.envFile, a.home)
	case known:
		return usualStore(a)
	}
	return ""
}
