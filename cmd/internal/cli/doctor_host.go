package cli

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/storeurl"
)

// variables looks whether this shell alone knows which store it is.
func (d *doctor) variables() {
	const check = "store-choice"
	name := "ONERUN_STORE"
	if d.env.Store == "" && os.Getenv(name) == "" && d.env.Config == "" && os.Getenv("ONERUN_CONFIG") != "" && !d.place.usual {
		name = "ONERUN_CONFIG"
	} else if d.place.source != name && (d.env.Store != "" || os.Getenv(name) == "") {
		d.fine(check, "the store is the same without this shell's environment")
		return
	}
	const remedy = "name the store in a configuration file, or with --store in every crontab line"
	for _, c := range d.crons {
		if c.file(d.accounts) != d.path && c.url == "" && (d.job == "" || d.job == c.job) {
			d.add(check, onerun.FindingDanger, fmt.Sprintf("%s of this shell chose the store, and %s (account %s, %s) names none, so it uses another",
				name, c.where, c.account, strings.TrimSpace(c.command+" "+c.job)), remedy)
		}
	}
	if !slices.ContainsFunc(d.findings, func(f onerun.Finding) bool { return f.Check == check }) {
		d.add(check, onerun.FindingWarning, name+" of this shell chose the store; cron, systemd and other accounts' shells don't have it", remedy)
	}
}

// configuration looks at the file that gives defaults to flags: who may change it, and what
// stands in it that this version can't act on.
func (d *doctor) configuration() {
	const check = "configuration"
	file := d.env.file
	if file == nil {
		return
	}
	if st, err := os.Stat(file.Path); err == nil && st.Mode().Perm()&0o022 != 0 {
		d.add(check, onerun.FindingDanger, fmt.Sprintf("others may write in %s (mode %04o), and so choose the store and the commands of jobs", file.Path, st.Mode().Perm()), "chmod go-w "+file.Path)
	} else if err == nil && st.Mode().Perm()&0o044 != 0 && storeurl.Secret(file.Top["store"].Text) {
		d.add(check, onerun.FindingWarning, file.Path+" holds a password and others may read it", `put the URL into a file of its own, and write store: "@FILE"`)
	}
	for _, note := range file.Later {
		if d.job == "" || note.In != "job "+d.job && !strings.HasPrefix(note.In, "job ") || note.In == "job "+d.job {
			d.add(check, onerun.FindingWarning, note.String(), "this version acts on none of it: keep your crontab or timer")
		}
	}
	d.fine(check, file.Path+" can be read, is strict, and nobody else may write in it")
}

// jobsDirectory looks whether a job works in the directory of the lock files, where it
// may clean up.
func (d *doctor) jobsDirectory() {
	const check = "lock-directory"
	for _, p := range d.procs {
		dir := d.lockDir
		if p.lockDir != "" {
			dir = p.lockDir
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(p.cwd, dir)
			}
		} else if !sameFile(p.file(d.accounts), d.path) {
			continue
		}
		if p.cwd != "" && sameFile(dir, p.cwd) && (d.job == "" || d.job == p.job) {
			d.add(check, onerun.FindingDanger, fmt.Sprintf("%s is the working directory of a job (process %d, %s): what it cleans up are the locks", dir, p.pid, p.job),
				"give the locks a directory of their own, or leave --lock-dir out")
		}
	}
}

// container looks whether this host is one of several that only look like one.
func (d *doctor) container() {
	if !d.embedded() {
		return
	}
	if sign := containerSign(); sign != "" {
		d.add("container", onerun.FindingWarning, "this looks like a container ("+sign+"), and the embedded store excludes only those who share its files",
			"mount one directory of the host into every container that starts these jobs, or use a store for many machines")
		return
	}
	d.add("container", onerun.FindingOK, "this doesn't look like a container", "")
}

// embedded reports whether the store is the one for one machine.
func (d *doctor) embedded() bool { return strings.HasPrefix(d.place.url, "sqlite:") }

// containerSign is what tells that this is a container, or "".
func containerSign() string {
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		return "KUBERNETES_SERVICE_HOST is set"
	}
	for _, file := range []string{"/var/run/secrets/kubernetes.io", "/.dockerenv", "/run/.containerenv"} {
		if exists(file) {
			return file + " is there"
		}
	}
	environ, _ := os.ReadFile("/proc/1/environ")
	for v := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.HasPrefix(v, []byte("container=")) {
			return string(v)
		}
	}
	groups, _ := os.ReadFile("/proc/1/cgroup")
	for _, word := range []string{"kubepods", "docker", "containerd", "lxc"} {
		if bytes.Contains(groups, []byte(word)) {
			return "/proc/1/cgroup names " + word
		}
	}
	return ""
}

// binaries looks for two programs of the same name.
func (d *doctor) binaries() {
	const check = "program"
	var paths []string
	look := func(path string) {
		if file, err := filepath.EvalSymlinks(path); err == nil && executable(file) && !slices.Contains(paths, file) {
			paths = append(paths, file)
		}
	}
	if own, err := typedProgram(); err == nil {
		look(own)
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if dir != "" {
			look(filepath.Join(dir, "onerun"))
		}
	}
	for _, path := range paths[min(1, len(paths)):] {
		if sumOf(path) != sumOf(paths[0]) {
			d.add(check, onerun.FindingWarning, fmt.Sprintf("%s is another program than %s, and both are found as onerun", path, paths[0]), "remove the older one: onerun version")
		}
	}
	d.fine(check, "one program: "+some(paths))
}

func executable(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}

// sumOf is a checksum of a file, or "".
func sumOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return string(h.Sum(nil))
}
