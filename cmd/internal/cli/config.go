package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/internal/importer"
	"github.com/onerun-dev/onerun/internal/scheduler"
	"github.com/onerun-dev/onerun/schedule"
)

// The configuration file gives defaults to flags: those of every command at its top, those
// of `run` below `defaults`, and those of one job below `jobs`. A flag on the command line
// comes before the environment, that before the file, and that before the flag's default.

// systemConfig is read when no other file is named and it is there.
const systemConfig = "/etc/onerun/onerun.yaml"

// rivals are settings of which a layer that says one silences the others below it: they
// say the same thing in different ways.
var rivals = [][]string{{"date", "partition"}, {"period", "partition"}, {"scope", "lock"}, {"wait", "no-wait"}, {"command", "shell"}}

// unconfigured are the commands that a broken file must not keep from their work.
var unconfigured = []string{"version", "man", "completion", "import"}

// configure reads the file, if there is one, and applies it to a command that was parsed.
func (e *env) configure(name string, cmd command) error {
	if slices.Contains(unconfigured, name) {
		return nil
	}
	path := e.configPath()
	if x, ok := cmd.(*explainCmd); ok && x.Key == "" && e.Config != "" {
		// explain --config JOB: the settings of a job, in the file that is found without a flag.
		x.Key, x.Settings, e.Config = string(e.Config), true, ""
		path = e.configPath()
	}
	if path == "" {
		return nil
	}
	e.readOnce(path)
	file, err := e.load(path)
	var wrong config.Errors
	if err != nil && !errors.As(err, &wrong) {
		kind := fileKind(err)
		return &onerun.StoreError{Kind: kind, What: "configuration file", Path: path, Err: pathCause(err), Do: "name another with --config, or make it readable for this account"}
	}
	e.secrets = file.Redact
	if err != nil {
		return err
	}
	if _, ok := cmd.(*serveCmd); !ok { // which tells with it what is wrong with the schedules
		if err := checkFile(file).OrNil(); err != nil {
			return err
		}
	}
	e.file, e.sources = file, map[string]string{}
	for _, f := range flagFields(&e.common) {
		if v, ok := file.Top[key(f.name)]; ok && !e.given[f.name] && f.name != "store" {
			e.take(f, v)
		}
	}
	switch c := cmd.(type) {
	case *runCmd:
		e.apply(c, c.Job)
		e.command(c.Job, &c.Shell, &c.Command)
	case *backfillCmd:
		e.apply(c, c.Job)
		e.command(c.Job, &c.Shell, &c.Command)
	case *rerunCmd:
		e.apply(c, jobOf(c.Key))
	case *explainCmd:
		e.apply(c, jobOf(c.Key))
	case *lockCmd:
		e.applyOnly(c, "lock-dir", "lock-mode")
	case *unlockCmd:
		e.applyOnly(c, "lock-dir")
	}
	return nil
}

// load reads the file. A scheduler hands its own reading of it to what it starts, so that all of that goes by
// one text whatever becomes of the file: path is where that text is, and configAs what it is the text of.
func (e *env) load(path string) (*config.File, error) {
	text, err := config.Read(path)
	if err != nil {
		return nil, err
	}
	e.fileText = text
	if as := os.Getenv(configAs); as != "" && path == os.Getenv("ONERUN_CONFIG") {
		path = as
	}
	return config.Parse(path, text, schema())
}

// checkFile refuses what no single key is wrong by.
func checkFile(file *config.File) config.Errors {
	var wrong config.Errors
	refuse := func(v config.Value, message string, args ...any) {
		wrong = append(wrong, config.Error{Path: file.Path, Line: v.Line, Column: v.Column, Message: fmt.Sprintf(message, args...)})
	}
	alerts := file.Top["alerts"]
	for _, name := range slices.Sorted(maps.Keys(alerts.Table)) {
		if _, ok := alerts.Table[name]["url"]; !ok {
			refuse(alerts, "alerts: %s has no url", name)
		}
		on, skips := alerts.Table[name]["on"], alerts.Table[name]["skips"]
		if on.List != nil && skips.Text != "" && !slices.Contains(on.List, string(scheduler.AlertSkip)) {
			refuse(skips, "alerts: %s has skips, and no skip in on: nobody would be told", name)
		}
	}
	sections := maps.Clone(file.Jobs)
	sections[""] = file.Defaults
	for _, job := range slices.Sorted(maps.Keys(sections)) {
		values := sections[job]
		if v, ok := values["lock_dir"]; ok && job != "" {
			// Under a lock that it shares with others, such as `onerun lock NAME`, it would exclude nobody.
			refuse(v, "lock_dir: one job's own directory would exclude nobody who takes the same lock elsewhere; write it below defaults")
		}
		for _, to := range values["notify"].List {
			if _, ok := alerts.Table[to]; isAlert(to) && !ok {
				refuse(values["notify"], "notify: there is no %q below alerts, and a URL has a colon", to)
			}
		}
		if v, ok := values["group"]; ok {
			if _, ok := file.Top["groups"].Map[v.Text]; !ok {
				refuse(v, "group: there is no %q below groups, with the number that may run at once", v.Text)
			}
		}
	}
	return wrong
}

// configPath is the file to read; "" for none.
func (e *env) configPath() string {
	switch path := os.Getenv("ONERUN_CONFIG"); {
	case e.Config != "":
		return string(e.Config)
	case path != "":
		return path
	case exists(systemConfig):
		return systemConfig
	}
	return ""
}

// jobOf is the job that a key names; "" for a run id.
func jobOf(ref string) string {
	if onerun.IsRunID(ref) {
		return ""
	}
	job, _, _ := strings.Cut(ref, ":")
	return job
}

// key is a flag's name in the file.
func key(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// layers are what the file says of a job's flags: its own settings over the defaults.
func (e *env) layers(job string) map[string]config.Value {
	values := map[string]config.Value{}
	if e.file == nil {
		return values
	}
	if zone, ok := e.file.Top["timezone"]; ok {
		values["tz"] = zone
	}
	lay(values, e.file.Defaults)
	if name, err := onerun.CleanName("job", job); err == nil {
		lay(values, e.file.Jobs[name])
	}
	return values
}

// lay puts a layer over what is below it. Labels add up.
func lay(values, over map[string]config.Value) {
	for name := range over {
		silence(values, strings.ReplaceAll(name, "_", "-"))
	}
	for name, v := range over {
		if below, ok := values[name]; ok && v.Map != nil {
			merged := maps.Clone(below.Map)
			maps.Copy(merged, v.Map)
			v.Map = merged
		}
		values[name] = v
	}
}

// silence drops what a setting of a higher layer makes void.
func silence(values map[string]config.Value, flag string) {
	for _, group := range rivals {
		if slices.Contains(group, flag) {
			for _, other := range group {
				delete(values, key(other))
			}
		}
	}
}

// apply gives a command's flags the values of the file that nothing above it says.
func (e *env) apply(cmd command, job string) {
	values := e.layers(job)
	for given := range e.given {
		silence(values, given)
	}
	if os.Getenv("ONERUN_TZ") != "" {
		delete(values, "tz")
	}
	for _, f := range flagFields(cmd) {
		v, ok := values[key(f.name)]
		switch {
		case !ok || f.name == "shell":
		case v.Map != nil:
			e.addPairs(f, v)
		case !e.given[f.name]:
			e.take(f, v)
		}
	}
}

// applyOnly is apply for a command that has no job.
func (e *env) applyOnly(cmd command, names ...string) {
	for _, f := range flagFields(cmd) {
		if v, ok := e.file.Defaults[key(f.name)]; ok && slices.Contains(names, f.name) && !e.given[f.name] {
			e.take(f, v)
		}
	}
}

// command is the job's command from the file, when none was typed.
func (e *env) command(job string, shell *word, argv *[]string) {
	if *shell != "" || len(*argv) > 0 {
		return
	}
	values := e.layers(job)
	if v, ok := values["shell"]; ok {
		*shell = word(v.Text)
		e.sources["command"] = e.at(v)
	}
	if v, ok := values["command"]; ok {
		*argv = append([]string{"--"}, v.List...)
		e.sources["command"] = e.at(v)
	}
}

func (e *env) at(v config.Value) string { return fmt.Sprintf("%s:%d", e.file.Path, v.Line) }

// take sets a flag to what the file says; it was checked when the file was read.
func (e *env) take(f flag, v config.Value) {
	e.sources[f.name] = e.at(v)
	if f.value.Kind() == reflect.Slice {
		f.value.SetZero()
		for _, item := range v.List {
			if f.name == "notify" && isAlert(item) {
				if item = e.alertURL(item); item == "" {
					continue
				}
			}
			if err := assign(f.value, e.fileOf(item)); err != nil {
				panic(err) // Check has taken it
			}
		}
		return
	}
	text := v.Text
	switch f.name {
	case "lock-dir", "log-file", "textfile-dir":
		text = e.fromFile(text)
	case "ping":
		text = e.fileOf(text)
	case "calendar":
		if path, ok := e.file.Calendars[text]; ok {
			text = path
		} else {
			text = e.fromFile(text)
		}
	}
	if err := assign(f.value, text); err != nil {
		panic(err) // Check has taken it
	}
}

// fileOf is fromFile for the FILE of @FILE, and any other text as it is.
func (e *env) fileOf(text string) string {
	if path, ok := strings.CutPrefix(text, "@"); ok {
		return "@" + e.fromFile(path)
	}
	return text
}

// addPairs adds labels of the file to those that were typed.
func (e *env) addPairs(f flag, v config.Value) {
	all := maps.Clone(v.Map)
	for k, typed := range f.value.Interface().(map[string]string) {
		all[k] = typed
	}
	f.value.Set(reflect.ValueOf(all))
	e.sources[f.name] = e.at(v)
}

// fromFile makes a path of the file count from the file's directory.
func (e *env) fromFile(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(e.file.Path), path)
}

// applyByID is apply for a command whose run was named by its id: which job that is, the
// ledger knows.
func (e *env) applyByID(ctx context.Context, cmd command, ref string) error {
	if e.file == nil || !onerun.IsRunID(ref) {
		return nil
	}
	ctx, s, leave, err := e.consult(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	run, found, err := find(ctx, e, s, ref)
	if err == nil && found {
		e.apply(cmd, run.Job)
	}
	return err
}

// usualLockDir is the directory of the lock files: the one that was typed, else that of
// the file's defaults, else the store's ("").
func (e *env) usualLockDir(typed string) string {
	if typed == "" && e.file != nil {
		if v, ok := e.file.Defaults["lock_dir"]; ok {
			return e.fromFile(v.Text)
		}
	}
	return typed
}

// storeInFile is the store that the file names, and where it does.
func (e *env) storeInFile() (url, source string) {
	if e.file == nil {
		return "", ""
	}
	v, ok := e.file.Top["store"]
	if !ok {
		return "", ""
	}
	url = v.Text
	if path, ok := strings.CutPrefix(url, "@"); ok {
		url = "@" + e.fromFile(path)
	} else if path, ok := strings.CutPrefix(url, "sqlite:"); ok && !strings.HasPrefix(path, "/") {
		url = "sqlite:" + e.fromFile(path)
		if strings.HasSuffix(path, "/") { // a directory, which has to be there
			url += "/"
		}
	}
	return url, "store in " + e.at(v)
}

// twoPeople reports whether the file says that a rerun of the job needs two people.
func (e *env) twoPeople(job string) bool { return e.layers(job)["rerun"].Text == "two-person" }

// schema is what the file may hold: the flags of every command, and of run.
func schema() config.Schema {
	s := config.Schema{Top: map[string]config.Key{}, Job: map[string]config.Key{}}
	for _, f := range flagFields(&common{}) {
		if f.name != "config" {
			s.Top[key(f.name)] = keyOf(f)
		}
	}
	s.Top["timezone"] = config.Key{Check: checks["tz"]}
	maps.Copy(s.Top, scheduleTop)
	for _, f := range flagFields(&runCmd{}) {
		if f.name != "at" { // the instant of one start
			s.Job[key(f.name)] = keyOf(f)
		}
	}
	s.Job["command"] = config.Key{Kind: config.List, Check: checkArgument}
	maps.Copy(s.Job, scheduleJob)
	for _, keys := range []map[string]config.Key{s.Top, s.Job} {
		for name, k := range keys {
			if check := k.Check; check != nil {
				k.Check = func(text string) error { return unflagged(check(text)) }
				keys[name] = k
			}
		}
	}
	return s
}

// unflagged is an error without the flag that it is about: nobody has typed one.
func unflagged(err error) error {
	var u *schedule.UsageError
	if !errors.As(err, &u) {
		return err
	}
	return &schedule.UsageError{Value: u.Value, Why: u.Why, Do: u.Do}
}

// keyOf is a flag as a key of the file.
func keyOf(f flag) config.Key {
	switch f.value.Kind() {
	case reflect.Bool:
		return config.Key{Kind: config.Bool}
	case reflect.Map:
		return config.Key{Kind: config.Map, Check: checks[f.name]}
	case reflect.Slice:
		return config.Key{Kind: config.List, Check: func(text string) error {
			if check := checks[f.name]; check != nil {
				return check(text)
			}
			return assign(reflect.New(f.value.Type()).Elem(), text)
		}}
	}
	return config.Key{Check: func(text string) error {
		if enum := f.tag.Get("enum"); enum != "" && !slices.Contains(strings.Split(enum, ","), text) {
			return fmt.Errorf("%q is none of %s", text, strings.ReplaceAll(enum, ",", ", "))
		}
		if err := assign(reflect.New(f.value.Type()).Elem(), text); err != nil {
			return err
		}
		if check := checks[f.name]; check != nil {
			return check(text)
		}
		return nil
	}}
}

// checks are what `run` asks of its flags beyond their types.
var checks = map[string]func(text string) error{
	"namespace": func(s string) error { _, err := onerun.CleanName("namespace", s); return err },
	"lock":      func(s string) error { _, err := onerun.CleanName("lock", s); return err },
	"partition": func(s string) error { _, err := onerun.CleanPartition(s); return err },
	"tz":        func(s string) error { _, err := schedule.LoadZone(s); return err },
	"date": func(s string) error {
		cal, err := schedule.ParseCalendar(strings.NewReader(""), "")
		if err == nil {
			_, err = schedule.Spec{Date: s, Zone: "UTC", Calendar: cal}.Resolve(time.Now())
		}
		return err
	},
	"period":    func(s string) error { _, err := schedule.Spec{Period: s, Zone: "UTC"}.Resolve(time.Now()); return err },
	"day-start": func(s string) error { _, err := schedule.Spec{DayStart: s}.Resolve(time.Now()); return err },
	"label": func(s string) error {
		if strings.HasPrefix(s, "=") {
			return errors.New("a label needs a name")
		}
		return nil
	},
	"retries": func(s string) error {
		if n, err := strconv.Atoi(s); err != nil || n < 0 {
			return fmt.Errorf("%q is no number of retries; use 0 or more", s)
		}
		return nil
	},
	"notify": func(s string) error {
		if isAlert(s) { // which one, checkFile asks
			return nil
		}
		return checkAddress(s)
	},
	"ping":         checkPing,
	"shell":        checkArgument,
	"skip-code":    checkCode,
	"blocked-code": checkCode,
	"ttl": func(s string) error {
		var d duration
		if err := d.UnmarshalText([]byte(s)); err != nil || time.Duration(d) < onerun.MinTTL || time.Duration(d) > onerun.MaxTTL {
			return fmt.Errorf("%q is out of range; use 1s to 24h", s)
		}
		return nil
	},
}

// checkArgument refuses what no program can be started with.
func checkArgument(s string) error {
	if len(s) > importer.MaxArg {
		return fmt.Errorf("it has %d bytes, and one argument of a command can have %d (the kernel's MAX_ARG_STRLEN); put it into a script, and name that", len(s), importer.MaxArg)
	}
	return nil
}

func checkCode(s string) error {
	var n int
	if _, err := fmt.Sscan(s, &n); err != nil || n < 0 || n > 255 {
		return fmt.Errorf("%q is no exit code; use 0 to 255", s)
	}
	return nil
}
