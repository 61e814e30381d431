package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Load reads and parses the file. It takes a regular file, a pipe (so that a shell's <(…) works; it waits for the other
// end) and the null device, which is an empty file. An error of the file system is an [fs.PathError]; what the file
// holds is refused with an [Errors].
func Load(path string, s Schema) (*File, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text, s)
}

// Read is the first half of Load: the text of the file.
func Read(path string) ([]byte, error) {
	// Looked at before it is opened: opening a device can do something.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return nil, &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	case mode.IsRegular(), mode.Type() == fs.ModeNamedPipe, isNull(info):
	default:
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: neither a file nor a pipe", fs.ErrInvalid)}
	}
	return read(path)
}

// read stops one byte after the most that Parse takes.
func read(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

func isNull(info fs.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(null, info)
}
