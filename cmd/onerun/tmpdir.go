package main

import (
	"os"
	"syscall"
)

// makeTmpDir makes the job's own directory for temporary files. Without one the job runs
// all the same: a machine whose /tmp is full or missing has other things to worry about,
// and the job may not want any.
func (x *execution) makeTmpDir() {
	if dir, err := os.MkdirTemp("", "onerun-"); err == nil {
		x.tmpDir = dir
	}
}

// removeTmpDir takes it away, with what the job left in it. What is another account's
// stays.
func (x *execution) removeTmpDir() {
	if x.tmpDir == "" {
		return
	}
	if syscall.Rmdir(x.tmpDir) != nil { // mostly it is empty
		_ = os.RemoveAll(x.tmpDir)
	}
	x.tmpDir = ""
}
