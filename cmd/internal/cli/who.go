package cli

import (
	"os"
	"strconv"
	"strings"

	"github.com/onerun-dev/onerun"
)

// who is this operator, for the record, with a reason.
func who(reason string) onerun.Who {
	return onerun.Who{By: operator(), Terminal: terminal(), Reason: reason}
}

// operator is who decides: PERSON@HOST, and the account whose rights it has, if that is
// another one.
func operator() string {
	name := account()
	by := person(name)
	if host, err := os.Hostname(); err == nil {
		by += "@" + host
	}
	if person(name) != name {
		by += " as " + name
	}
	if inUserNamespace() {
		by += onerun.InUserNamespace
	}
	return by
}

// inUserNamespace reports whether accounts here are what some ordinary account says they
// are (user_namespaces(7)).
func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(text))
	return err == nil && (len(f) != 3 || f[0] != "0" || f[1] != "0" || f[2] != "4294967295")
}

// person is who sits behind an account: whom the system logged in (the audit login uid,
// which a process can't change by itself), else whom sudo(8) names, which only root can
// make up. Without either it is the account.
func person(account string) string {
	uid := os.Getuid()
	if text, err := os.ReadFile("/proc/self/loginuid"); err == nil {
		login, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
		if err == nil && login != 1<<32-1 && login != 0 && int(login) != uid {
			return userName(strconv.FormatUint(login, 10))
		}
	}
	if by := os.Getenv("SUDO_USER"); uid == 0 && by != "" && by != "root" {
		if _, err := lookUp("passwd", by); err == nil {
			return by
		}
	}
	return account
}

// terminal is where the operator sits, or "".
func terminal() string {
	for fd := range 3 {
		if !isTerminal(fd) {
			continue
		}
		if name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil {
			return name
		}
	}
	return ""
}
