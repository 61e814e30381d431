package process

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// defaultPath is where execvp(3) of the GNU C library looks when there is no PATH.
const defaultPath = "/bin:/usr/bin"

// LookPath finds the program that name means, as execvp(3) and shells do: a name with a slash is the path itself, any other
// is looked for in the directories of pathEnv, where an empty element is the working directory and a file that may
// not be executed is passed over. pathEnv "" counts as not set.
//
// The error is a [StartError]: CodeNotFound when there is nothing of that name, CodeNotExecutable when what there
// is can't be executed.
func LookPath(name, pathEnv string) (string, error) {
	if name == "" {
		return "", &StartError{CodeNotFound, errors.New("no command: its name is empty")}
	}
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", explain(name, "", err)
		}
		return name, nil
	}
	if pathEnv == "" {
		pathEnv = defaultPath
	}
	var denied *StartError
	for dir := range strings.SplitSeq(pathEnv, ":") {
		if dir == "" {
			dir = "." // "./x" stays a path, where a bare "x" would be looked for again
		}
		path := strings.TrimSuffix(dir, "/") + "/" + name
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if e := explain(path, "", err); e.Code != CodeNotFound && denied == nil {
			denied = e
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &StartError{CodeNotFound, fmt.Errorf("command %q is not in PATH=%q; give its full path, or set PATH", name, pathEnv)}
}

// executable asks for the rights that execve(2) will ask for: those of the effective ids.
func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return unix.EISDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}

// explain turns what the kernel said about executing path (in dir, if not "") into the true reason: execve(2) gives ENOENT
// for a missing interpreter of a file that exists, and EACCES for six different things.
//
// Codes are those of POSIX shells: 127 where no file of that name can be reached (ENOENT, ENOTDIR, ELOOP,
// ENAMETOOLONG, as in dash), 126 for all that exists and can't be executed. An existing script whose interpreter is
// missing is 126, as in bash; other shells say 127, which would send people looking for the wrong file.
func explain(path, dir string, reason error) *StartError {
	switch {
	case errors.Is(reason, unix.EAGAIN), errors.Is(reason, unix.ENOMEM), errors.Is(reason, unix.EMFILE), errors.Is(reason, unix.ENFILE):
		return &StartError{CodeNoFork, fmt.Errorf("can't start %q: the system has no room for another process: %w; "+
			"see the limits on processes, memory and open files", path, reason)}
	}
	refuse := func(code int, err error, format string, args ...any) *StartError {
		return &StartError{code, &reasonError{fmt.Sprintf("can't start %q: ", path) + fmt.Sprintf(format, args...), err}}
	}
	if dir != "" {
		if err := unix.Access(dir+"/.", unix.X_OK); err != nil {
			return refuse(CodeNotExecutable, err, "its working directory %q: %v", dir, err)
		}
	}
	path = inDir(path, dir)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if target, err := os.Readlink(path); err == nil {
			return refuse(CodeNotFound, reason, "it is a symbolic link to %q, which does not exist", target)
		}
		return refuse(CodeNotFound, reason, "no such file")
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return refuse(CodeNotFound, reason, "no such file: %v", errors.Unwrap(err))
	case err != nil:
		return refuse(CodeNotExecutable, reason, "it can't be looked at: %v", errors.Unwrap(err))
	case info.IsDir():
		return refuse(CodeNotExecutable, reason, "it is a directory; name the program in it")
	case !info.Mode().IsRegular():
		return refuse(CodeNotExecutable, reason, "it is not a regular file (%v)", info.Mode())
	case errors.Is(reason, unix.ENOENT):
		return refuse(CodeNotExecutable, reason, "%s", interpreterMissing(path))
	case errors.Is(reason, unix.EACCES) && info.Mode()&0o111 == 0:
		return refuse(CodeNotExecutable, reason, "it is not executable (mode %v); chmod +x it, or name its interpreter before it", info.Mode().Perm())
	case errors.Is(reason, unix.EACCES) && mountedNoexec(path):
		return refuse(CodeNotExecutable, reason, "its file system is mounted noexec")
	case errors.Is(reason, unix.EACCES) && executable(path) == nil:
		return refuse(CodeNotExecutable, reason, "%s", interpreterRefused(path))
	case errors.Is(reason, unix.EACCES):
		return refuse(CodeNotExecutable, reason, "permission denied (mode %v)", info.Mode().Perm())
	case errors.Is(reason, unix.ENOEXEC):
		return refuse(CodeNotExecutable, reason, "this system can't execute its format; was it built for another kind of machine?")
	default:
		return refuse(CodeNotExecutable, reason, "%v", reason)
	}
}

// reasonError is an error in our own words that still answers errors.Is for the kernel's.
type reasonError struct {
	text  string
	cause error
}

func (e *reasonError) Error() string { return e.text }

func (e *reasonError) Unwrap() error { return e.cause }

func mountedNoexec(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0
}

func interpreterMissing(path string) string {
	name := interpreter(path)
	switch {
	case name == "":
		return "the loader that the program asks for is missing; was it built for another system?"
	case strings.HasSuffix(name, "\r"):
		return fmt.Sprintf("its interpreter %q is missing: the script has Windows line ends; convert it", name)
	}
	return fmt.Sprintf("its interpreter %q is missing", name)
}

func interpreterRefused(path string) string {
	if name := interpreter(path); name != "" {
		return fmt.Sprintf("its interpreter %q can't be executed", name)
	}
	return "permission denied, though its mode allows it; does a security module forbid it?"
}

// interpreter returns the program after "#!" in the first line of a script, or "" (execve(2)).
func interpreter(path string) string {
	line, ok := strings.CutPrefix(firstLine(path), "#!")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(strings.Trim(line, " \t"), " ")
	name, _, _ = strings.Cut(name, "\t")
	return name
}

// firstLine returns the first line of a file without its line feed, at most as much of it as the kernel looks at.
func firstLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, 256)
	n, _ := f.Read(buf)
	line, _, _ := strings.Cut(string(buf[:n]), "\n")
	return line
}
