package bed

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Account is whom servers run as where this process is root, which some of them refuse: the first
// of the names that the machine knows.
type Account []string

// credential is nil where this process is an ordinary account itself.
func (a Account) credential() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	var u *user.User
	var err error
	for _, name := range a {
		if u, err = user.Lookup(name); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// Own gives a file or directory to the account.
func (a Account) Own(path string) error {
	cred, err := a.credential()
	if err != nil || cred == nil {
		return err
	}
	return os.Chown(path, int(cred.Uid), int(cred.Gid))
}
