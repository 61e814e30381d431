package zookeeper

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
)

// disconnected reports whether an error is of the connection and not an answer. Nothing can be said then about what the
// server did.
func disconnected(err error) bool {
	var never *unreached
	if errors.As(err, &never) {
		return false
	}
	for _, e := range []error{zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrSessionMoved, zk.ErrNoServer, errNotKept} {
		if errors.Is(err, e) {
			return true
		}
	}
	// A write to the connection failed: the driver hands the network's own error on.
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && !errors.Is(err, context.DeadlineExceeded)
}

// errNotKept: the server answered that it lost its own connection to the others (its code -4).
var errNotKept = errors.New("the server is not part of a quorum")

// Codes that the driver has no errors for, as KeeperException.Code has them.
var codes = map[string]error{
	"unknown error: -4":   errNotKept,
	"unknown error: -7":   errNotKept,                            // OPERATIONTIMEOUT
	"unknown error: -119": errors.New("the server is read-only"), // NOTREADONLY
	"unknown error: -125": errQuota,
	"unknown error: -127": errors.New("the server has too much to do"), // THROTTLEDOP
}

var errQuota = errors.New("a quota is used up")

// known gives the error that the driver had no name for.
func known(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := codes[err.Error()]; ok {
		return e
	}
	return err
}

// explain gives an error of the driver or the server its kind, and words for people.
func (c *conn) explain(what string, err error) error {
	var store *onerun.StoreError
	if err == nil || errors.As(err, &store) {
		return err
	}
	if errors.Is(err, onerun.ErrClosed) {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: what, Path: c.place(), Err: err, Do: "close it when the jobs on it have ended"}
	}
	kind, do := kindOf(err)
	c.mu.Lock()
	text := c.mask(strings.TrimPrefix(err.Error(), "zk: "))
	c.mu.Unlock()
	return &onerun.StoreError{Kind: kind, What: what, Path: c.place(), Err: &cause{text, err}, Do: do}
}

// cause is an error in other words, which hold no password.
type cause struct {
	words string
	error
}

func (c *cause) Error() string { return c.words }
func (c *cause) Unwrap() error { return c.error }

// kindOf is the kind of an error, and what to do about it.
//
//nolint:staticcheck // the kind is an error, and not one of this function's
func kindOf(err error) (kind error, do string) {
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return onerun.ErrPermission, "look at the access list (getAcl of zkCli.sh), and at the user and its password in the store's URL"
	case errors.Is(err, zk.ErrAuthFailed):
		return onerun.ErrPermission, "does the server know the scheme digest?"
	case errors.Is(err, zk.ErrInvalidACL):
		return onerun.ErrConfig, "look at acl in the store's URL: auth needs a user"
	case errors.Is(err, errQuota):
		return onerun.ErrIO, "raise the quota of the path (listquota of zkCli.sh), or prune"
	case errors.Is(err, zk.ErrShortBuffer), errors.Is(err, errTooLarge):
		return onerun.ErrConfig, "raise jute.maxbuffer on every server, to 1 MiB at least"
	case errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrBadArguments), errors.Is(err, zk.ErrAPIError), errors.Is(err, zk.ErrInvalidFlags):
		return onerun.ErrInternal, "please report this"
	}
	return onerun.ErrUnavailable, "is the server up, part of a quorum, and reachable from here?"
}

// errTooLarge: the server hung up on each try.
var errTooLarge = errors.New("the server hangs up when it is told as much as that")
