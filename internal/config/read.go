package config

import (
	"errors"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/onerun-dev/onerun"
)

// The keys of the format itself.
const (
	keyDefaults  = "defaults"
	keyJobs      = "jobs"
	keyRedact    = "redact"
	keyCalendars = "calendars"

	keyCommand = "command"
	keyShell   = "shell"
)

// reader goes from the document to the File.
type reader struct {
	*tree
	schema Schema
	file   *File
}

func (r *reader) top(root ast.Node) {
	m, ok := r.follow(root).(mapping)
	if !ok {
		r.add(r.place(root), "", "the file has to be a mapping, KEY: VALUE on each line")
		return
	}
	for _, e := range r.entries(m) {
		switch e.key {
		case keyDefaults:
			r.file.Defaults = r.keys(e, keyDefaults)
		case keyJobs:
			r.jobs(e)
		case keyRedact:
			r.redact(e)
		case keyCalendars:
			r.calendars(e)
		default:
			key, ok := r.schema.Top[e.key]
			if !ok {
				r.unknownTop(e)
			} else if v, ok := r.value(e, key, ""); ok {
				r.file.Top[e.key] = v
			}
		}
	}
}

func (r *reader) unknownTop(e entry) {
	names := append(keys(r.schema.Top), keyDefaults, keyJobs, keyRedact, keyCalendars)
	near := nearest(e.key, names)
	if _, ok := r.schema.Job[e.key]; ok {
		r.add(e.at, "", "unknown key %s: it belongs below a job or below %s", quote(e.key), keyDefaults)
		return
	}
	r.add(e.at, near, "unknown key %s", quote(e.key))
}

func (r *reader) jobs(e entry) {
	m, ok := r.mapping(e, "JOB: {KEY: VALUE}")
	if !ok {
		return
	}
	written := map[string]spot{}
	for _, job := range r.entries(m) {
		name, err := onerun.CleanName("job", job.key)
		if err != nil {
			r.add(job.at, "", "%s", err)
			name = "" // its keys are read for their errors
		}
		if first, twice := written[name]; twice && name != "" {
			r.add(job.at, "", "the job %s stands here and in line %d, written in another way; keep one", quote(name), first.line)
			continue
		}
		written[name] = job.at
		values := r.keys(job, "job "+name)
		if name != "" && values != nil {
			r.file.Jobs[name] = values
		}
	}
}

// keys reads the keys of a job, or of the defaults.
func (r *reader) keys(of entry, in string) map[string]Value {
	m, ok := r.mapping(of, "KEY: VALUE")
	if !ok {
		return nil
	}
	values := map[string]Value{}
	list := r.entries(m)
	if !r.spend(len(list), of.at) {
		return nil
	}
	command := map[string]spot{}
	for _, e := range list {
		key, ok := r.schema.Job[e.key]
		switch {
		case !ok:
			r.unknownJobKey(e)
			continue
		case e.key == keyCommand || e.key == keyShell:
			if in == keyDefaults {
				r.add(e.at, "", "%s has no place in %s: each job has its own", e.key, keyDefaults)
				continue
			}
			command[e.key] = e.at
		}
		v, ok := r.value(e, key, in)
		if ok && e.key == keyCommand && key.Kind == List && len(v.List) == 0 {
			r.add(spot{v.Line, v.Column}, "", "%s: the list is empty; name a program", e.key)
			continue
		}
		if ok {
			values[e.key] = v
		}
	}
	if len(command) == 2 {
		first, second := command[keyCommand], command[keyShell]
		if second.line < first.line || second.line == first.line && second.column < first.column {
			first, second = second, first
		}
		r.add(second, "", "%s and %s in one job, the other in line %d; keep one", keyCommand, keyShell, first.line)
	}
	return values
}

func (r *reader) unknownJobKey(e entry) {
	near := nearest(e.key, keys(r.schema.Job))
	_, top := r.schema.Top[e.key]
	if top || slices.Contains([]string{keyDefaults, keyJobs, keyRedact, keyCalendars}, e.key) {
		r.add(e.at, "", "unknown key %s: it belongs to the top of the file", quote(e.key))
		return
	}
	r.add(e.at, near, "unknown key %s", quote(e.key))
}

func (r *reader) redact(e entry) {
	v, ok := r.value(e, Key{Kind: List, Check: func(string) error { return nil }}, "")
	if !ok {
		return
	}
	list, _ := e.value.(*ast.SequenceNode)
	for i, text := range v.List {
		at := r.place(list.Values[i])
		re, err := regexp.Compile(text)
		var bad *syntax.Error
		switch {
		case errors.As(err, &bad):
			// Without the expression: it can be the very secret.
			r.add(at, "", "%s: not a regular expression (RE2): %s", e.key, bad.Code)
		case err != nil:
			r.add(at, "", "%s: not a regular expression (RE2)", e.key)
		case re.MatchString(""):
			r.add(at, "", "%s: the expression matches the empty text, so it would mask everywhere", e.key)
		default:
			r.file.Redact = append(r.file.Redact, re)
		}
	}
}

func (r *reader) calendars(e entry) {
	m, ok := r.mapping(e, "NAME: PATH")
	if !ok {
		return
	}
	dir := filepath.Dir(r.file.Path)
	written := map[string]spot{}
	for _, c := range r.entries(m) {
		name, err := onerun.CleanName("calendar", c.key)
		if err != nil {
			r.add(c.at, "", "%s", err)
			continue
		}
		if first, twice := written[name]; twice {
			r.add(c.at, "", "the calendar %s stands here and in line %d, written in another way; keep one", quote(name), first.line)
			continue
		}
		written[name] = c.at
		v, ok := r.value(c, Key{}, "")
		if !ok {
			continue
		}
		if !filepath.IsAbs(v.Text) {
			v.Text = filepath.Join(dir, v.Text)
		}
		r.file.Calendars[name] = v.Text
	}
}

// mapping gives the value of a key that has to be a mapping.
func (r *reader) mapping(e entry, form string) (mapping, bool) {
	m, ok := e.value.(mapping)
	if !ok && !r.empty(e) {
		r.wrongKind(e, "a mapping is wanted here, "+form)
	}
	return m, ok
}
