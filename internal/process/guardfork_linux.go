package process

import (
	"os"
	"syscall"
)

// forkGuard starts a guard: in a session of its own, so that no terminal and no signal to
// a group reaches it, with nothing of the job's input and output, which it would keep
// open, and in a directory that keeps no file system busy.
func forkGuard(argv []string, pipe *os.File, lock []int) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd(), pipe.Fd()}
	for _, fd := range lock {
		files = append(files, uintptr(fd))
	}
	return syscall.ForkExec(argv[0], argv[1:], &syscall.ProcAttr{
		Dir: "/", Env: guardEnv(), Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// guardEnv is what the guard keeps of the environment: nothing of the job's mark, by which
// it would be taken for a part of the job.
func guardEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "TZ", "LANG"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
