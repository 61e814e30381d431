package cli

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
	q := quick{flags: map[string]reflect.Value{}, tags: map[string]reflect.StructTag{}, names: map[string]string{}, given: map[string]bool{}}
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
			e.given = q.given
			return true
		default:
			n := q.flag(arg, args[1:])
			if n == 0 {
				return false
			}
			args = args[n:]
		}
	}
	e.given = q.given
	return q.named
}

// quick is what a struct's tags say.
type quick struct {
	flags map[string]reflect.Value // by --name and -s
	tags  map[string]reflect.StructTag
	names map[string]string // the long name, without dashes, by --name and -s
	given map[string]bool   // flags that stand on the command line, by their long names
	name  reflect.Value     // the first positional argument
	rest  reflect.Value     // the passed-through command
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
		q.flags["--"+name], q.tags["--"+name], q.names["--"+name] = fv, f.Tag, name
		if short := f.Tag.Get("short"); short != "" {
			q.flags["-"+short], q.tags["-"+short], q.names["-"+short] = fv, f.Tag, name
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
		q.given[q.names[name]] = true
		return 1
	case !joined && (len(next) == 0 || strings.HasPrefix(next[0], "-")):
		return 0
	case !joined:
		value = next[0]
	}
	if enum := q.tags[name].Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), value) {
		return 0
	}
	if v.Kind() == reflect.Slice && !q.given[q.names[name]] { // what is typed stands for the default, and adds up
		v.SetZero()
	}
	if !set(v, value) {
		return 0
	}
	q.given[q.names[name]] = true
	if joined {
		return 1
	}
	return 2
}

// set stores a value in the types that flags have here; false for a map, say: kong knows.
func set(v reflect.Value, s string) bool { return assign(v, s) == nil }

// assign is set with its reason for not doing so.
func assign(v reflect.Value, s string) error {
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		err := assign(p.Elem(), s)
		if err == nil {
			v.Set(p)
		}
		return err
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(s))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		v.SetBool(s == "true")
	case reflect.Int:
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%q is no whole number", s)
		}
		v.SetInt(int64(n))
	default:
		return fmt.Errorf("a value of type %s can't be read", v.Type())
	}
	return nil
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
// starts: those that differ from their defaults, and those that were typed, which come
// before what the configuration file says.
func argumentsOf(flags any, given map[string]bool) []string {
	var out []string
	for _, f := range flagFields(flags) {
		name, fv := "--"+f.name, f.value
		usual := reflect.New(fv.Type()).Elem()
		if d := f.tag.Get("default"); d != "" {
			set(usual, d)
		}
		if !given[f.name] && (secretFlags[f.name] || reflect.DeepEqual(fv.Interface(), usual.Interface())) {
			continue
		}
		switch x := fv.Interface().(type) {
		case bool:
			out = append(out, name)
		case map[string]string:
			for _, k := range slices.Sorted(maps.Keys(x)) {
				out = append(out, name+"="+k+"="+x[k])
			}
		case addresses:
			for _, a := range x {
				out = append(out, name+"="+string(a))
			}
		case address:
			out = append(out, name+"="+string(x))
		default:
			out = append(out, name+"="+textOf(fv))
		}
	}
	return out
}

// secretFlags are not written as arguments, where others would see them, unless somebody
// typed them there: the onerun that is started reads the same file.
var secretFlags = map[string]bool{"notify": true, "ping": true}

// textOf writes the value of a flag as it would be typed; "" for none.
func textOf(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case map[string]string:
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(x)) {
			pairs = append(pairs, k+"="+x[k])
		}
		return strings.Join(pairs, " ")
	case duration:
		return time.Duration(x).String()
	case waiting:
		return x.String()
	case backoff:
		return x.String()
	}
	return fmt.Sprint(v.Interface())
}

// flag is a field that is a flag.
type flag struct {
	name  string // long, without dashes
	tag   reflect.StructTag
	value reflect.Value
}

// flagFields are the flags of a struct, in their order.
func flagFields(flags any) []flag { return fieldsIn(reflect.ValueOf(flags).Elem()) }

func fieldsIn(v reflect.Value) []flag {
	var out []flag
	for i := range v.NumField() {
		f, fv := v.Type().Field(i), v.Field(i)
		switch _, arg := f.Tag.Lookup("arg"); {
		case f.Anonymous:
			out = append(out, fieldsIn(fv)...)
		case !arg:
			out = append(out, flag{cmp.Or(f.Tag.Get("name"), dashed(f.Name)), f.Tag, fv})
		}
	}
	return out
}
