package cli

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// completed is what a shell offers, by the name of what it is about: shells differ in how
// much of the word they repeat.
func completed(out string) []string {
	var words []string
	for word := range strings.FieldsSeq(out) {
		word = strings.TrimSuffix(word, "/")
		words = append(words, word[strings.LastIndexAny(word, "=:/")+1:])
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// TestCompletion asks the shells themselves.
func TestCompletion(t *testing.T) {
	b := newBed(t)
	for _, args := range [][]string{
		{"run", "settle", "--date", "2026-09-15", "--", "true"},
		{"run", "settle", "--date", "2026-09-16", "--", "true"},
		{"run", "settle-late", "--partition", "p", "--", "true"},
		{"run", "fetch", "--", "true"},
		{"--namespace", "other", "run", "elsewhere", "--", "true"},
		{"pause", "set-aside", "--reason", "why"},
	} {
		b.run(args...).exits(t, 0)
	}
	if err := os.WriteFile(b.path("cards.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"carts", "programs"} {
		if err := os.Mkdir(b.path(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"helper-one", "helper-two"} {
		if err := os.WriteFile(b.path("programs/"+name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shells := map[string]func(t *testing.T, script string, words []string) *exec.Cmd{
		"bash": func(_ *testing.T, script string, words []string) *exec.Cmd {
			// As readline breaks them, at = and :.
			parts := regexp.MustCompile(`[=:@]+|[^=:@]+|^$`)
			args := []string{here(t, "testdata/complete/bash.sh"), script}
			for _, w := range words {
				args = append(args, parts.FindAllString(w, -1)...)
			}
			return exec.Command("bash", args...)
		},
		"zsh": func(t *testing.T, script string, words []string) *exec.Cmd {
			dir := t.TempDir()
			if err := os.Link(script, filepath.Join(dir, "_onerun")); err != nil {
				t.Fatal(err)
			}
			return exec.Command("zsh", "-f", here(t, "testdata/complete/zsh.zsh"), dir, strings.Join(words, " "))
		},
		"fish": func(t *testing.T, script string, words []string) *exec.Cmd {
			return exec.Command("fish", "--no-config", here(t, "testdata/complete/fish.fish"), script, strings.Join(words, " "))
		},
	}
	for shell, ask := range shells {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			script := filepath.Join(t.TempDir(), "onerun."+shell)
			if err := os.WriteFile(script, []byte(b.run("completion", shell).exits(t, 0).out), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				line string
				want string
			}{
				{"res", "resolve resume"},
				{"run --on-", "--on-crash"},
				{"run --on-crash ", "auto manual"},
				{"run --on-crash=", "auto manual"},
				{"run settle --scope=k", "key"},
				{"--log-format json --log-level d", "debug"},
				{"run --log-file car", "cards.txt carts"},
				{"run --calendar=car", "cards.txt carts"},
				{"lock --lock-dir car", "carts"},
				{"lock --lock-dir=car", "carts"},
				{"run set", "set-aside settle settle-late"},
				{"run -w 5 -n fe", "fetch"},
				{"run --namespace=other ", "elsewhere"},
				{"--namespace other run ", "elsewhere"},
				{"show settle:2026-09-1", "2026-09-15 2026-09-16"},
				{"show settle-", "p settle-late"},
				{"resolve --as failed --reason why settle:2026-09-15", "2026-09-15"},
				{"run settle -- helper-", "helper-one helper-two"},
				{"run settle helper-", "helper-one helper-two"},
				{"lock -nE 3 settle helper-t", "helper-two"},
				{"run settle -- helper-one car", "cards.txt carts"},
				{"run settle --on-crash auto helper-one --o", ""},
				{"completion ", "bash fish zsh"},
				{"man unl", "unlock"},
				{"nope ", ""},
				{"show nope:", ""},
			} {
				words := append([]string{"onerun"}, strings.Split(c.line, " ")...)
				cmd := ask(t, script, words)
				cmd.Dir = b.dir
				cmd.Env = append(b.command().Env, "PATH="+bin+":"+b.path("programs")+":/usr/local/bin:/usr/bin:/bin", "HOME="+t.TempDir(), "TERM=xterm")
				r := outcome(cmd)
				if got := strings.Join(completed(r.out), " "); got != c.want || r.err != "" {
					t.Errorf("%q completes to %q, want %q; on standard error %q", c.line, got, c.want, r.err)
				}
			}
		})
	}
}

// here is the path of a file of this package.
func here(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCompletionTyped: on a terminal, Tab puts into the line what then is executed.
func TestCompletionTyped(t *testing.T) {
	b := newBed(t)
	b.run("run", "settle", "--date", "2026-09-15", "--", "true").exits(t, 0)
	rc := "PS1=\nsource <(onerun completion bash)\nPROMPT_COMMAND='echo x >>ready'\n"
	if err := os.WriteFile(b.path("rc"), []byte(rc), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := b.command()
	cmd.Path, cmd.Args = "/usr/bin/script", []string{"script", "-qec", "bash --noprofile --rcfile rc -i", "/dev/null"}
	cmd.Env = append(cmd.Env, "TERM=dumb", "HOME="+b.dir)
	p := launch(t, cmd)
	typed := func(prompts int, line string) {
		t.Helper()
		if !eventually(func() bool {
			text, _ := os.ReadFile(b.path("ready"))
			return strings.Count(string(text), "x") == prompts
		}) {
			t.Fatalf("there is no prompt for %q", line)
		}
		if _, err := io.WriteString(p.in, line); err != nil {
			t.Fatal(err)
		}
	}
	typed(1, "onerun resol\t--as=sk\t --rea\tdone settle:2026-0\t\n")
	typed(2, "onerun run --on-crash=ma\tother -- tou\t it-ran\n")
	typed(3, "exit\n")
	p.wait()
	if !exists(b.path("it-ran")) {
		t.Error("the completed command was not executed")
	}
	if got := b.object(t, "show", "other"); got["job"] != "other" {
		t.Errorf("show: %v", got)
	}
}

// TestCompleteAll: every flag of every command is offered, and every word that it may be.
func TestCompleteAll(t *testing.T) {
	k, _ := model(&env{out: io.Discard, err: io.Discard}, "")
	offered := func(words ...string) []string {
		var got []string
		for _, c := range answerTo(context.Background(), append([]string{"onerun"}, words...)).words {
			got = append(got, c.word)
		}
		return got
	}
	for _, n := range k.Model.Children {
		if !slices.Contains(offered(""), n.Name) {
			t.Errorf("%s is not offered", n.Name)
		}
		for _, f := range append(slices.Clone(k.Model.Flags), n.Flags...) {
			if slices.Contains(offered(n.Name, "-"), "--"+f.Name) == f.Hidden {
				t.Errorf("%s --%s: hidden is %v, but it is offered or not all the same", n.Name, f.Name, f.Hidden)
			}
			if f.Enum != "" && !slices.Equal(offered(n.Name, "--"+f.Name, ""), f.EnumSlice()) {
				t.Errorf("%s --%s: offered are %q", n.Name, f.Name, offered(n.Name, "--"+f.Name, ""))
			}
			switch {
			case f.IsBool():
				if !slices.Contains(offered(n.Name, "--"+f.Name, "-"), "--help") {
					t.Errorf("%s --%s: no flags are offered after it", n.Name, f.Name)
				}
			case f.Enum == "":
				continues(t, n, f)
			}
		}
	}
}

// continues says that a flag takes one word for its value, and no more.
func continues(t *testing.T, n *kong.Node, f *kong.Flag) {
	t.Helper()
	ask := func(words ...string) answer {
		return answerTo(context.Background(), append([]string{"onerun", n.Name}, words...))
	}
	for _, words := range [][]string{{"--" + f.Name, "1", "--"}, {"--" + f.Name + "=1", "--"}} {
		if len(ask(words...).words) == 0 {
			t.Errorf("%s %q: no flags are offered", n.Name, words)
		}
	}
	if got := ask("--"+f.Name, "--"); len(got.words) > 0 {
		t.Errorf("%s --%s: flags are offered in place of its value", n.Name, f.Name)
	}
}

// TestCompletionIsSilent: what can't be known is not completed; nothing is said of it,
// and no store is made.
func TestCompletionIsSilent(t *testing.T) {
	b := newBed(t)
	if err := os.WriteFile(b.path("broken.db"), []byte("this is no database, and never was one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path("empty.db"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	was := exists(shared)
	for _, setting := range [][]string{
		{"ONERUN_STORE=sqlite:" + b.path("store")},
		{"ONERUN_STORE=sqlite:" + b.path("missing/onerun.db")},
		{"ONERUN_STORE=sqlite:" + b.path("broken.db")},
		{"ONERUN_STORE=sqlite:" + b.path("empty.db")},
		{"ONERUN_STORE=@" + b.path("missing")},
		{"ONERUN_STORE=postgres://localhost:1/nothing"},
		{"ONERUN_STORE=sqlite:"},
		{"ONERUN_STORE=nonsense"},
		{"ONERUN_RUN_ID=inside"},
		{"KUBERNETES_SERVICE_HOST=10.0.0.1"},
		{"ONERUN_CONFIG=" + b.path("missing.yaml")},
		nil, // the embedded one
	} {
		b.env = setting
		for _, line := range [][]string{{"show", ""}, {"run", "set"}, {"--namespace", "a/b", "show", "settle:"}, {"run", "--store", "nonsense", ""}} {
			r := b.run(append([]string{"completion", "bash", "--", "onerun"}, line...)...).exits(t, 0)
			if r.err != "" || setting != nil && r.out != "words\n" {
				t.Errorf("%q, %q: it says %q and %q", setting, line, r.out, r.err)
			}
		}
	}
	var found []string
	for _, dir := range []string{b.dir, b.path("store")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			found = append(found, e.Name())
		}
	}
	if got := strings.Join(found, " "); got != "broken.db empty.db store" {
		t.Errorf("it made something: %s", got)
	}
	if exists(shared) != was {
		t.Errorf("it made %s", shared)
	}
	if st, err := os.Stat(b.path("empty.db")); err != nil || st.Size() != 0 {
		t.Errorf("it made a store of an empty file: %v, %v", st.Size(), err)
	}
}
