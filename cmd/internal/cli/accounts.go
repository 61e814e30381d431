package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// The fields of a line of the user database (passwd(5)) and of the groups' (group(5)).
const (
	entryName    = 0
	entryNumber  = 2
	passwdHome   = 5
	passwdFields = 7
	groupFields  = 4
)

// getentWait is how long the user database of a directory may take to answer.
const getentWait = 5 * time.Second

// errNoEntry: the database was asked, and has no such account or group.
var errNoEntry = errors.New("no such entry")

// lookUp finds an account (database "passwd") or a group ("group") by its name or number.
// os/user isn't asked: without the C library it knows the files alone, and of an account
// that isn't in them it believes $USER and $HOME. Directories are asked by getent(1).
//
// Errors: errNoEntry; else a reason why the database can't be asked.
func lookUp(database, key string) ([]string, error) {
	least := passwdFields
	if database == "group" {
		least = groupFields
	}
	if strings.ContainsAny(key, ":\n\x00") || key == "" {
		return nil, errNoEntry
	}
	if text, err := os.ReadFile("/etc/" + database); err == nil { // else getent may know it all the same
		if fields := findEntry(string(text), key, least); fields != nil {
			return fields, nil
		}
	}
	text, err := getent(database, key)
	if err != nil {
		return nil, err
	}
	if fields := findEntry(text, key, least); fields != nil {
		return fields, nil
	}
	return nil, errNoEntry
}

// findEntry finds a name, else a number: a name may consist of digits.
func findEntry(text, key string, least int) []string {
	for _, field := range []int{entryName, entryNumber} {
		for line := range strings.Lines(text) {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
			if len(fields) >= least && fields[field] == key {
				return fields
			}
		}
	}
	return nil
}

// getent asks getent(1), which goes by /etc/nsswitch.conf.
func getent(database, key string) (string, error) {
	path := ""
	for _, name := range []string{"/usr/bin/getent", "/bin/getent", "getent"} { // cron and env -i may leave no PATH
		var err error
		if path, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if path == "" {
		return "", fmt.Errorf("it is not in /etc/%s, and getent(1), which would ask further, is not installed", database)
	}
	ctx, cancel := context.WithTimeout(context.Background(), getentWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, database, "--", key)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = 100 * time.Millisecond // a child of it may hold the pipes
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return string(out), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("%w: getent %s %s gave no answer within %s", onerun.ErrUnavailable, database, key, getentWait)
	case errors.As(err, &exit) && exit.ExitCode() == 2: // getent(1): not found
		return "", errNoEntry
	}
	return "", fmt.Errorf("getent %s %s: %w: %s", database, key, err, strings.TrimSpace(stderr.String()))
}

// askedFor puts into words why the user database can't be asked.
func askedFor(what string, err error, do string) error {
	kind := onerun.ErrConfig
	if errors.Is(err, onerun.ErrUnavailable) {
		kind = onerun.ErrUnavailable
		err = errors.New(strings.TrimPrefix(err.Error(), onerun.ErrUnavailable.Error()+": "))
	}
	return &onerun.StoreError{Kind: kind, What: what, Err: err, Do: do}
}

// group is a group of accounts.
type group struct {
	id   int
	name string
}

func (g group) String() string { return fmt.Sprintf("%s (%d)", g.name, g.id) }

// groupOf finds a group by its name or number. A number that no group has is most likely a
// mistake: it would share with nobody.
func groupOf(key string) (group, error) {
	fields, err := lookUp("group", key)
	if errors.Is(err, errNoEntry) {
		return group{}, usage("there is no group %q; see: getent group", key)
	}
	if err != nil {
		return group{}, askedFor("group "+key, err, "name one that is in /etc/group")
	}
	id, err := strconv.Atoi(fields[entryNumber])
	if err != nil || id < 0 {
		return group{}, usage("the group %q has no number in the group database", key)
	}
	return group{id, fields[entryName]}, nil
}

// groupName is a group by its number, for people.
func groupName(id int) string {
	fields, err := lookUp("group", strconv.Itoa(id))
	if err != nil || fields[entryNumber] != strconv.Itoa(id) {
		return strconv.Itoa(id)
	}
	return group{id, fields[entryName]}.String()
}
