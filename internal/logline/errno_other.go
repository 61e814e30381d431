//go:build !unix

package logline

import "syscall"

// errnoName has no names here.
func errnoName(syscall.Errno) string { return "" }
