package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
)

type logsCmd struct {
	Key     string `arg:"" help:"Key, run id, or job (its RUNNING run, else its latest)."`
	Attempt int    `placeholder:"N" help:"Of attempt N (the last one)."`
	Follow  bool   `short:"f" help:"Go on until the attempt has ended."`
	Raw     bool   `help:"As it is on a terminal too, where it could move the cursor or worse."`
	JSON    bool   `name:"json" help:"One JSON document instead of the text."`
}

// Help explains the command.
func (logsCmd) Help() string {
	return `What is kept is the end of standard output and error together, with secrets masked: see --capture of onerun run. On a
terminal, what that would act on is shown escaped. What the job printed goes to standard output; a word of onerun's own
about it, to standard error.

Of a job that runs, it is what it has printed until a second ago, in whole lines. --follow goes on with that, and ends when
the attempt does.`
}

// logsView is an output as documented.
type logsView struct {
	RunID      string  `json:"run_id"`
	Key        *string `json:"key"`
	Job        string  `json:"job"`
	Namespace  string  `json:"namespace"`
	Attempt    int     `json:"attempt"`
	At         *string `json:"at"`
	BytesTotal int64   `json:"bytes_total"`
	Truncated  bool    `json:"truncated"`
	Text       *string `json:"text"` // null: nothing is kept
}

func (c *logsCmd) run(ctx context.Context, e *env) error {
	if err := checkRef(c.Key); err != nil {
		return err
	}
	if c.Attempt < 0 {
		return usage("--attempt %d is negative", c.Attempt)
	}
	if c.Follow && c.JSON {
		return usage("--follow and --json contradict each other")
	}
	unbound := ctx
	ctx, s, leave, err := e.consult(ctx, "")
	if err != nil {
		return err
	}
	defer leave()
	run, found, err := find(ctx, e, s, c.Key)
	if err != nil {
		return err
	}
	if !found {
		return noSuchRun(c.Key)
	}
	attempt := run.Attempt
	if c.Attempt > 0 {
		attempt = c.Attempt
	}
	if c.Follow && run.Status == onerun.Running && attempt == run.Attempt {
		return c.follow(unbound, e, s, run, attempt)
	}
	o, err := s.Output(ctx, e.Namespace, run.RunID, attempt)
	kept := !errors.Is(err, onerun.ErrNotFound)
	if err != nil && kept {
		return err
	}
	if err := c.missing(run, attempt, kept); err != nil {
		return err
	}
	if c.JSON {
		v := logsView{
			RunID: run.RunID, Key: nilIf(run.Key(), ""), Job: run.Job, Namespace: run.Namespace, Attempt: attempt,
			At: stampOrNil(o.At), BytesTotal: o.Total, Truncated: o.Truncated, Text: nilIf(o.Text, ""),
		}
		return writeJSON(e.out, v)
	}
	if !kept {
		return c.note(e, "nothing is kept of what attempt %d of %s printed, if it printed anything", attempt, run.Name())
	}
	if o.Truncated {
		if err := c.note(e, "this is the end of %d bytes", o.Total); err != nil {
			return err
		}
	}
	return c.print(e, o.Text)
}

// missing says why there is no output, where that is not simply that nothing was printed.
func (c *logsCmd) missing(run onerun.Run, attempt int, kept bool) error {
	switch {
	case kept:
		return nil
	case attempt > run.Attempt:
		return &onerun.StoreError{Kind: onerun.ErrNotFound, What: fmt.Sprintf("%s, attempt %d", run.Name(), attempt), Err: fmt.Errorf("it has had %d", run.Attempt), Do: "see: onerun show " + run.Name()}
	case !run.Pruned.IsZero():
		return &onerun.StoreError{Kind: onerun.ErrNotFound, What: c.Key, Err: errors.New("its output was removed with the run, which was pruned")}
	case run.Status == onerun.Running && attempt == run.Attempt:
		return &onerun.StateError{Why: fmt.Sprintf("%s is RUNNING (attempt %d): it has printed nothing until a second ago, or --capture none", run.Name(), attempt)}
	}
	return nil
}

func (c *logsCmd) note(e *env, format string, args ...any) error {
	_, err := fmt.Fprintf(e.err, "onerun: %s\n", printable(fmt.Sprintf(format, args...)))
	return written(err)
}

// escaped shows escaped whatever a terminal would act on, but for the ends of lines and tabs.
func escaped(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body, end := strings.CutSuffix(line, "\n")
		for i, part := range strings.Split(body, "\t") {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(printable(part))
		}
		if end {
			b.WriteByte('\n')
		}
	}
	return b.String()
}
