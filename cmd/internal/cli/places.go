package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// shared is the embedded store of the machine.
const shared = "/var/lib/onerun"

// embedded finds the directory of the embedded store, and makes it, unless whoever asks
// only looks. HOME and XDG_*
// are not asked: cron, sudo and systemd change them, and two stores exclude nobody.
// private tells that it is an ordinary account's own.
func (e *env) embedded() (dir string, private bool, err error) {
	makeDir := makeDir
	if e.looking {
		makeDir = func(string, fs.FileMode, string) error { return nil }
	}
	if e.sharing { // what is to be shared is never an account's own
		return shared, false, makeDir(shared, 0o700, "type it as root, or name a directory of this account's with --store sqlite:PATH")
	}
	const do = "name another place with --store sqlite:PATH"
	if os.Geteuid() == 0 || usable(shared) {
		return shared, false, makeDir(shared, 0o700, do)
	}
	home, err := homeDir()
	if err != nil {
		return "", false, err
	}
	dir = filepath.Join(home, ".local", "state", "onerun")
	return dir, true, makeDir(dir, 0o700, do)
}

// usable reports whether this account may write in a directory by its bits. Where the file
// system is read-only, as a systemd unit with ProtectSystem= sees it, it may and can't: then
// a start must fail, and not go on with another store.
func usable(dir string) bool {
	err := syscall.Access(dir, unix.W_OK)
	if !errors.Is(err, syscall.EROFS) || syscall.Access(dir, unix.R_OK|unix.X_OK) != nil {
		return err == nil
	}
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && (filelock.SharedMode(st.Mode) || int(st.Uid) == os.Geteuid())
}

func makeDir(dir string, mode fs.FileMode, do string) error {
	if err := os.MkdirAll(dir, mode); err != nil {
		return &onerun.StoreError{Kind: createKind(err), What: "make the store's directory", Path: dir, Err: pathCause(err), Do: do}
	}
	return nil
}

// homeDir asks the user database for the account's home.
func homeDir() (string, error) {
	uid := strconv.Itoa(os.Geteuid())
	const do = "name a store with --store sqlite:PATH"
	fields, err := lookUp("passwd", uid)
	switch {
	case errors.Is(err, errNoEntry):
		return "", &onerun.StoreError{Kind: onerun.ErrConfig, What: "home directory", Err: fmt.Errorf("the user database has no account with uid %s", uid), Do: do}
	case err != nil:
		return "", askedFor("home directory of uid "+uid, err, do)
	case fields[passwdHome] == "":
		return "", &onerun.StoreError{Kind: onerun.ErrConfig, What: "home directory", Err: fmt.Errorf("the user database has none for uid %s", uid), Do: do}
	}
	return fields[passwdHome], nil
}

// account is the name of the account, for the record.
func account() string { return userName(strconv.Itoa(os.Getuid())) }

func userName(uid string) string {
	fields, err := lookUp("passwd", uid)
	if err != nil || fields[0] == "" {
		return "uid " + uid
	}
	return fields[0]
}

// eventPrivateStore says that a start was the first on a store that no other account uses.
const eventPrivateStore = "private_store"

// tellPrivate warns, once in the life of an account's own default store, what it doesn't
// do. A warning that nobody would see is kept for the next start.
func (x *execution) tellPrivate(s onerun.Store) {
	f, ok := s.(interface{ FirstStart() bool })
	if !ok || !x.place.private || x.log.level > slog.LevelWarn || !f.FirstStart() {
		return
	}
	x.log.Observe(onerun.Observation{
		Event: eventPrivateStore, At: time.Now(), Run: onerun.Run{Namespace: x.Namespace},
		Detail: fmt.Sprintf("this store is private to the account %s: starts of the same job by other accounts are not excluded by it; to share one with a group, type as root: onerun init --shared --group G", account()),
	})
}
