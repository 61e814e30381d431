package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// service is the service unit of a timer in the reading.
type service struct {
	*timer
	name unitName

	execs   []directive // ExecStartPre, ExecStart and ExecStartPost, in the order in which they are executed
	oneshot bool
	x       execution
	files   []string // the commands that read EnvironmentFile=
}

// executes are the lines of a service without which its job would do something else.
var executes = map[string]bool{
	"ExecStart": true, "ExecStartPre": true, "ExecStartPost": true,
	"User": true, "Group": true, "WorkingDirectory": true, "UMask": true, "Environment": true, "EnvironmentFile": true,
}

// service is what the timer starts, as keys of its job; false: it can't be told.
func (t *timer) service() ([]setting, bool) {
	line := t.unit.line
	full := t.name.prefix + ".service"
	if t.name.instance != "" || strings.Contains(t.name.full, "@") {
		full = t.name.prefix + "@" + t.name.instance + ".service"
	}
	if t.unit.value != "" {
		var r *refusal
		if full, r = t.name.specifiers(t.unit.value); r != nil {
			t.lost(line, r.why, r.do)
			return nil, false
		}
	}
	s := &service{timer: t, name: parseUnitName(full)}
	if s.name.kind != "service" || strings.ContainsAny(full, "/\x00") {
		t.lost(line, fmt.Sprintf("the timer starts %s, which is no service", shown(full, 100)), "write the job's command by hand")
		return nil, false
	}
	file := full
	text, err := t.readBeside(file)
	if err != nil && s.name.instance != "" {
		file = s.name.template()
		text, err = t.readBeside(file)
	}
	if err != nil {
		why := err.Error()
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
			why = "there is no such file beside the timer"
		}
		t.lost(line, fmt.Sprintf("the timer starts %s, which can't be read: %s", shown(full, 100), shown(why, 100)), "put it there, or write the command by hand")
		return nil, false
	}
	t.dropIns(s.name)
	return s.read(file, text)
}

// read translates the unit. What is said about its lines names its file, since they are not of the timer's.
func (s *service) read(file, text string) (settings []setting, ok bool) {
	was := s.writer.file
	before, _, found := cutLast(was, "/")
	s.writer.file = shown(file, maxShown)
	if found {
		s.writer.file = shown(before+"/"+file, 2*maxShown)
	}
	defer func() { s.writer.file = was }()
	s.comment("of " + file + ":")
	all, bad := parseUnit(text)
	for _, b := range bad {
		s.lost(b.line, b.why, "correct it, or leave it out")
	}
	without := false
	for _, d := range all {
		if d.section == "Service" && d.key == "Type" {
			s.oneshot = d.value == "oneshot"
		}
	}
	for _, d := range all {
		if d.section != "Service" {
			s.elsewhere(d)
			continue
		}
		if r := s.directive(d); r != nil {
			s.lost(d.line, fmt.Sprintf("%s=: %s", d.key, r.why), r.do)
			without = without || executes[d.key]
		}
	}
	if without {
		s.lost(0, "a job without what is not translated of its commands, their account, directory or environment would do something else", "write it by hand")
		return nil, false
	}
	command, r := s.command()
	if r != nil {
		s.lost(0, r.why, r.do)
		return nil, false
	}
	s.comment("of " + was + ":")
	return []setting{command}, true
}

// directive takes one line of [Service].
func (s *service) directive(d directive) *refusal {
	value, r := s.name.specifiers(d.value)
	if r != nil {
		return r
	}
	left := func(why string) { s.remark(d.line, "%s: %s", d, why) }
	switch d.key {
	case "ExecStart", "ExecStartPre", "ExecStartPost":
		d.value = value
		s.exec(d)
	case "User":
		s.x.user = value
		left("a job runs as whoever runs onerun serve; runuser changes that, for root alone")
		if value == "root" || value == "0" || value == "" {
			s.x.user = ""
		}
	case "Group":
		s.x.group = value
		left("by runuser, if there is a User= too")
	case "WorkingDirectory":
		s.workingDirectory(value)
		left("cd")
	case "Environment":
		return s.environment(d, value)
	case "EnvironmentFile":
		s.environmentFile(d, value)
	case "UMask":
		s.x.setup = append(s.x.setup, "umask "+single(value)+";")
		left("umask")
	case "TimeoutStartSec", "TimeoutSec", "RuntimeMaxSec", "TimeoutStopSec":
		return s.timeout(d, value)
	case "Restart", "RestartSec", "RestartSteps", "RestartMaxDelaySec", "StartLimitInterval", "StartLimitBurst":
		left("left out; retries: N and backoff: MIN..MAX do that")
	case "Type":
		if value != "simple" && value != "exec" && value != "oneshot" {
			return &refusal{d.String() + ": a job is done when its first process ends", "start it without going into the background, or use hold: tree"}
		}
		left("the job is done when its command ends")
	case "Nice", "IOSchedulingClass", "IOSchedulingPriority", "CPUSchedulingPolicy":
		left("left out; put nice or ionice in front of the command")
	case "StandardOutput", "StandardError", "SyslogIdentifier", "LogLevelMax":
		left("left out; output: and capture: say what becomes of what the job prints, and onerun logs shows it")
	case "RemainAfterExit", "KillMode", "SendSIGKILL", "FinalKillSignal", "OOMScoreAdjust", "TimeoutAbortSec", "GuessMainPID", "NotifyAccess":
		left("left out, it has no meaning here")
	case "SuccessExitStatus", "ExecCondition", "ExecStopPost", "KillSignal", "RestartPreventExitStatus", "RestartForceExitStatus":
		return &refusal{d.String() + " has no counterpart", "put it into a script with the command"}
	default:
		if strings.HasPrefix(d.key, "ExecStop") || strings.HasPrefix(d.key, "ExecReload") {
			return &refusal{d.String() + " has no counterpart: SIGTERM ends the job's group, SIGKILL what is left after grace", "let the job itself do it when SIGTERM comes"}
		}
		left("left out: what systemd fences a service in with (limits, sandbox, credentials) is not done here")
	}
	return nil
}

func (s *service) workingDirectory(value string) {
	dir, forgiven := strings.CutPrefix(value, "-")
	line := "cd " + single(dir)
	if dir == "~" {
		line = "cd"
	}
	if dir == "" {
		return
	}
	if forgiven {
		line += " 2>/dev/null;"
	} else {
		line += " || exit;"
	}
	s.x.setup = append(s.x.setup, line)
}

// environment reads Environment=: assignments, parted and quoted like arguments.
func (s *service) environment(d directive, value string) *refusal {
	if value == "" {
		s.x.env = nil
		s.remark(d.line, "Environment= drops those above, as with systemd")
		return nil
	}
	args, r := splitExec(value)
	if r != nil {
		return r
	}
	for _, a := range args {
		name, v, ok := strings.Cut(a.text, "=")
		if !ok || !identifier(name) {
			return &refusal{fmt.Sprintf("%q is no NAME=VALUE that a shell can export", shown(a.text, 60)), "set it in a script of the job's"}
		}
		if len(s.x.env) >= maxVariables {
			return &refusal{"there are too many variables", "set them in a script of the job's"}
		}
		s.x.env = setVariable(s.x.env, variable{name, v, d.line})
	}
	s.remark(d.line, "Environment= is exported")
	return nil
}

func (s *service) environmentFile(d directive, value string) {
	file, forgiven := strings.CutPrefix(value, "-")
	if file == "" {
		s.files = nil
		s.remark(d.line, "EnvironmentFile= drops those above, as with systemd")
		return
	}
	line := "set -a; . " + single(file) + "; set +a;"
	if forgiven {
		line = "if [ -r " + single(file) + " ]; then " + line + " fi;"
	}
	s.files = append(s.files, line)
	s.remark(d.line, "%s: read by the shell, which expands $ and ` where systemd does not", d)
}

func (s *service) timeout(d directive, value string) *refusal {
	var keys []string
	switch {
	case d.key == "TimeoutStopSec" || d.key == "TimeoutSec" && !s.oneshot:
		keys = []string{"grace"}
	case d.key == "TimeoutSec":
		keys = []string{"timeout", "grace"}
	case s.oneshot != (d.key == "RuntimeMaxSec"):
		keys = []string{"timeout"}
	case s.oneshot:
		s.remark(d.line, "%s: left out: systemd doesn't heed it where the service is oneshot", d)
		return nil
	default:
		s.remark(d.line, "%s: left out: of a service that isn't oneshot it is no bound of how long it runs", d)
		return nil
	}
	bound := time.Duration(0)
	if value != "infinity" {
		var r *refusal
		if bound, r = wholeSpan(value); r != nil {
			return r
		}
	}
	switch {
	case bound == 0 && slices.Contains(keys, "grace"):
		return &refusal{"what is asked to end is killed after grace (10s) in any case", "say with grace: how long it may take"}
	case bound == 0:
		s.remark(d.line, "%s: no timeout", d)
		return nil
	}
	for _, key := range keys {
		s.job.settings = slices.DeleteFunc(s.job.settings, func(one setting) bool { return one.key == key }) // the last line counts
		s.job.set(word(key, span(bound)))
	}
	s.remark(d.line, "%s: %s", d, strings.Join(keys, ", "))
	return nil
}
