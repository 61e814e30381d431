package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// start is what a command line of onerun's starts, be it of a process or of a crontab.
type start struct {
	command string // run, lock, …
	job     string // of run
	store   string // the URL that --store names
	config  string // the file that --config names
	lockDir string
	keyed   bool
}

// parseStart reads a command line of onerun's, without the program's own name.
func parseStart(args []string) (s start) {
	if len(args) == 0 {
		return s
	}
	s.command = args[0]
	e := &env{}
	switch args[0] {
	case "run":
		run := &runCmd{}
		if quickly(args[1:], e, run) {
			s.job, s.lockDir, s.store, s.config = run.Job, string(run.LockDir), string(e.Store), string(e.Config)
			s.keyed = run.Date != "" || run.Period != "" || run.Partition != ""
			return s
		}
	case "lock":
		lock := &lockCmd{}
		if quickly(args[1:], e, lock) {
			s.lockDir, s.store, s.config = string(lock.LockDir), string(e.Store), string(e.Config)
			return s
		}
	}
	return scanStart(args)
}

// scanStart is parseStart for what isn't plain, such as flags before the command: good
// enough to name the store.
func scanStart(args []string) (s start) {
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, value, joined := strings.Cut(args[i], "=")
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		switch name {
		case "--store":
			s.store = value
		case "--config":
			s.config = value
		case "--lock-dir":
			s.lockDir = value
		case "--date", "--period", "--partition":
			s.keyed = true
		case "run", "lock":
			if s.command == "" && i+1 < len(args) {
				s.command = name
				if name == "run" && !strings.HasPrefix(args[i+1], "-") {
					s.job = args[i+1]
				}
			}
		}
	}
	return s
}

// onerunProcess is a running onerun.
type onerunProcess struct {
	start
	pid, uid int
	cwd      string
	env      string // its ONERUN_STORE
	envFile  string // its ONERUN_CONFIG
}

// onerunProcesses lists the running onerun processes, as far as /proc shows them to this
// account, without this one and its parents'.
func onerunProcesses() (all []onerunProcess) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	ours, _ := os.Readlink("/proc/self/ns/mnt")
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || pid == os.Getppid() {
			continue
		}
		dir := "/proc/" + entry.Name()
		if ns, err := os.Readlink(dir + "/ns/mnt"); err != nil || ns != ours {
			continue // the paths it uses are others than ours of the same name
		}
		text, err := os.ReadFile(dir + "/cmdline")
		if err != nil || len(text) == 0 {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		if filepath.Base(args[0]) != "onerun" {
			continue
		}
		p := onerunProcess{start: parseStart(args[1:]), pid: pid}
		if st, err := os.Stat(dir); err == nil {
			if sys, ok := st.Sys().(*syscall.Stat_t); ok {
				p.uid = int(sys.Uid)
			}
		}
		p.cwd, _ = os.Readlink(dir + "/cwd") // of another account it isn't shown
		environ, _ := os.ReadFile(dir + "/environ")
		for v := range strings.SplitSeq(string(environ), "\x00") {
			if value, ok := strings.CutPrefix(v, "ONERUN_STORE="); ok {
				p.env = value
			}
			if value, ok := strings.CutPrefix(v, "ONERUN_CONFIG="); ok {
				p.envFile = value
			}
		}
		if p.command == "run" || p.command == "lock" {
			all = append(all, p)
		}
	}
	return all
}

// file is the database that a process uses, or "".
func (p onerunProcess) file(all []localAccount) string {
	url := p.store
	if url == "" {
		url = p.env
	}
	if url != "" {
		return storeFile(url, p.cwd)
	}
	if path := storeByConfig(cmp.Or(p.config, p.envFile), p.cwd); path != "" {
		return path
	}
	if a, ok := accountOf(all, p.uid, ""); ok {
		return usualStore(a)
	}
	return ""
}
