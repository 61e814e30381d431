//go:build unix

package logline

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// errnoName is ENOENT and the like; "" for a number that has no name.
func errnoName(e syscall.Errno) string { return unix.ErrnoName(e) }
