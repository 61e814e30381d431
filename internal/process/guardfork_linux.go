package process

import (
	"os"
	"syscall"
)

// forkGuard starts a guard: in a session of its own, so that no terminal and no signal to
// a group reaches it, with nothing of the job's input and output, which it would keep
// open, and in a directory that keeps no file system busy.
func forkGuard(argv []string, pipe *os.File, renewals int, lock []int) (pid int, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = null.Close() }()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd(), guardPipe: pipe.Fd(), guardRenewals: null.Fd()}
	if renewals >= 0 {
		files[guardRenewals] = uintptr(renewals)
	}
	for _, fd := range lock {
		files = append(files, uintptr(fd))
	}
	return syscall.ForkExec(argv[0], argv[1:], &syscall.ProcAttr{
		Dir: "/", Env: guardEnv(), Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// guardEnv is what the guard keeps of the environment: nothing of the job's mark, by which
// it would be taken for a part of the job. It may have to tell people how the job ended: that
// takes the way to the network, and what a command expects of an account.
func guardEnv() []string {
	var env []string
	for _, name := range []string{
		"PATH", "TZ", "LANG", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "MAILRC", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
	} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
