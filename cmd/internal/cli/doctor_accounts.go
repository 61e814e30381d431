package cli

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// localAccount is an account of the user database.
type localAccount struct {
	name, home string
	uid        int
}

const (
	manyAccounts  = 10_000          // of a directory with more, the first
	accountsAsked = 3 * time.Second // a directory server may not answer
)

// accounts lists the accounts of the user database, as far as that is told in a few
// seconds; directory accounts are known to getent(1) alone.
func accounts(ctx context.Context) []localAccount {
	ctx, cancel := context.WithTimeout(ctx, accountsAsked)
	defer cancel()
	out, err := exec.CommandContext(ctx, "getent", "passwd").Output()
	if err != nil {
		out, _ = os.ReadFile("/etc/passwd") // what can't be read has no accounts
	}
	return parseAccounts(bytes.NewReader(out))
}

func parseAccounts(r io.Reader) (all []localAccount) {
	for lines := bufio.NewScanner(r); lines.Scan() && len(all) < manyAccounts; {
		f := strings.Split(lines.Text(), ":")
		if len(f) < 7 {
			continue
		}
		if uid, err := strconv.Atoi(f[2]); err == nil {
			all = append(all, localAccount{name: f[0], uid: uid, home: f[5]})
		}
	}
	return all
}

// accountOf finds an account by its uid or name.
func accountOf(all []localAccount, uid int, name string) (localAccount, bool) {
	for _, a := range all {
		if name == "" && a.uid == uid || name != "" && a.name == name {
			return a, true
		}
	}
	return localAccount{}, false
}

// usualStore is the database that an account uses when it names none: root's, or the
// machine's when the account may write there, as far as can be told from outside, else
// its own.
func usualStore(a localAccount) string {
	if a.uid == 0 || sharedByGroup(shared) {
		return storeFile("sqlite:"+shared+"/", "/")
	}
	return storeFile("sqlite:"+usualIn(a.home)+"/", "/")
}

// sharedByGroup reports whether a directory is one of a group's: setgid, and writable for it.
func sharedByGroup(dir string) bool {
	st, err := os.Stat(dir)
	return err == nil && st.Mode()&os.ModeSetgid != 0 && st.Mode()&0o020 != 0
}
