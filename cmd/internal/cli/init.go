package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/storeurl"
	"github.com/onerun-dev/onerun/store/sqlite"
)

type initCmd struct {
	Shared  bool `help:"Share the store with the accounts of --group, whatever their umask: directories 2770, files 0660."`
	Group   word `placeholder:"G" help:"Group that shares it, by name or number."`
	LockDir word `placeholder:"DIR" help:"Directory of the lock files, if it is not the store's."`
}

// Help explains the command.
func (initCmd) Help() string {
	return `Without --shared it makes the store, private to this account, which the first start would do too; of a store that is
there it tells whether it is in order. Both may be typed again, and while jobs run.

--shared is for accounts that start the same jobs: root's crontab and a service account's timer exclude each other only
if they use one store. Whoever is in the group can do with the store what its owner can.`
}

func (c *initCmd) run(ctx context.Context, e *env) error {
	switch {
	case c.Shared && c.Group == "":
		return usage("--shared needs the group: --group G")
	case !c.Shared && c.Group != "":
		return usage("--group is for a store that is shared: add --shared")
	case c.Shared:
		return c.share(ctx, e)
	}
	e.makeStore = true
	s, p, err := e.open(ctx, string(c.LockDir))
	if err != nil {
		return err
	}
	local, ok := s.(*sqlite.Store)
	if !ok {
		return say(e, "store %s is there", storeurl.Redact(p.url))
	}
	_, err = os.Lstat(local.Path())
	made := errors.Is(err, os.ErrNotExist)
	ctx, cancel := e.bound(ctx)
	defer cancel()
	if _, err := local.Jobs(ctx, e.Namespace); err != nil { // makes the database, or looks whether it is one of ours
		return err
	}
	a, err := local.Access()
	if err != nil {
		return err
	}
	how := "is there already, and in order"
	if made {
		how = "is made"
	}
	if a.Shared {
		return say(e, "store sqlite:%s %s: shared with the group %s", local.Path(), how, groupName(a.GID))
	}
	if p.private {
		local.FirstStart() // what the first start would warn of is said here
	}
	return say(e, "store sqlite:%s %s: private to this account (%s); to share one with other accounts: onerun init --shared --group G", local.Path(), how, account())
}

func (c *initCmd) share(ctx context.Context, e *env) error {
	g, err := groupOf(string(c.Group))
	if err != nil {
		return err
	}
	if err := member(g); err != nil {
		return err
	}
	e.sharing = true
	p, err := e.place()
	if err != nil {
		return err
	}
	ctx, cancel := e.bound(ctx)
	defer cancel()
	opts := []sqlite.Option{sqlite.WithMayShare(mayShare)}
	if c.LockDir != "" {
		opts = append(opts, sqlite.WithLockDir(string(c.LockDir)))
	}
	made, changed, err := sqlite.ShareURL(ctx, p.url, g.id, opts...)
	if err != nil {
		return p.blame(err)
	}
	how := "is shared already"
	switch {
	case made:
		how = "is made, and shared"
	case changed > 0:
		how = "is shared now"
	}
	return say(e, "store %s %s with the group %s: 2770 and 0660, whatever the umask; who was just added to the group has to log in anew", p.url, how, g)
}

// member refuses early what would fail in the middle.
func member(g group) error {
	groups, err := os.Getgroups()
	if err != nil || os.Geteuid() == 0 || os.Getegid() == g.id || slices.Contains(groups, g.id) {
		return nil
	}
	return &onerun.StoreError{
		Kind: onerun.ErrPermission, What: "group " + g.name, Err: fmt.Errorf("the account %s is not in it, so it can't share anything with it", account()),
		Do: "type it as root, or log in anew if it was just added to the group",
	}
}

// mayShare refuses directories that are somebody's or the system's, even when they are
// empty: all of the group could write there.
func mayShare(dir string) error {
	no := func(whose string) error {
		return &onerun.StoreError{
			Kind: onerun.ErrCreate, What: "share the store's directory", Path: dir,
			Err: fmt.Errorf("it is %s, which would be opened to the group", whose), Do: "name a directory of the store's own with --store, for example sqlite:" + filepath.Join(dir, "onerun") + "/",
		}
	}
	if itself, err := filepath.EvalSymlinks(dir); err == nil {
		dir = itself
	}
	if dir == shared { // may be the home of a service account
		return nil
	}
	if dir == "/" || slices.Contains(systemDirs(), dir) {
		return no("a directory of the system")
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil // there is none yet
	}
	for _, home := range homes(st) {
		if h, err := os.Stat(home); err == nil && os.SameFile(st, h) {
			return no("a home directory")
		}
	}
	return nil
}

// homes are the home directories that are known: of the accounts of this host, of this
// account, and of the owner of a directory.
func homes(of os.FileInfo) []string {
	homes := []string{os.Getenv("HOME")}
	if text, err := os.ReadFile("/etc/passwd"); err == nil {
		for line := range strings.Lines(string(text)) {
			if fields := strings.Split(line, ":"); len(fields) >= passwdFields {
				homes = append(homes, fields[passwdHome])
			}
		}
	}
	uids := []int{os.Geteuid()}
	if sys, ok := of.Sys().(*syscall.Stat_t); ok {
		uids = append(uids, int(sys.Uid))
	}
	for _, uid := range uids {
		if fields, err := lookUp("passwd", strconv.Itoa(uid)); err == nil {
			homes = append(homes, fields[passwdHome])
		}
	}
	return homes
}

// systemDirs are those of the Filesystem Hierarchy Standard that may well be empty.
func systemDirs() []string {
	return []string{
		"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var",
		"/run/lock", "/usr/local", "/usr/share", "/var/cache", "/var/lib", "/var/local", "/var/lock", "/var/log", "/var/opt", "/var/run", "/var/spool", "/var/tmp",
	}
}
