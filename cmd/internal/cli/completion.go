package cli

import (
	"bufio"
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// completions are the scripts, onerun.SHELL each. They know no commands and no flags:
// they ask the program that stands on the line, which knows its own.
//
//go:embed completion
var completions embed.FS

type completionCmd struct {
	Shell string   `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
	Line  []string `arg:"" optional:"" passthrough:"partial" help:"Words of a command line up to the cursor: say what may stand there, as the scripts ask."`
}

// Help explains the command.
func (completionCmd) Help() string {
	return `The script completes commands, flags, their values, files, the names of jobs and keys that the store knows, and the
command that is to be executed. It asks onerun itself, so it is right for each version, and need not be made anew.`
}

func (c *completionCmd) run(ctx context.Context, e *env) error {
	if len(c.Line) > 0 && c.Line[0] == "--" {
		c.Line = c.Line[1:]
	}
	if len(c.Line) > 0 {
		return answerTo(ctx, c.Line).write(e)
	}
	script, err := completions.ReadFile("completion/onerun." + c.Shell)
	if err != nil {
		return err
	}
	_, err = e.out.Write(script)
	return written(err)
}

// answer is what may stand at the end of a command line.
type answer struct {
	kind  string // words, files, dirs, or command: as if the line began at word skip
	skip  int
	words []choice
}

// choice is a word, and what it is for.
type choice struct{ word, help string }

// write writes the answer for the scripts: what it is, then the words, one a line with
// a tab before their help.
func (a answer) write(e *env) error {
	w := bufio.NewWriter(e.out)
	_, _ = w.WriteString(a.kind)
	if a.kind == completeCommand {
		_, _ = fmt.Fprintf(w, " %d", a.skip)
	}
	_, _ = w.WriteString("\n")
	for _, c := range a.words {
		_, _ = fmt.Fprintf(w, "%s\t%s\n", printable(c.word), printable(strings.TrimSuffix(c.help, ".")))
	}
	return written(w.Flush())
}

// patienceOfTyping is how long somebody who pressed the Tab key waits for the store.
const patienceOfTyping = 500 * time.Millisecond

// known are the jobs, or jobs and keys, that begin with start, in the store that the
// line names. It is silent on every error, and makes nothing.
func (e *env) known(ctx context.Context, start string, keys bool) []choice {
	e.looking = true
	if err := e.configure("status", &statusCmd{}); err != nil {
		return nil
	}
	namespace, err := onerun.CleanName("namespace", e.Namespace)
	if err != nil {
		return nil
	}
	p, err := e.place()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patienceOfTyping)
	defer cancel()
	names, err := sqlite.NamesURL(ctx, p.url, namespace, start, keys)
	if err != nil {
		return nil
	}
	if e.file != nil { // jobs that have not run yet
		for job := range e.file.Jobs {
			if strings.HasPrefix(job, start) && !slices.Contains(names, job) {
				names = append(names, job)
			}
		}
		slices.Sort(names)
	}
	choices := make([]choice, 0, len(names))
	for _, n := range names {
		choices = append(choices, choice{word: n})
	}
	return choices
}
