package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// file is one thing to execute.
type file struct {
	name, text string
	mode       os.FileMode
}

// write makes the file; nothing here forks while it is open for writing, or its execution would be ETXTBSY.
func (f file) write(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, f.name)
	if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, f.mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// program looks a command up and starts it, as a wrapper does, and says how that failed or what the job's code was.
func program(t *testing.T, name, path string) (int, error) {
	t.Helper()
	found, err := LookPath(name, path)
	if err == nil {
		var end End
		end, _, err = runJob(t, Command{Path: found, Env: os.Environ()})
		if err == nil {
			return end.ExitCode, nil
		}
	}
	var failed *StartError
	if !errors.As(err, &failed) {
		t.Fatalf("%q: %v is no StartError", name, err)
	}
	if strings.ContainsAny(err.Error(), "\n\r\x1b") {
		t.Errorf("%q: not one clean line: %q", name, err)
	}
	return failed.Code, err
}

func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []file{
		{"plain", "#!/bin/sh\n", 0o644},
		{"no interpreter", "#!/no/such/interpreter -x\n", 0o755},
		{"windows", "#!/bin/sh\r\nexit 0\r\n", 0o755},
		{"interpreter is a directory", "#!/etc\n", 0o755},
		{"interpreter not executable", "#! \t/etc/passwd\n", 0o755},
		{"binary", "\x7fELF\x02\x01\x01\x00\x00\x00\n", 0o755},
		{"no loader", elf("/no/such/loader"), 0o755},
		{"\x1b[31mred\n", "#!/bin/sh\n", 0o644},
	} {
		f.write(t, dir)
	}
	for link, target := range map[string]string{"dangling": "gone", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		code int
		text string
		is   error
	}{
		"":                             {127, "empty", nil},
		"no-such-command":              {127, `"no-such-command" is not in PATH="/no/where:` + dir + `"`, nil},
		dir + "/missing":               {127, "no such file", unix.ENOENT},
		dir + "/dangling":              {127, `symbolic link to "gone"`, unix.ENOENT},
		dir + "/loop":                  {127, "too many levels", unix.ELOOP},
		dir + "/plain/x":               {127, "not a directory", unix.ENOTDIR},
		"/" + strings.Repeat("x", 300): {127, "too long", unix.ENAMETOOLONG},
		strings.Repeat("x", 300):       {127, "is not in PATH", nil},
		dir:                            {126, "is a directory", unix.EISDIR},
		".":                            {126, "is a directory", unix.EISDIR},
		dir + "/plain":                 {126, "chmod +x", unix.EACCES},
		"plain":                        {126, "chmod +x", unix.EACCES},
		"dangling":                     {127, "is not in PATH", nil},
		dir + "/fifo":                  {126, "not a regular file", unix.EACCES},
		dir + "/no interpreter":        {126, `interpreter "/no/such/interpreter" is missing`, unix.ENOENT},
		"windows":                      {126, "Windows line ends", unix.ENOENT},
		"interpreter is a directory":   {126, `interpreter "/etc" can't be executed`, unix.EACCES},
		"interpreter not executable":   {126, `interpreter "/etc/passwd" can't be executed`, unix.EACCES},
		"binary":                       {126, "format", unix.ENOEXEC},
		"no loader":                    {126, "loader", unix.ENOENT},
		"\x1b[31mred\n":                {126, `\x1b[31mred\n`, unix.EACCES},
		"nul\x00":                      {126, `nul\x00`, unix.EINVAL},
		"./nul\x00":                    {126, `nul\x00`, unix.EINVAL},
	} {
		code, err := program(t, name, "/no/where:"+dir)
		if code != want.code || err == nil || !strings.Contains(err.Error(), want.text) || want.is != nil && !errors.Is(err, want.is) {
			t.Errorf("%q: got %d, %v, want %d: … %s …", name, code, err, want.code, want.text)
		}
	}
}

// elf is the least 64-bit program that names a loader; the machine is the one the test was built for.
func elf(loader string) string {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return ""
	}
	b := make([]byte, 64+2*56)
	copy(b, self[:24]) // magic number, class, byte order, type and machine
	b[16] = 2          // ET_EXEC
	le := func(at int, v uint64, n int) {
		for i := range n {
			b[at+i] = byte(v >> (8 * i))
		}
	}
	le(24, 0x400000, 8) // entry
	le(32, 64, 8)       // program headers
	le(52, 64, 2)
	le(54, 56, 2)
	le(56, 2, 2)
	interp, load := 64, 64+56
	le(interp, 3, 4) // PT_INTERP
	le(interp+8, uint64(len(b)), 8)
	le(interp+32, uint64(len(loader)+1), 8)
	le(load, 1, 4) // PT_LOAD
	le(load+4, 5, 4)
	le(load+16, 0x400000, 8)
	le(load+32, uint64(len(b)), 8)
	le(load+40, uint64(len(b)), 8)
	le(load+48, 0x1000, 8)
	return string(b) + loader + "\x00"
}

func TestScriptsAndSearch(t *testing.T) {
	dir, second := t.TempDir(), t.TempDir()
	file{"with", "#!/bin/sh\nexit 3\n", 0o755}.write(t, dir)
	file{"without", "exit 4\n", 0o755}.write(t, dir)
	file{"empty", "", 0o755}.write(t, dir)
	file{"-without", "exit 5\n", 0o755}.write(t, dir)
	file{"blank", "#! /bin/sh -e\nfalse\nexit 0\n", 0o755}.write(t, dir)
	file{"shadowed", "exit 6\n", 0o644}.write(t, dir)
	file{"shadowed", "exit 7\n", 0o755}.write(t, second)
	if err := os.Mkdir(filepath.Join(dir, "true"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, c := range []struct {
		name, path string
		want       int
	}{
		{"with", dir, 3},
		{dir + "/with", "/no/where", 3},
		{"./with", "", 3},
		{"with", ":/bin", 3},
		{"with", "/bin:", 3},
		{"with", "/bin::/usr/bin", 3},
		{"with", ".", 3},
		{"with", dir + "/", 3},
		{"without", dir, 4},
		{"./without", "", 4},
		{"-without", dir, 5},
		{"-without", ":", 5},
		{"empty", dir, 0},
		{"blank", dir, 1},
		{"shadowed", dir + ":" + second, 7},
		{"shadowed", dir, 126},
		{"true", dir + ":/bin:/usr/bin", 0},
		{"true", "", 0},
		{"with", "", 127},
		{"with", dir + "/with", 127},
	} {
		if code, err := program(t, c.name, c.path); code != c.want {
			t.Errorf("%q in %q: got %d, %v, want %d", c.name, c.path, code, err, c.want)
		}
	}
}

func TestScriptWithoutInterpreterLineGetsArguments(t *testing.T) {
	dir := t.TempDir()
	file{"-args", `printf '%s|' "$@"`, 0o755}.write(t, dir)
	for _, path := range []string{filepath.Join(dir, "-args"), "-args"} {
		_, out, err := runJob(t, Command{Path: path, Args: []string{"own name", "a b", "", "-c"}, Dir: dir})
		if out != "a b||-c|" || err != nil {
			t.Errorf("%q: got %q, %v", path, out, err)
		}
	}
}

func TestWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	file{"job", "#!/bin/sh\nexit 8\n", 0o755}.write(t, dir)
	file{"plain", "#!/bin/sh\n", 0o644}.write(t, dir)
	for _, c := range []struct {
		path, dir string
		code      int
		text      string
	}{
		{"./job", dir, 8, ""},
		{"job", dir, 8, ""},
		{"./plain", dir, 126, "chmod +x"},
		{"./gone", dir, 127, "no such file"},
		{"/bin/true", dir + "/gone", 126, "working directory"},
		{"/bin/true", dir + "/job", 126, "working directory"},
	} {
		end, _, err := runJob(t, Command{Path: c.path, Dir: c.dir})
		code := end.ExitCode
		var failed *StartError
		if errors.As(err, &failed) {
			code = failed.Code
		}
		if code != c.code || (c.text == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q in %q: got %d, %v", c.path, c.dir, code, err)
		}
	}
}

// The rights that count are those of execve(2), not those of the file's mode alone.
func TestNoexecFileSystem(t *testing.T) {
	requireRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOEXEC, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	path := file{"job", "#!/bin/sh\n", 0o755}.write(t, dir)
	if code, err := program(t, path, ""); code != 126 || !strings.Contains(err.Error(), "noexec") {
		t.Errorf("got %d, %v", code, err)
	}
}

// beWithoutRoom can't fork: in a pid namespace whose first process has ended no further one can start.
func beWithoutRoom() (int, error) {
	runtime.LockOSThread() // a namespace for children belongs to the thread
	if err := unix.Unshare(unix.CLONE_NEWPID); err != nil {
		return 1, err
	}
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, nil)
	if err != nil {
		return 1, err
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		return 1, err
	}
	_, err = Run(context.Background(), Command{Path: "/bin/true"})
	var failed *StartError
	if !errors.As(err, &failed) || !errors.Is(err, unix.ENOMEM) {
		return 1, err
	}
	return failed.Code, nil
}

func TestNoRoomForAProcess(t *testing.T) {
	requireRoot(t)
	if code := launch(t, helper("no room")).exitCode(); code != CodeNoFork {
		t.Errorf("got %d", code)
	}
}

func TestExplainLimits(t *testing.T) {
	for _, errno := range []syscall.Errno{unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE} {
		if e := explain("/bin/true", "", errno); e.Code != CodeNoFork || !errors.Is(e, errno) {
			t.Errorf("%v: got %d, %v", errno, e.Code, e)
		}
	}
	for _, errno := range []syscall.Errno{unix.E2BIG, unix.EPERM, unix.ETXTBSY, unix.EIO} {
		if e := explain("/bin/true", "", errno); e.Code != CodeNotExecutable || !errors.Is(e, errno) {
			t.Errorf("%v: got %d, %v", errno, e.Code, e)
		}
	}
}

func TestTooManyArguments(t *testing.T) {
	args := []string{"true", strings.Repeat("x", 1<<22)}
	_, err := Run(context.Background(), Command{Path: "/bin/true", Args: args})
	var failed *StartError
	if !errors.As(err, &failed) || failed.Code != CodeNotExecutable || !errors.Is(err, unix.E2BIG) || len(err.Error()) > 1000 {
		t.Errorf("got %.1000v", err)
	}
}
