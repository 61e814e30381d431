package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// most is how many things of a kind are named one by one.
const most = 5

// tree is a directory with its files, which have one owner, or one group that shares them.
type tree struct {
	x      *examination
	shared bool // 2770 and 0660
	uid    uint32
	gid    uint32
}

// access looks at who can do what with the files of the store.
func (x *examination) access() {
	dirs := x.directories()
	said := ""
	for i, dir := range dirs {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			if i == 0 || !errors.Is(err, unix.ENOENT) {
				_ = x.unless(fmt.Errorf("%s: %w", dir, err), "permissions")
			}
			continue
		}
		t := &tree{x: x, shared: st.Mode&unix.S_ISGID != 0 && st.Mode&0o020 != 0, uid: st.Uid, gid: st.Gid}
		t.directory(dir, &st)
		if i == 0 {
			for _, suffix := range fileSuffixes {
				t.file(x.s.path + suffix)
			}
			said = t.words()
			continue
		}
		t.locks(dir)
	}
	x.fine("permissions", said)
	x.fine("owners", said)
}

func (t *tree) words() string {
	if t.shared {
		return fmt.Sprintf("shared by group %d: directories 2770, files 0660", t.gid)
	}
	return fmt.Sprintf("private to uid %d: directories 0700, files 0600", t.uid)
}

func (t *tree) say(status onerun.FindingStatus, path string, mode uint32, why, do string) {
	t.x.add("permissions", status, fmt.Sprintf("%s has mode %04o: %s", path, mode&0o7777, why), do)
}

// right is the remedy for a directory or file.
func (t *tree) right(path string, dir bool) string {
	mode := map[[2]bool]string{{true, true}: "2770", {true, false}: "0660", {false, true}: "0700", {false, false}: "0600"}[[2]bool{t.shared, dir}]
	return "type: chmod " + mode + " " + path
}

func (t *tree) directory(path string, st *unix.Stat_t) {
	do := t.right(path, true)
	switch m := st.Mode & 0o7777; {
	case m&0o002 != 0:
		t.say(onerun.FindingDanger, path, m, "every account can remove and replace what is in it", do)
	case m&0o020 != 0 && !t.shared:
		t.say(onerun.FindingDanger, path, m, "its group can remove and replace what is in it, and what one account makes the others can't use",
			do+"   (or, to share it with the group: chmod 2770)")
	case m&0o700 != 0o700 || t.shared && m&0o070 != 0o070:
		t.say(onerun.FindingDanger, path, m, "who is to use it can't", do)
	case m&0o055 != 0 && !t.shared, m&0o005 != 0:
		t.say(onerun.FindingWarning, path, m, "others can look into it", do)
	}
}

// file looks at one file; one that vanished meanwhile is none.
func (t *tree) file(path string) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		if !errors.Is(err, unix.ENOENT) {
			_ = t.x.unless(fmt.Errorf("%s: %w", path, err), "permissions")
		}
		return
	}
	do := t.right(path, false)
	switch m := st.Mode & 0o7777; {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return // it is somebody else's finding
	case m&0o002 != 0:
		t.say(onerun.FindingDanger, path, m, "every account can change it", do)
	case m&0o020 != 0 && !t.shared:
		t.say(onerun.FindingDanger, path, m, "its group can change it", do)
	case m&0o600 != 0o600:
		t.say(onerun.FindingDanger, path, m, "its owner can't use it, so no job can start", do)
	case t.shared && m&0o060 != 0o060:
		t.say(onerun.FindingDanger, path, m, "the other accounts of the group can't use it, so their jobs can't start", do)
	case m&0o044 != 0 && !t.shared, m&0o004 != 0:
		t.say(onerun.FindingWarning, path, m, "others can read it, and labels and errors may tell", do)
	}
	switch {
	case t.shared && st.Gid != t.gid:
		t.x.add("owners", onerun.FindingDanger, fmt.Sprintf("%s belongs to group %d, its directory to group %d: the accounts of that can't use it", path, st.Gid, t.gid),
			fmt.Sprintf("type: chgrp %d %s", t.gid, path))
	case !t.shared && st.Uid != t.uid:
		t.x.add("owners", onerun.FindingDanger, fmt.Sprintf("%s belongs to uid %d, its directory to uid %d: not both can use it", path, st.Uid, t.uid),
			fmt.Sprintf("type: chown %d %s, and let one account start the jobs (or share the store: onerun init --shared)", t.uid, path))
	}
}

// locks looks at the files of the lock directory.
func (t *tree) locks(dir string) {
	entries, err := os.ReadDir(dir)
	if !t.x.unless(err, "permissions") {
		return
	}
	before := len(t.x.findings)
	more := 0
	for _, e := range entries {
		if len(t.x.findings)-before >= most {
			more++
			continue
		}
		t.file(filepath.Join(dir, e.Name()))
		t.links(filepath.Join(dir, e.Name()))
	}
	if more > 0 {
		t.x.add("permissions", onerun.FindingUnknown, fmt.Sprintf("%d more files of %s were not looked at, after so much", more, dir), "")
	}
}

// links looks for what is no plain file of one name.
func (t *tree) links(path string) {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return
	}
	const remedy = "look at what it is, and remove it"
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFLNK:
		t.x.add("lock-files", onerun.FindingDanger, path+" is a symbolic link, which no start follows", remedy)
	case kind != unix.S_IFREG && strings.HasSuffix(path, ".lock"):
		t.x.add("lock-files", onerun.FindingDanger, path+" is not a regular file", remedy)
	case st.Nlink > 1 && strings.HasSuffix(path, ".lock"):
		t.x.add("lock-files", onerun.FindingDanger, fmt.Sprintf("%s has %d names (hard links), and no start writes to it", path, st.Nlink), remedy)
	}
}
