// Package importer reads what other schedulers go by (crontabs, systemd timers, CronJobs of Kubernetes) and writes
// onerun's configuration file for it. What it can't translate it says, with the line: nothing of the input is left out in
// silence. It knows nothing of flags and stores, and executes nothing.
package importer

import (
	"fmt"
	"io/fs"
	"time"
)

// Options say what the files themselves don't.
type Options struct {
	// Zone is that of schedules that name none; "" for what is usual for the format: the host's, of Kubernetes UTC.
	Zone string
	// Table says whether the lines of a crontab name an account.
	Table Table
	// Files is the directory of a systemd timer, where its service is looked for; nil: there is none.
	Files fs.FS
	// Now is from when on the next fires of each job are shown; zero: they are not.
	Now time.Time
}

// Table is the kind of a crontab.
type Table int

// The kinds.
const (
	TableAuto   Table = iota // by the file's name and what is in it
	TableUser                // of one account: after the time comes the command
	TableSystem              // the account comes before the command, as in /etc/crontab
)

// Result is a configuration file, and what has to be said about it.
type Result struct {
	YAML    []byte
	Reports []Report // in the order of the lines, one file after the other

	jobs []job // for the tests: what the file must be read as
}

// Lost reports whether there is anything that could not be translated.
func (r Result) Lost() bool {
	for _, one := range r.Reports {
		if one.Lost {
			return true
		}
	}
	return false
}

// Report is something that somebody has to look at.
type Report struct {
	File string
	Line int    // from 1; 0 when it is about the whole file
	Text string // on one line
	Lost bool   // it is not in the configuration; else it is, and may mean something else than what is expected
}

// String is FILE:LINE: TEXT.
func (r Report) String() string {
	if r.Line == 0 {
		return r.File + ": " + r.Text
	}
	return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Text)
}

// MaxSize is how many bytes an input may have. It is far from what anybody writes by hand, and lets a cluster's CronJobs in.
const MaxSize = 2 << 20

// MaxArg is how many bytes one argument of a command may have, as a shell line is: the kernel takes 128 KiB with the NUL at
// its end (MAX_ARG_STRLEN), whatever there is room for in all.
const MaxArg = 128<<10 - 1

// The configuration file has bounds of its own (internal/config), which what is written here must not pass.
const (
	maxJobs    = 1500
	maxOutput  = 800 << 10 // bytes
	maxParts   = 90_000
	maxReports = 1000
	maxNotes   = 60  // comments of one job
	maxShown   = 240 // characters of a line of the input in a comment
)
