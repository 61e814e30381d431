package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// notedGroup is the process group that a lock file notes for the job of an onerun, 0 for
// none yet.
func notedGroup(locks string, pid int) int {
	names, _ := filepath.Glob(filepath.Join(locks, "*")) // the pattern is sound
	for _, name := range names {
		text, _ := os.ReadFile(name)
		line, _, _ := strings.Cut(string(text), "\n")
		var note struct {
			State      string
			PID, Group int
		}
		if json.Unmarshal([]byte(line), &note) == nil && note.PID == pid && note.State == "running" {
			return note.Group
		}
	}
	return 0
}

// members counts the running processes of a group: see proc_pid_stat(5).
func members(group int) (n int) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, _ := os.ReadFile(name) // gone meanwhile: it runs no more
		f := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(f) > 2 && f[2] == strconv.Itoa(group) && f[0] != "Z" && f[0] != "X" {
			n++
		}
	}
	return n
}
