package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/config"
)

// command is one subcommand: its fields are its arguments and flags.
type command interface {
	run(ctx context.Context, e *env) error
}

// env is what every command works with.
type env struct {
	common
	out, err io.Writer
	lockDir  string // --lock-dir, of the commands that have it

	placesLocks bool              // this command has it
	secrets     []*regexp.Regexp  // the configuration file's redact patterns
	names       []string          // what this command is about, and no secret: see redacted
	given       map[string]bool   // the flags that stand on the command line, by their long names
	file        *config.File      // nil: there is none
	fileText    []byte            // what it was read from
	sources     map[string]string // where a flag's value stands in the file: PATH:LINE
	once        string            // a file that names the store, and can't be read again; "": none
	remote      Remote            // nil: this program links no store of many machines
	web         Web               // nil: this program links no server of pages
	looking     bool              // whoever asks wants to see what is there: nothing is made
	reading     bool              // the same where nothing can be made

	makeStore bool // init: a named directory is made, too
	sharing   bool // init --shared: the embedded store is the machine's
}

// entry is a line of the one table of commands.
type entry struct {
	name, help string
	make       func() command
}

// commands is the one definition of the command line; help texts come from it.
var commands = []entry{
	{"run", "Claim a run of JOB, execute COMMAND, and record what became of it.", func() command { return &runCmd{} }},
	{"lock", "Execute COMMAND while holding the lock NAME, and nothing else, as flock(1) does.", func() command { return &lockCmd{} }},
	{"item", "Inside of a job: execute COMMAND for ITEM, once ever.", func() command { return &itemCmd{} }},
	{"report", "Inside of a job: say how far it has come, or that there was nothing to do.", func() command { return &reportCmd{} }},
	{"check", "Inside of a job: ask whether this run still owns its lock.", func() command { return &checkCmd{} }},
	{"status", "Show what is running, stale, due for a retry, or paused.", func() command { return &statusCmd{} }},
	{"locks", "Show every lock and its holder.", func() command { return &locksCmd{} }},
	{"history", "List runs, newest first.", func() command { return &historyCmd{} }},
	{"show", "Show one run: every attempt, skip, approval and event.", func() command { return &showCmd{} }},
	{"logs", "Print what a run printed, as far as it is kept.", func() command { return &logsCmd{} }},
	{"items", "List items, newest first.", func() command { return &itemsCmd{} }},
	{"explain", "Say whether a job would run now, and if not why, and what to do.", func() command { return &explainCmd{} }},
	{"next", "Show when jobs fire, or a cron expression.", func() command { return &nextCmd{} }},
	{"import", "Translate a crontab, a systemd timer or CronJobs into a configuration file.", func() command { return &importCmd{} }},
	{"stale", "List suspects, oldest first, with the evidence.", func() command { return &staleCmd{} }},
	{"resolve", "Close a run by decision.", func() command { return &resolveCmd{} }},
	{"rerun", "Approve exactly one more execution of a run.", func() command { return &rerunCmd{} }},
	{"approve", "Approve a rerun that somebody else has requested.", func() command { return &approveCmd{} }},
	{"pause", "Refuse further starts of a job until it is resumed.", func() command { return &pauseCmd{} }},
	{"resume", "Let a paused job start again.", func() command { return &resumeCmd{} }},
	{"stop", "Stop a run: its owner ends the job.", func() command { return &stopCmd{} }},
	{"unlock", "Remove a plain lock file that nobody can prove dead.", func() command { return &unlockCmd{} }},
	{"doctor", "Look for all that would make onerun unsafe on this machine, with the remedy.", func() command { return &doctorCmd{} }},
	{"verify", "Prove with real processes on the store in use that one of them wins.", func() command { return &verifyCmd{} }},
	{"serve", "Start the jobs of the configuration file when their schedules fire.", func() command { return &serveCmd{} }},
	{"start", "Ask a scheduler to start a job of its configuration now.", func() command { return &startCmd{} }},
	{"backfill", "Run JOB once for each date of a range, where it hasn't run.", func() command { return &backfillCmd{} }},
	{"flush", "Deliver the ends of jobs that wait on this host.", func() command { return &flushCmd{} }},
	{"prune", "Remove old successes, and keep their keys from running again.", func() command { return &pruneCmd{} }},
	{"migrate", "Bring the store up to this program's schema.", func() command { return &migrateCmd{} }},
	{"completion", "Print the script that completes command lines in a shell.", func() command { return &completionCmd{} }},
	{"man", "Print the manual page of onerun, or of a command.", func() command { return &manCmd{} }},
	{"init", "Make the store, or share it with other accounts.", func() command { return &initCmd{} }},
	{"version", "Show the version.", func() command { return &versionCmd{} }},
}

const description = `onerun makes a scheduled job run once: before a job starts it must win a claim, and what became of the claim is kept.`

// run parses the command line, executes it, and returns the exit status.
func run(args []string, stdout, stderr io.Writer, remote Remote, web Web) (status int) {
	e := &env{out: stdout, err: stderr, remote: remote, web: web}
	defer func() {
		if p := recover(); p != nil {
			complain(e, fmt.Errorf("internal error: %v; please report this, with the command line", p))
			if e.LogLevel == "debug" {
				_, _ = stderr.Write(debug.Stack())
			}
			status = exitInternal
		}
	}()
	name, cmd, status, err := parse(args, e)
	if cmd == nil {
		return status
	}
	if errors.Is(err, onerun.ErrIO) { // help could not be written
		return report(e, err)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "onerun: %s\n", printable(e.redacted(usageLine(err, name))))
		return exitUsage
	}
	if err = e.configure(name, cmd); err == nil {
		e.about(cmd)
		err = cmd.run(context.Background(), e)
	}
	return report(e, err)
}

// parse reads the command line. A nil command means that everything has been said, and
// status is how it ends.
func parse(args []string, e *env) (name string, cmd command, status int, err error) {
	if len(args) > 0 && (args[0] == "run" || args[0] == "lock" || args[0] == "item") {
		if args[0] != "item" {
			go filelock.ThisWorker("") // who we are is read from /proc meanwhile, and kept
		}
		plain, c := *e, lookup(args[0]).make()
		if quickly(args[1:], &plain, c) {
			e.common, e.given = plain.common, plain.given
			return args[0], c, 0, nil
		}
	}
	return parseAll(args, e)
}

// parseAll is parse by kong. Only the command that is asked for is set up, unless none
// is or help on all is wanted.
func parseAll(args []string, e *env) (name string, cmd command, status int, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case exitPanic:
			cmd, status = nil, int(p)
		default:
			panic(p)
		}
	}()
	only := ""
	if len(args) > 0 {
		only = args[0]
	}
	k, made := model(e, only)
	if len(args) == 0 {
		args = []string{"--help"}
		_, _ = k.Parse(args)
	}
	parsed, err := k.Parse(args)
	if err != nil {
		var p *kong.ParseError
		if errors.As(err, &p) && p.Context != nil && p.Context.Selected() != nil {
			name = p.Context.Selected().Name
		}
		return name, &versionCmd{}, exitUsage, err
	}
	name = parsed.Selected().Name
	e.given = map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil {
			e.given[p.Flag.Name] = true
		}
	}
	return name, made[name], 0, nil
}

// model is kong's view of the command line: of one command, or of all if there is none
// of that name. It is made of the table above and the tags of the commands' fields.
func model(e *env, only string) (*kong.Kong, map[string]command) {
	made := map[string]command{}
	options := []kong.Option{
		kong.Name("onerun"), kong.Description(description),
		kong.Writers(e.out, e.err),
		kong.UsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Exit(func(code int) { panic(exitPanic(code)) }),
		kong.Help(help),
	}
	for _, c := range commands {
		if lookup(only) != nil && only != c.name {
			continue
		}
		made[c.name] = c.make()
		options = append(options, kong.DynamicCommand(c.name, c.help, "", made[c.name]))
	}
	k, err := kong.New(&e.common, options...)
	if err != nil {
		panic(err) // the definition above is wrong
	}
	return k, made
}

type exitPanic int

func lookup(name string) *entry {
	for i := range commands {
		if commands[i].name == name {
			return &commands[i]
		}
	}
	return nil
}

// help writes the help of a command, and ends it with the exit codes.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return written(err)
	}
	text := exitHelp
	if s := ctx.Selected(); s != nil {
		text = exitHelpOf(s.Name)
	}
	_, err := fmt.Fprintf(ctx.Stdout, "\n%s", text)
	return written(err)
}

// usageLine says what is wrong with a command line, and where to look.
func usageLine(err error, name string) string {
	msg := strings.Join(strings.Fields(err.Error()), " ")
	msg = strings.TrimPrefix(msg, "usage: ")
	msg = strings.Replace(msg, "expected value value", "expected a value", 1)
	if word, ok := strings.CutPrefix(msg, "unexpected argument "); ok && name == "" {
		msg = "there is no command " + word
	}
	if strings.Contains(msg, "--help") {
		return msg
	}
	if name != "" {
		name += " "
	}
	return msg + "; see: onerun " + name + "--help"
}

// usage is a usage error in words.
func usage(format string, args ...any) error {
	return fmt.Errorf("%w: %s", onerun.ErrUsage, fmt.Sprintf(format, args...))
}
