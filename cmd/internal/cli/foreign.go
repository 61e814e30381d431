package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/config"
)

// foreign reads a file that another account may have named, in a crontab, a service, or the command line of a process. It
// takes a plain file of a sensible size and nothing else: a pipe would make us wait, a device fill the memory, or do
// something because it is opened. So it looks at what the path leads to before it opens that, and not the path again.
func foreign(path string) (text []byte, err error) {
	at, err := openFile(unix.AT_FDCWD, path, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(at) }()
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > config.MaxSize {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrInvalid}
	}
	f, err := os.Open("/proc/self/fd/" + strconv.Itoa(at))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, config.MaxSize)) // it may grow meanwhile, and the kernel's own files tell no size
}

// named reads a small file that this start's own settings name, as @FILE: a pipe too, as a shell's <(…) is one, but no device,
// which may never end.
func named(path string) ([]byte, error) {
	text, err := config.Read(path)
	if err == nil && len(text) > config.MaxSize {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d KiB", config.MaxSize>>10)}
	}
	return text, err
}
