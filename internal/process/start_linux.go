package process

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// shell runs the scripts that have no "#!" line.
const shell = "/bin/sh"

// start forks and executes the job as leader of a new process group, with the descriptors files as its 0, 1 and 2, and as
// the terminal's foreground group if it is to have it. The error is a [StartError].
//
// It is ForkExec and not os.StartProcess, which forks a child of its own at its first use to try what the kernel can do.
//
// PDEATHSIG makes the kernel kill the job's first process when the thread that forked it ends (prctl(2)), so the caller
// must be locked to its thread until that process is reaped. It doesn't reach further processes of the job, and the
// kernel drops it when the job executes a setuid program.
func start(c Command, files []uintptr, tty *terminal) (pid int, err error) {
	args := c.Args
	if len(args) == 0 {
		args = []string{c.Path}
	}
	attr := &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	if tty.lends(files) {
		attr.Sys.Foreground, attr.Sys.Ctty = true, tty.fd
	}
	pid, err = syscall.ForkExec(c.Path, args, attr)
	if attr.Sys.Foreground && (errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EIO)) {
		// the terminal went away since we looked: the job can do without
		tty.given, attr.Sys.Foreground = false, false
		pid, err = syscall.ForkExec(c.Path, args, attr)
	}
	if errors.Is(err, unix.ENOEXEC) && isText(inDir(c.Path, c.Dir)) {
		// Neither a binary nor a script with "#!": cron, shells, env(1) and flock(1), which use execvp(3), all give it to
		// the shell, so a script that ran there runs here.
		pid, err = syscall.ForkExec(shell, append([]string{shell, asOperand(c.Path)}, args[1:]...), attr)
	}
	if err != nil {
		return 0, explain(c.Path, c.Dir, err)
	}
	return pid, nil
}

// isText guesses as bash does: a binary has a NUL in its first line. A file that can't be read is none either, since
// the shell could not read it.
func isText(path string) bool {
	return unix.Access(path, unix.R_OK) == nil && !strings.Contains(firstLine(path), "\x00")
}

func inDir(path, dir string) string {
	if dir == "" || strings.HasPrefix(path, "/") {
		return path
	}
	return dir + "/" + path
}

// asOperand keeps a path from being taken for an option.
func asOperand(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}
