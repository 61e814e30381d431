package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

type buggyless struct{}

func (buggyless) run(context.Context, *env) error { panic("a\nbug") }

// A bug of onerun's ends it with 70 and one line, which asks for a report; the stack is
// for those who ask for it.
func TestBugIsOneLine(t *testing.T) {
	defer func(all []entry) { commands = all }(commands)
	commands = append(commands, entry{"buggy", "Be broken.", func() command { return &struct{ buggyless }{} }})
	for _, level := range []string{"info", "debug"} {
		var out, errs bytes.Buffer
		code := run([]string{"buggy", "--log-level", level}, &out, &errs, nil, nil)
		if code != exitInternal || out.Len() > 0 {
			t.Errorf("exit status %d, printed %q", code, out.String())
		}
		first, stack, _ := strings.Cut(errs.String(), "\n")
		if first != "onerun: internal error: a bug; please report this, with the command line" {
			t.Errorf("said %q", first)
		}
		if (stack != "") != (level == "debug") {
			t.Errorf("level %s: after the line came %q", level, stack)
		}
	}
}
