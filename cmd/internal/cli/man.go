package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/onerun-dev/onerun"
)

type manCmd struct {
	Command word `arg:"" optional:"" help:"Command whose page it is to be; without it the page onerun(1)."`
	Dir     word `placeholder:"DIR" help:"Write every page into DIR instead, a file each."`
}

// Help explains the command.
func (manCmd) Help() string {
	return `The pages are made of what --help says, in the macros of man(7). Read one with: onerun man run | man -l -

Their date is the day on which they are made, or that of SOURCE_DATE_EPOCH.`
}

func (c *manCmd) run(_ context.Context, e *env) error {
	k, _ := model(&env{out: io.Discard, err: io.Discard}, "")
	m := manual{app: k.Model.Node, date: pageDate(os.Getenv("SOURCE_DATE_EPOCH"), time.Now())}
	switch {
	case c.Command != "" && c.Dir != "":
		return usage("a command and --dir are both given; --dir writes every page")
	case c.Dir != "":
		return m.save(string(c.Dir))
	case c.Command == "":
		_, err := io.WriteString(e.out, m.program())
		return written(err)
	}
	for _, n := range m.app.Children {
		if n.Name == string(c.Command) {
			_, err := io.WriteString(e.out, m.command(n))
			return written(err)
		}
	}
	return usage("there is no command %q; see: onerun --help", string(c.Command))
}

// pageDate is the day of SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/),
// so that the same source makes the same pages, else the day of now.
func pageDate(epoch string, now time.Time) string {
	if s, err := strconv.ParseInt(epoch, 10, 64); err == nil && s >= 0 {
		now = time.Unix(s, 0)
	}
	return now.UTC().Format(time.DateOnly)
}

// manual makes the pages of a program, from kong's model of it.
type manual struct {
	app  *kong.Node
	date string
}

// save writes all pages into a directory that is there.
func (m manual) save(dir string) error {
	pages := map[string]string{m.app.Name: m.program()}
	for _, n := range m.app.Children {
		pages[m.app.Name+"-"+n.Name] = m.command(n)
	}
	for name, text := range pages {
		path := filepath.Join(dir, name+".1")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return &onerun.StoreError{Kind: createKind(err), What: "write the page", Path: path, Err: pathCause(err), Do: "make the directory first, or name another --dir"}
		}
	}
	return nil
}

// program is the page of the whole.
func (m manual) program() string {
	p := newPage()
	p.title(m, m.app.Name)
	p.line(m.app.Name + ` \- run a scheduled job once`)
	p.section("SYNOPSIS")
	p.line(bold(m.app.Name) + ` \fICOMMAND\fP [\fIOPTION\fP]...`)
	p.section("DESCRIPTION")
	p.prose(m.app.Help)
	p.section("COMMANDS")
	for _, n := range m.app.Children {
		if !n.Hidden {
			p.item(bold(m.app.Name+"-"+n.Name) + "(1)")
			p.prose(n.Help)
		}
	}
	p.section("OPTIONS")
	p.line("Every command takes these.")
	p.options(m.app.Flags)
	p.exitStatus(exitHelp)
	p.section("ENVIRONMENT")
	p.asked(m.everyFlag())
	p.line(".PP")
	p.line("A job, and a command under a lock, gets these; the rest of its environment is unchanged.")
	for _, v := range given {
		p.item(bold(v.name))
		p.prose(v.help)
	}
	p.files(m.app)
	p.seeAlso(m, m.app, "")
	return p.String()
}

// everyFlag are the flags of the program and of all its commands.
func (m manual) everyFlag() []*kong.Flag {
	flags := m.app.Flags
	for _, n := range m.app.Children {
		flags = append(flags[:len(flags):len(flags)], n.Flags...)
	}
	return flags
}

// command is the page of one command.
func (m manual) command(n *kong.Node) string {
	name := m.app.Name + "-" + n.Name
	p := newPage()
	p.title(m, name)
	p.line(roff(name) + ` \- ` + p.marked(decapital(strings.TrimSuffix(n.Help, "."))))
	p.section("SYNOPSIS")
	p.line(synopsis(m.app.Name, n))
	p.section("DESCRIPTION")
	p.prose(n.Help + "\n\n" + n.Detail)
	if len(n.Positional) > 0 {
		p.section("ARGUMENTS")
	}
	for _, a := range n.Positional {
		p.item(argument(a))
		p.prose(a.Help + extra(a, ""))
	}
	if len(n.Flags) > 0 {
		p.section("OPTIONS")
		p.options(n.Flags)
	}
	p.section("COMMON OPTIONS")
	p.options(m.app.Flags)
	p.exitStatus(exitHelpOf(n.Name))
	p.section("ENVIRONMENT")
	p.asked(append(m.app.Flags[:len(m.app.Flags):len(m.app.Flags)], n.Flags...))
	if takesCommand(n) {
		p.line(".PP")
		p.line(`What the executed command gets to know is in \fB` + roff(m.app.Name) + `\fP(1).`)
	}
	p.files(m.app)
	p.seeAlso(m, n, m.app.Name)
	return p.String()
}

// synopsis is how a command is called.
func synopsis(program string, n *kong.Node) string {
	words := []string{bold(program + " " + n.Name)}
	for _, f := range n.Flags {
		if f.Required {
			words = append(words, bold("--"+f.Name)+" "+placeholder(f))
		}
	}
	words = append(words, `[\fIOPTION\fP]...`)
	for _, a := range n.Positional {
		arg := argument(a)
		if a.Passthrough {
			arg = bold("--") + " " + arg
		}
		if !a.Required {
			arg = "[" + arg + "]"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

func takesCommand(n *kong.Node) bool {
	for _, a := range n.Positional {
		if a.Passthrough && a.Name == "command" {
			return true
		}
	}
	return false
}

func argument(a *kong.Positional) string {
	name := `\fI` + roff(strings.ToUpper(a.Name)) + `\fP`
	if a.IsCumulative() {
		name += "..."
	}
	return name
}
