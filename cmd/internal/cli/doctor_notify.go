package cli

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/internal/notify"
)

// layers are what the configuration file says of the jobs that are asked for, by where it says so.
func (d *doctor) layers() map[string]map[string]config.Value {
	layers := map[string]map[string]config.Value{"defaults": d.env.file.Defaults}
	for job, values := range d.env.file.Jobs {
		if d.job == "" || d.job == job {
			layers["job "+job] = values
		}
	}
	return layers
}

// notifications looks whether those whom the configuration file names can be told from here.
func (d *doctor) notifications() {
	const check = "notifications"
	if d.env.file == nil {
		return
	}
	layers, alerts := d.layers(), d.env.file.Top["alerts"].Table
	for _, name := range slices.Sorted(maps.Keys(alerts)) {
		d.address(check, "alert "+name, address(d.env.fileOf(alerts[name]["url"].Text)))
	}
	named := len(alerts) > 0
	for _, in := range slices.Sorted(maps.Keys(layers)) {
		for _, text := range layers[in]["notify"].List {
			named = true
			if !isAlert(text) {
				d.address(check, in, address(d.env.fileOf(text)))
			}
		}
	}
	if named {
		d.fine(check, "every address of the configuration file can be used from here")
	}
}

// textfiles looks whether the directories for node_exporter are there, and may be written to from here.
func (d *doctor) textfiles() {
	const check = "textfile-directory"
	if d.env.file == nil {
		return
	}
	layers, named := d.layers(), false
	for _, in := range slices.Sorted(maps.Keys(layers)) {
		v, ok := layers[in]["textfile_dir"]
		if !ok || v.Text == "" {
			continue
		}
		named = true
		dir := d.env.fromFile(v.Text)
		fd, err := openFile(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err == nil {
			_ = unix.Close(fd)
			if err = unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
				err = &fs.PathError{Op: "write to", Path: dir, Err: err}
			}
		}
		if err != nil {
			d.add(check, onerun.FindingWarning, in+": "+err.Error()+": the jobs run, and the monitor is told nothing of them", textfileRemedy(err))
		}
	}
	if named {
		d.fine(check, "every textfile_dir of the configuration file can be written to from here")
	}
}

func (d *doctor) address(check, in string, a address) {
	l, err := notifyFlags{Notify: addresses{a}}.read()
	if err != nil {
		d.add(check, onerun.FindingWarning, fmt.Sprintf("%s: %s: every start is refused with 78", in, err), "put it right, or let this account read it")
		return
	}
	for _, t := range l.targets {
		if t.NeedsFull() && fullProgram() == "" {
			d.add(check, onerun.FindingWarning, fmt.Sprintf("%s: nothing is sent to %s: the program %s is not beside onerun", in, t, notify.Companion), "put both of what make builds into one directory")
		}
	}
}
