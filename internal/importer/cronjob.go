package importer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cronJob is one in the translation.
type cronJob struct {
	*manifest
	n, spec, job, pod *node
	j                 job
}

func (m *manifest) cronJob(n *node) {
	c := &cronJob{manifest: m, n: n, spec: n.get("spec")}
	if c.spec == nil || c.spec.kind != mapNode {
		m.lost(n.line, "the CronJob has no spec", "complete it")
		return
	}
	c.job = c.spec.get("jobTemplate", "spec")
	c.pod = c.job.get("template", "spec")
	name := n.value("metadata", "name")
	if name == "" {
		name = strings.TrimRight(n.value("metadata", "generateName"), "-")
	}
	if strings.Contains(name, "{{") {
		m.lost(n.at("metadata", "name"), helm, helmFirst)
		return
	}
	c.j = job{line: n.at("spec", "schedule"), name: name, source: []string{fmt.Sprintf("lines %d to %d: CronJob %s", n.line, lastLine(n), name)}}
	expr, zone, r := c.when()
	if r != nil {
		m.lost(n.at("spec", "schedule"), r.why, r.do)
		return
	}
	command, ok := c.command()
	if !ok {
		return
	}
	c.j.set(word("schedule", expr))
	if zone != "" {
		c.j.set(word("tz", zone))
	} else if zone = m.o.Zone; zone == "" {
		zone = "UTC"
	}
	c.j.set(command)
	c.policy()
	c.bounds()
	suspend := c.spec.value("suspend")
	c.leftOut()
	if strings.HasPrefix(expr, "@every") {
		c.j.note(everyNote)
	}
	c.j.remarks(expr)
	c.j.next(expr, zone, m.o)
	if m.add(c.j) {
		c.suspended(suspend, m.jobs[len(m.jobs)-1].name)
	}
}

// lastLine is the last line on which a value of a node begins.
func lastLine(n *node) int {
	last := n.line
	for _, m := range n.keys {
		last = max(last, m.line, m.value.line)
		if m.value.line >= n.line { // what an alias names stands elsewhere
			last = max(last, lastLine(m.value))
		}
	}
	for _, item := range n.list {
		last = max(last, lastLine(item))
	}
	return last
}

// when is the schedule, and the zone if it has one of its own.
func (c *cronJob) when() (expr, zone string, r *refusal) {
	expr, zone = c.spec.value("schedule"), c.spec.value("timeZone")
	if strings.Contains(expr+zone, "{{") {
		return "", "", &refusal{helm, helmFirst}
	}
	if expr == "" {
		return "", "", &refusal{"the CronJob has no schedule", "complete it"}
	}
	for _, prefix := range []string{"TZ=", "CRON_TZ="} {
		if rest, ok := strings.CutPrefix(expr, prefix); ok {
			inside, after := nextWord(rest)
			if zone != "" {
				return "", "", &refusal{"it has a zone in its schedule and a timeZone, which Kubernetes refuses", "keep one"}
			}
			expr, zone = after, inside
			c.j.note("the zone in front of the schedule is tz (Kubernetes never promised to know it)")
		}
	}
	if zone != "" {
		if r := zoneOf(zone); r != nil {
			return "", "", r
		}
	}
	expr = strings.Join(strings.Fields(expr), " ")
	if fields := strings.Fields(expr); len(fields) == 5 {
		expr = c.either(fields)
	}
	return expr, zone, checked(expr)
}

// either keeps the days of Kubernetes' parser, to which a star with a step is no star: there one of the two days is enough.
func (c *cronJob) either(fields []string) string {
	star := func(f string) bool { return f == "*" || f == "?" || f == "*/1" || f == "?/1" }
	dom, dow := fields[2], fields[4]
	was := strings.Join(fields, " ")
	if !star(dom) && !star(dow) {
		if rest, ok := strings.CutPrefix(dom, "*/"); ok {
			fields[2] = "1-31/" + rest
		}
		if rest, ok := strings.CutPrefix(dow, "*/"); ok {
			fields[4] = "0-6/" + rest
		}
	}
	expr := strings.Join(fields, " ")
	if expr != was {
		c.j.note("%q is written so that one of the two days is enough, as with Kubernetes", was)
	}
	return expr
}

// number reads a number of the manifest; false when there is none, or none that can be.
func (c *cronJob) number(of *node, key string, most int64) (int64, bool) {
	value := of.get(key)
	if value == nil || value.kind == nullNode {
		return 0, false
	}
	n, err := strconv.ParseInt(of.value(key), 10, 64)
	if err != nil || n < 0 || n > most {
		c.lost(value.line, fmt.Sprintf("%s: %q is no number that can be", key, shown(of.value(key), 40)), "correct it")
		return 0, false
	}
	return n, true
}

// maxSeconds is ten years.
const maxSeconds = 10 * 366 * 24 * 3600

// policy is what becomes of starts that meet another run, or are late.
func (c *cronJob) policy() {
	switch p := c.spec.value("concurrencyPolicy"); p {
	case "Forbid":
		c.j.set(word("overlap", "skip"))
		c.j.note("line %d: concurrencyPolicy: Forbid: overlap: skip", c.spec.at("concurrencyPolicy"))
	case "Replace":
		c.j.set(word("overlap", "replace"))
		c.j.note("line %d: concurrencyPolicy: Replace: overlap: replace", c.spec.at("concurrencyPolicy"))
	case "", "Allow":
		c.j.set(word("scope", "key"))
		c.j.note("concurrencyPolicy: Allow, Kubernetes' default: scope: key lets runs be beside each other; without it they never are")
	default:
		c.lost(c.spec.at("concurrencyPolicy"), fmt.Sprintf("concurrencyPolicy: %q is not known", shown(p, 40)), "use Allow, Forbid or Replace")
	}
	if n, ok := c.number(c.spec, "startingDeadlineSeconds", maxSeconds); ok {
		d := span(time.Duration(n) * time.Second)
		c.j.set(table("catch_up", [2]string{"policy", "latest"}, [2]string{"window", d}))
		if n > 0 {
			c.j.set(word("start_by", d))
		}
		c.j.note("line %d: startingDeadlineSeconds: the window of catch_up, and start_by, which alerts", c.spec.at("startingDeadlineSeconds"))
		return
	}
	c.j.set(catchUp("latest"))
}

// bounds are the numbers of the job.
func (c *cronJob) bounds() {
	if n, ok := c.number(c.job, "backoffLimit", 1000); ok {
		if n > 0 {
			c.j.set(word("retries", strconv.FormatInt(n, 10)), word("backoff", "10s..6m"))
		}
		c.j.note("line %d: backoffLimit: retries", c.job.at("backoffLimit"))
	} else if limit := c.job.get("backoffLimit"); limit == nil || limit.kind == nullNode {
		c.j.set(word("retries", "6"), word("backoff", "10s..6m"))
		c.j.note("retries: 6 is Kubernetes' default (backoffLimit)")
	}
	timeout := int64(0)
	if n, ok := c.number(c.job, "activeDeadlineSeconds", maxSeconds); ok {
		timeout = n
		c.j.note("line %d: activeDeadlineSeconds: timeout, which is for each attempt, and not for all of them together", c.job.at("activeDeadlineSeconds"))
	}
	if n, ok := c.number(c.pod, "activeDeadlineSeconds", maxSeconds); ok {
		if timeout == 0 || n < timeout {
			timeout = n
		}
		c.j.note("line %d: activeDeadlineSeconds of the pod: timeout", c.pod.at("activeDeadlineSeconds"))
	}
	if timeout > 0 {
		c.j.set(word("timeout", span(time.Duration(timeout)*time.Second)))
	}
	if n, ok := c.number(c.pod, "terminationGracePeriodSeconds", maxSeconds); ok {
		c.j.set(word("grace", span(time.Duration(n)*time.Second)))
		c.j.note("line %d: terminationGracePeriodSeconds: grace", c.pod.at("terminationGracePeriodSeconds"))
	}
	for _, key := range []string{"parallelism", "completions"} {
		if n, ok := c.number(c.job, key, maxSeconds); ok && n != 1 {
			c.lost(c.job.at(key), fmt.Sprintf("%s: %d: a run executes its command once", key, n), "write one job for each part, or leave it to the command")
		}
	}
	for _, key := range []string{"successfulJobsHistoryLimit", "failedJobsHistoryLimit"} {
		if n := c.spec.value(key); n != "" {
			c.j.note("line %d: %s: left out; onerun prune removes old runs, and keeps their keys", c.spec.at(key), key)
		}
	}
	if n := c.job.value("ttlSecondsAfterFinished"); n != "" {
		c.j.note("line %d: ttlSecondsAfterFinished: left out; see onerun prune", c.job.at("ttlSecondsAfterFinished"))
	}
	if p := c.pod.value("restartPolicy"); p != "" {
		c.j.note("line %d: restartPolicy: %s: left out; retries count both kinds", c.pod.at("restartPolicy"), shown(p, 20))
	}
}

func (c *cronJob) suspended(value, name string) {
	switch {
	case strings.EqualFold(value, "true"):
		c.lost(c.spec.at("suspend"), fmt.Sprintf("%s is suspended, and would start here", name), "before onerun serve starts, type: onerun pause "+name+" --reason TEXT")
	case value != "" && !strings.EqualFold(value, "false"):
		c.lost(c.spec.at("suspend"), fmt.Sprintf("suspend: %q is neither true nor false", shown(value, 40)), "correct it")
	}
}

// command is that of the one container.
func (c *cronJob) command() (setting, bool) {
	containers := c.pod.get("containers")
	if containers == nil || containers.kind != listNode || len(containers.list) == 0 {
		c.lost(c.n.at("spec", "jobTemplate"), "the CronJob has no containers", "complete it")
		return setting{}, false
	}
	if len(containers.list) > 1 {
		c.lost(containers.list[1].line, "a job executes one command, and this is another container", "write a job, or a script, for each; the first one is translated")
	}
	if init := c.pod.get("initContainers"); init != nil && len(init.list) > 0 {
		c.lost(c.pod.at("initContainers"), "initContainers have no counterpart", "put their commands in front of the job's")
		init.used = true
	}
	for _, other := range containers.list[1:] {
		other.used = true
	}
	one := containers.list[0]
	argv, ok1 := stringsOf(one.get("command"))
	args, ok2 := stringsOf(one.get("args"))
	if !ok1 || !ok2 {
		c.lost(one.line, "command and args have to be lists of texts", "correct them")
		return setting{}, false
	}
	image := one.value("image")
	_ = one.value("name")
	all := slices.Concat(argv, args)
	switch {
	case len(all) == 0:
		c.lost(one.line, fmt.Sprintf("the container has no command: what is in the image %s is executed, which isn't known here", shown(image, 80)),
			"write the job with the image's ENTRYPOINT and CMD as its command")
		return setting{}, false
	case all[0] == "":
		c.lost(one.line, "the command is empty", "correct it")
		return setting{}, false
	case len(argv) == 0:
		c.warn(one.at("args"), "there are args and no command: the image's ENTRYPOINT, if it has one, belongs in front of them")
	}
	if image != "" {
		c.j.note("line %d: image %s is left out: the command is executed where onerun serve runs", one.at("image"), shown(image, 80))
	}
	c.variables(one, all)
	if strings.Contains(strings.Join(all, " "), "{{") {
		c.j.note("there is a {{ in the command: if it is one of Helm's, %s", helmFirst)
	}
	return words("command", all...), true
}

// variables puts those of env in the place of $(NAME) in a command.
func (c *cronJob) variables(container *node, command []string) {
	if c.full || !slices.ContainsFunc(command, func(word string) bool { return strings.Contains(word, "$") }) {
		return
	}
	env, elsewhere := map[string]string{}, map[string]bool{}
	if list := container.get("env"); list != nil {
		for _, one := range list.list {
			name, value := one.get("name"), one.get("value")
			switch {
			case name == nil:
			case value != nil:
				env[name.text] = expanded(value.text, env, nil)
				delete(elsewhere, name.text)
			default:
				elsewhere[name.text] = one.get("valueFrom") != nil
				delete(env, name.text)
			}
		}
	}
	size, changed := 0, false
	for i, word := range command {
		if size += len(command[max(0, i-1)]); size > maxOutput {
			return // it is too large, as the writer will find
		}
		command[i] = expanded(word, env, func(name string) {
			if elsewhere[name] {
				c.warn(container.at("env"), "$(%s) in the command is what env takes from elsewhere, which isn't known here; correct the job", shown(name, 60))
			}
		})
		changed = changed || command[i] != word
	}
	if changed {
		c.j.note("variables of env stand in the command in the place of $(NAME), and $ in that of $$, as Kubernetes puts them")
	}
}

// expanded is a text with $$ as $, and variables in the place of $(NAME) where there is one of that name; missing is told
// the others.
func expanded(text string, env map[string]string, missing func(name string)) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		switch {
		case !found || b.Len() > MaxArg: // more than that can't be said
			return b.String() + rest
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			text = rest[1:]
			continue
		case strings.HasPrefix(rest, "("):
			name, _, closed := strings.Cut(rest[1:min(len(rest), 300)], ")") // longer than any name
			value, known := env[name]
			if closed && known {
				b.WriteString(value)
				text = rest[len(name)+2:]
				continue
			}
			if closed && missing != nil {
				missing(name)
			}
		}
		b.WriteByte('$')
		text = rest
	}
}

// stringsOf are the texts of a list.
func stringsOf(n *node) (all []string, ok bool) {
	if n == nil || n.kind == nullNode {
		return nil, true
	}
	if n.kind != listNode {
		return nil, false
	}
	n.used = true
	for _, item := range n.list {
		if item.kind != scalarNode {
			return nil, false
		}
		item.used = true
		all = append(all, item.text)
	}
	return all, true
}

// leftOut says what nobody has looked at.
func (c *cronJob) leftOut() {
	if status := c.n.get("status"); status != nil {
		status.used = true // what Kubernetes says, and nobody else
	}
	if meta := c.n.get("metadata"); meta != nil {
		if space := meta.value("namespace"); space != "" {
			c.j.note("line %d: the namespace %s is left out; onerun's own is a setting of the whole file", meta.at("namespace"), shown(space, 60))
		}
	}
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		for _, m := range n.keys {
			at := strings.TrimPrefix(path+"."+m.key, ".")
			switch {
			case m.value.used:
			case touched(m.value):
				walk(m.value, at)
			case m.value.kind == nullNode || m.value.kind != scalarNode && len(m.value.keys)+len(m.value.list) == 0:
			default:
				c.j.note("line %d: left out, it has no counterpart: %s", m.line, shown(at, 120))
			}
		}
		for i, item := range n.list {
			if !item.used {
				walk(item, path+"["+strconv.Itoa(i)+"]")
			}
		}
	}
	walk(c.n, "")
}

// touched reports whether the translation has looked at anything in a node.
func touched(n *node) bool {
	if n.used {
		return true
	}
	for _, m := range n.keys {
		if touched(m.value) {
			return true
		}
	}
	return slices.ContainsFunc(n.list, touched)
}
