package importer

import "strings"

// variable is one of the environment of a command.
type variable struct {
	name, value string
	line        int
}

// execution is how a command was executed.
type execution struct {
	env   []variable
	setup []string // commands of the shell that come before, each ended by ; or &&
	shell string   // which shell takes the line; "": /bin/sh
	line  string   // of the shell
	stdin string
	user  string // the account, if it is not that of the scheduler
	group string

	atHome bool // in that account's home
}

const defaultShell = "/bin/sh"

// settings are the keys of the job that execute it in the same way.
func (x execution) settings() setting {
	shell := x.shell
	if shell == "" || shell == "/usr/bin/sh" || shell == "sh" {
		shell = defaultShell
	}
	line := x.line
	var before strings.Builder
	if account(x.user) { // runuser leaves root's to it
		before.WriteString("HOME=~" + x.user + " USER=" + x.user + " LOGNAME=" + x.user + "; export HOME USER LOGNAME; ")
		if x.atHome {
			before.WriteString("cd 2>/dev/null || cd /; ") // nobody has none
		}
	}
	if len(x.env) > 0 {
		before.WriteString("export")
		for _, v := range x.env {
			before.WriteString(" " + v.name + "=" + single(v.value))
		}
		before.WriteString("; ")
	}
	for _, s := range x.setup {
		before.WriteString(s + " ")
	}
	switch {
	case x.stdin != "":
		// A shell of its own reads it, whatever the line is made of.
		line = "printf '%s\\n'"
		for text := range strings.SplitSeq(strings.TrimSuffix(x.stdin, "\n"), "\n") {
			line += " " + single(text)
		}
		line += " | " + single(shell) + " -c " + single(x.line)
		shell = defaultShell
	case before.Len() > 0 && shell != defaultShell:
		line = "exec " + single(shell) + " -c " + single(x.line)
		shell = defaultShell
	}
	line = before.String() + line
	switch {
	case x.user != "":
		return words("command", append(asUser(x.user, x.group), shell, "-c", line)...)
	case shell != defaultShell:
		return words("command", shell, "-c", line)
	}
	return word("shell", line)
}

// account reports whether a shell knows ~NAME: not of a number, nor of a name that would have to be quoted.
func account(name string) bool {
	return name != "" && name[0] > '9' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// asUser is what executes a command as another account.
func asUser(user, group string) []string {
	args := []string{"runuser", "-u", user}
	if group != "" {
		args = append(args, "-g", group)
	}
	return append(args, "--")
}

// single quotes a word for a shell.
func single(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-+,:@%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// setVariable replaces one of the same name.
func setVariable(env []variable, v variable) []variable {
	for i := range env {
		if env[i].name == v.name {
			kept := append([]variable(nil), env...)
			kept[i] = v
			return kept
		}
	}
	return append(env[:len(env):len(env)], v)
}
