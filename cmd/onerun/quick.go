package main

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// quickly parses the command line of a command that is started once a job, from the
// same struct tags as kong does, but without building a model of all flags and their
// help first, which takes longer than the claim. It knows only what is plain: anything
// else (a mistake, --help, an abbreviation) it leaves to kong, which then starts from
// the beginning, so that there is one source of messages. A test holds the two against
// each other.
func quickly(args []string, e *env, cmd command) bool {
	q := quick{flags: map[string]reflect.Value{}, tags: map[string]reflect.StructTag{}}
	if !q.collect(reflect.ValueOf(&e.common).Elem()) || !q.collect(reflect.ValueOf(cmd).Elem()) {
		return false
	}
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--" || !strings.HasPrefix(arg, "-"):
			if arg == "" {
				return false
			}
			if !q.named {
				if arg == "--" {
					return false
				}
				q.name.SetString(arg)
				q.named = true
				args = args[1:]
				continue
			}
			q.rest.Set(reflect.ValueOf(slices.Clone(args)))
			return true
		default:
			n := q.flag(arg, args[1:])
			if n == 0 {
				return false
			}
			args = args[n:]
		}
	}
	return q.named
}

// quick is what a struct's tags say.
type quick struct {
	flags map[string]reflect.Value // by --name and -s
	tags  map[string]reflect.StructTag
	name  reflect.Value // the first positional argument
	rest  reflect.Value // the passed-through command
	named bool
}

// collect registers the flags of a struct and sets their defaults.
func (q *quick) collect(v reflect.Value) bool {
	t := v.Type()
	for i := range t.NumField() {
		f, fv := t.Field(i), v.Field(i)
		if f.Anonymous {
			if !q.collect(fv) {
				return false
			}
			continue
		}
		if _, ok := f.Tag.Lookup("arg"); ok {
			if f.Type.Kind() == reflect.Slice {
				q.rest = fv
			} else {
				q.name = fv
			}
			continue
		}
		name := f.Tag.Get("name")
		if name == "" {
			name = dashed(f.Name)
		}
		q.flags["--"+name], q.tags["--"+name] = fv, f.Tag
		if short := f.Tag.Get("short"); short != "" {
			q.flags["-"+short], q.tags["-"+short] = fv, f.Tag
		}
		if d := f.Tag.Get("default"); d != "" && !set(fv, d) {
			return false
		}
	}
	return true
}

// flag takes a flag and its value, and returns how many arguments that were.
func (q *quick) flag(arg string, next []string) int {
	name, value, joined := arg, "", false
	if strings.HasPrefix(arg, "--") {
		name, value, joined = strings.Cut(arg, "=")
	}
	v, ok := q.flags[name]
	switch {
	case !ok:
		return 0
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
		if joined {
			return 0
		}
		return 1
	case !joined && (len(next) == 0 || strings.HasPrefix(next[0], "-")):
		return 0
	case !joined:
		value = next[0]
	}
	if enum := q.tags[name].Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), value) {
		return 0
	}
	if !set(v, value) {
		return 0
	}
	if joined {
		return 1
	}
	return 2
}

// set stores a value in the types that flags have here.
func set(v reflect.Value, s string) bool {
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		if !set(p.Elem(), s) {
			return false
		}
		v.Set(p)
		return true
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(s)) == nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Int:
		n, err := strconv.Atoi(s)
		if err != nil {
			return false
		}
		v.SetInt(int64(n))
	default:
		return false // a map, say: kong knows
	}
	return true
}

// dashed is the name of a flag as kong makes it of a field's: FinishWait, finish-wait.
func dashed(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// argumentsOf writes a struct of flags as arguments again, for an onerun that this one
// starts: those that differ from their defaults.
func argumentsOf(flags any) []string {
	var out []string
	v := reflect.ValueOf(flags).Elem()
	for i := range v.NumField() {
		f, fv := v.Type().Field(i), v.Field(i)
		if f.Anonymous {
			out = append(out, argumentsOf(fv.Addr().Interface())...)
			continue
		}
		name := "--" + cmp.Or(f.Tag.Get("name"), dashed(f.Name))
		usual := reflect.New(f.Type).Elem()
		if d := f.Tag.Get("default"); d != "" {
			set(usual, d)
		}
		if reflect.DeepEqual(fv.Interface(), usual.Interface()) {
			continue
		}
		if fv.Kind() == reflect.Pointer {
			fv = fv.Elem()
		}
		switch x := fv.Interface().(type) {
		case bool:
			out = append(out, name)
		case map[string]string:
			for _, k := range slices.Sorted(maps.Keys(x)) {
				out = append(out, name+"="+k+"="+x[k])
			}
		case duration:
			out = append(out, name+"="+time.Duration(x).String())
		case waiting:
			out = append(out, name+"="+x.String())
		default:
			out = append(out, name+"="+fmt.Sprint(x))
		}
	}
	return out
}
