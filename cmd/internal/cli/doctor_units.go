package cli

import (
	"cmp"
	"path/filepath"
	"strconv"
	"strings"
)

// unitDirectories are where systemd finds a host's services (systemd.unit(5)); a file in an earlier one stands for those of
// the same name in later ones.
var unitDirectories = [...]string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

// readUnits finds the starts of onerun in the services of this host that this account can read.
func readUnits() (all []cronStart) {
	seen := map[string]bool{}
	for _, dir := range unitDirectories {
		for _, file := range filesIn(dir) {
			name := filepath.Base(file)
			if !strings.HasSuffix(name, ".service") || seen[name] {
				continue
			}
			seen[name] = true
			u := unit{account: "root"}
			u.read(file)
			for i := range unitDirectories { // the drop-ins of a later directory are read first
				for _, more := range filesIn(unitDirectories[len(unitDirectories)-1-i] + "/" + name + ".d") {
					if strings.HasSuffix(more, ".conf") {
						u.read(more)
					}
				}
			}
			all = append(all, u.found()...)
		}
	}
	return all
}

// unit is what of a service decides which store its onerun uses.
type unit struct {
	account, url, envFile string
	starts                []cronStart
}

// read takes in one file of it.
func (u *unit) read(path string) {
	text, err := foreign(path)
	if err != nil {
		return
	}
	section, before, n := "", "", 0
	for line := range strings.Lines(string(text)) {
		n++
		line = before + strings.TrimSpace(line)
		before = ""
		if rest, more := strings.CutSuffix(line, `\`); more {
			before = rest + " "
			continue
		}
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			section = line
		case section == "[Service]":
			key, value, _ := strings.Cut(line, "=")
			u.setting(strings.TrimSpace(key), strings.TrimSpace(value), path+":"+strconv.Itoa(n))
		}
	}
}

func (u *unit) setting(key, value, where string) {
	switch key {
	case "User":
		u.account = cmp.Or(value, "root")
	case "Environment":
		if value == "" { // it begins anew
			u.url, u.envFile = "", ""
		}
		for _, w := range shellWords(value) {
			u.variable(w)
		}
	case "EnvironmentFile":
		text, _ := foreign(strings.TrimPrefix(value, "-")) // what can't be read is not looked at
		for line := range strings.Lines(string(text)) {
			if name, v, ok := assignment(strings.TrimSpace(line)); ok {
				u.variable(name + "=" + v)
			}
		}
	case "ExecStart":
		if value == "" {
			u.starts = nil
		}
		if s, ok := commandStart(shellWords(strings.TrimLeft(value, "@-:+!|"))); ok {
			s.where = where
			u.starts = append(u.starts, s)
		}
	}
}

func (u *unit) variable(w string) {
	switch name, value, _ := strings.Cut(w, "="); name {
	case "ONERUN_STORE":
		u.url = value
	case "ONERUN_CONFIG":
		u.envFile = value
	}
}

// found are its starts, with what the whole of it says.
func (u *unit) found() []cronStart {
	for i := range u.starts {
		s := &u.starts[i]
		s.account, s.url, s.envFile = u.account, cmp.Or(s.url, u.url), cmp.Or(s.envFile, u.envFile)
	}
	return u.starts
}
