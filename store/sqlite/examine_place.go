package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// cleaned are directories that the system empties by itself: at every boot, or of what is
// some days old (systemd-tmpfiles(8), tmpreaper(8)).
var cleaned = []string{"/tmp", "/var/tmp", "/dev/shm"}

// made are names of directories that tools make, and remove, as they like.
var made = []string{"node_modules", ".cache", "build", "dist", "target", "__pycache__"}

// repositories are the directories that version control keeps at the top of its trees.
var repositories = []string{".git", ".hg", ".svn", ".jj"}

// overlay is the f_type of overlayfs (linux/magic.h), which x/sys names differently on
// each platform.
const overlay = 0x794c7630

// places looks at where the store is.
func (x *examination) places() {
	const elsewhere = "move the store to a directory like /var/lib/onerun while no job runs, and name that one everywhere"
	dirs := x.directories()
	for i, dir := range dirs {
		what := "the store's directory "
		if i == 1 {
			what = "the lock directory "
		}
		if i == 1 && within(dir, dirs[0]) {
			what = "" // it is where the first one is; what is said of that goes for it
		}
		for _, c := range cleaned {
			if what != "" && within(dir, c) {
				x.add("temporary-place", onerun.FindingDanger, what+dir+" is below "+c+", which the system cleans by itself", elsewhere)
			}
		}
		x.kindOfFS(dir, what, i == 1)
		x.surroundings(dir, what, elsewhere)
	}
	x.fine("temporary-place", dirs[0]+" is not one that the system cleans by itself")
	x.fine("file-system", "local and lasting")
	x.fine("surroundings", "in no version-controlled tree, and no tool's own directory")
}

// kindOfFS looks at a file system; what is empty for a lock directory inside the store's,
// of which only what differs is said.
func (x *examination) kindOfFS(dir, what string, locks bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return // it isn't there yet, or access says why it can't be seen
	}
	if what == "" {
		var parent unix.Statfs_t
		if unix.Statfs(filepath.Dir(dir), &parent) == nil && parent.Fsid == st.Fsid && parent.Type == st.Type {
			return
		}
		what = "the lock directory "
	}
	if x.s.options.fsType != nil {
		st.Type = x.s.options.fsType(dir)
	}
	if name, network := filelock.Network(st.Type); network {
		x.add("file-system", onerun.FindingDanger, what+dir+" is on a network file system ("+name+"), where locks hold on each machine by itself, or not at all",
			"choose a local directory, or a store for many machines")
	}
	switch uint32(st.Type) { // some kernels sign-extend it
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		if locks {
			x.add("file-system", onerun.FindingWarning, what+dir+" is in memory (tmpfs): an end that waits to be delivered is lost at the next boot",
				"choose a directory on a disk with --lock-dir, for every start alike")
			break
		}
		x.add("file-system", onerun.FindingDanger, what+dir+" is in memory (tmpfs): which keys have run is lost at the next boot, and they run again",
			"move the store to a directory on a disk")
	case overlay:
		x.add("file-system", onerun.FindingWarning, what+dir+" is in a container's own layer (overlayfs): it is lost with the container, and other containers have another",
			"mount a directory of the host there, or use a store for many machines")
	}
	if st.Flags&unix.ST_RDONLY != 0 {
		x.add("file-system", onerun.FindingDanger, what+dir+" is on a file system that is read-only: no job can start", "mount it for writing, or name another store")
	}
}

// surroundings looks for what others may do with the directories above one.
func (x *examination) surroundings(dir, what, elsewhere string) {
	if what == "" {
		what = "the lock directory "
	}
	for above := dir; ; above = filepath.Dir(above) {
		for _, r := range repositories {
			if _, err := os.Lstat(filepath.Join(above, r)); err == nil {
				x.once("surroundings", onerun.FindingWarning, fmt.Sprintf("%s%s is in the tree of a repository (%s), where it can be cleaned, reset or committed", what, dir, filepath.Join(above, r)), elsewhere)
			}
		}
		if slices.Contains(made, filepath.Base(above)) {
			x.once("surroundings", onerun.FindingWarning, fmt.Sprintf("%s%s is in %s, which a tool may remove and make anew", what, dir, above), elsewhere)
		}
		var st unix.Stat_t
		if above != dir && unix.Stat(above, &st) == nil && st.Mode&0o002 != 0 && st.Mode&unix.S_ISVTX == 0 {
			x.once("permissions", onerun.FindingDanger, fmt.Sprintf("every account can write in %s, and so put another directory in the place of %s", above, dir), "type: chmod o-w "+above)
		}
		if above == "/" || above == "." {
			return
		}
	}
}

// once adds a finding, if none says that of the same remedy already: the two directories
// mostly lie in each other.
func (x *examination) once(check string, status onerun.FindingStatus, evidence, remedy string) {
	for _, f := range x.findings {
		if f.Check == check && f.Remedy == remedy {
			return
		}
	}
	x.add(check, status, evidence, remedy)
}

// How little room is too little. A start needs a few pages of the journal and a block for
// its note; 5 MiB is the journal between two checkpoints with much to spare, 100 inodes
// are the lock files of as many keys at one time. Of a large disk 2 % are plenty, so the
// warning is for less than that and less than 1 GiB (or 10,000 inodes).
const (
	dangerBytes, warnBytes   = 5 << 20, 1 << 30
	dangerInodes, warnInodes = 100, 10_000
	warnShare                = 50 // one of these parts
)

// room looks at the room on the disks of both directories.
func (x *examination) room() {
	seen := map[uint64]bool{}
	var said string
	for _, dir := range x.directories() {
		var st unix.Stat_t
		var fs unix.Statfs_t
		if unix.Stat(dir, &st) != nil || seen[st.Dev] || unix.Statfs(dir, &fs) != nil {
			continue
		}
		seen[st.Dev] = true
		free, all := fs.Bavail*uint64(fs.Bsize), fs.Blocks*uint64(fs.Bsize)
		told := fmt.Sprintf("%s: %s of %s free", dir, size(free), size(all))
		if fs.Files > 0 { // some file systems make inodes as they need them
			told += fmt.Sprintf(", %d of %d inodes", fs.Ffree, fs.Files)
		}
		short := func(left, all, least uint64) bool { return left < all/warnShare && left < least }
		const remedy = "free some space there: without it no job can start, and an end has to wait"
		switch {
		case free < dangerBytes, fs.Files > 0 && fs.Ffree < dangerInodes:
			x.add("disk-room", onerun.FindingDanger, told, remedy)
		case short(free, all, warnBytes), fs.Files > 0 && short(fs.Ffree, fs.Files, warnInodes):
			x.add("disk-room", onerun.FindingWarning, told, remedy)
		}
		if said != "" {
			said += "; "
		}
		said += told
	}
	x.fine("disk-room", said)
}

// size is a number of bytes for people.
func size(n uint64) string {
	for _, u := range []struct {
		least uint64
		name  string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}} {
		if n >= u.least {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.least), u.name)
		}
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
