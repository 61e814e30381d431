package redis

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
)

// isOurs reports whether an error is one of the contract's already.
func isOurs(err error) bool {
	for _, kind := range []error{
		onerun.ErrUsage, onerun.ErrUnavailable, onerun.ErrInternal, onerun.ErrCreate, onerun.ErrIO,
		onerun.ErrPermission, onerun.ErrConfig, onerun.ErrState, onerun.ErrNotFound, onerun.ErrLost,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	var refused *onerun.Refusal
	var item *onerun.ItemRefusal
	return errors.As(err, &refused) || errors.As(err, &item)
}

// explain gives an error of the driver or the server its kind, and words for people.
func (s *Store) explain(what string, err error) error {
	if err == nil || isOurs(err) {
		return err
	}
	if errors.Is(err, driver.ErrClosed) {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: what, Path: s.cfg.place(), Err: onerun.ErrClosed, Do: "close it when the jobs on it have ended"}
	}
	kind, do := kindOf(err)
	if s.cfg.tls && s.cfg.certFile == "" && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)) {
		do = "is the server up? One that asks for a client's certificate hangs up too: name cert_file and key_file in the store's URL"
	}
	if !s.cfg.tls && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)) && s.cfg.speaksTLS() {
		kind, do = onerun.ErrConfig, "the server speaks TLS: write rediss:// instead of redis://"
	}
	words := s.cfg.masked(wordsOf(err))
	if errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		words = "it didn't answer in time"
	}
	return &onerun.StoreError{Kind: kind, What: what, Path: s.cfg.place(), Err: &cause{words, err}, Do: do}
}

// cause is an error in other words, which hold no password.
type cause struct {
	words string
	error
}

func (c *cause) Error() string { return c.words }
func (c *cause) Unwrap() error { return c.error }

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// said is what the server has said; "": the error is not the server's.
func said(err error) string {
	var e driver.Error
	if errors.As(err, &e) && !errors.Is(err, driver.Nil) {
		return e.Error()
	}
	return ""
}

// answers are the server's errors by the words in them, which stand in front, or somewhere
// behind where a script met them, with what to do.
var answers = []struct {
	words string
	kind  error
	do    string
}{
	{"WRONGPASS", onerun.ErrPermission, "check the user and its password (in the password file, or the URL), and ACL LIST on the server"},
	{"NOAUTH", onerun.ErrPermission, "give the store's URL a user and password_file=FILE"},
	{"invalid password", onerun.ErrPermission, "check the password (in the password file, or the URL)"},
	{"without any password configured", onerun.ErrPermission, "the server has no password: leave it out, or set one there"},
	{"NOPERM", onerun.ErrPermission, "grant the user what docs/stores/redis.md lists"},
	{"ACL failure in script", onerun.ErrPermission, "grant the user what docs/stores/redis.md lists"},
	{"can't run this command or subcommand", onerun.ErrPermission, "grant the user what docs/stores/redis.md lists"},
	{"DENIED", onerun.ErrPermission, "the server is in protected mode: give it a password, and bind it to an address"},
	{"OOM", onerun.ErrIO, "the server's memory is full: prune the ledger, or raise maxmemory"},
	{"MISCONF", onerun.ErrIO, "the server can't save to its disk: look at its log"},
	{"NOREPLICAS", onerun.ErrUnavailable, "fewer replicas are connected than min-replicas-to-write asks for"},
	{"READONLY", onerun.ErrUnavailable, "this server is a replica: name the primary, or the Sentinels with sentinel=NAME"},
	{"MASTERDOWN", onerun.ErrUnavailable, "this server is a replica that has lost its primary: name the primary, or the Sentinels with sentinel=NAME"},
	{"LOADING", onerun.ErrUnavailable, "the server reads its data; try again"},
	{"BUSY", onerun.ErrUnavailable, "somebody's script holds the server up"},
	{"UNKILLABLE", onerun.ErrUnavailable, "somebody's script holds the server up"},
	{"max number of clients", onerun.ErrUnavailable, "raise maxclients on the server"},
	{"CLUSTERDOWN", onerun.ErrUnavailable, "the cluster has no node for this namespace now: look at CLUSTER INFO"},
	{"TRYAGAIN", onerun.ErrUnavailable, "the cluster moves this namespace to another node; try again"},
	{"cluster support disabled", onerun.ErrConfig, "the server is no cluster: leave cluster=true out of the store's URL"},
	{"MOVED", onerun.ErrConfig, "the server is part of a cluster: say cluster=true in the store's URL"},
	{"ASK", onerun.ErrConfig, "the server is part of a cluster: say cluster=true in the store's URL"},
	{"CROSSSLOT", onerun.ErrInternal, "please report this"},
	{"DB index", onerun.ErrConfig, "name a database that the server has"},
	{"SELECT is not allowed", onerun.ErrConfig, "a cluster has one database only: leave the number out of the store's URL"},
	{"nknown command", onerun.ErrConfig, "the server doesn't have a command that is needed, or calls it otherwise (rename-command)"},
	{"nknown Redis command", onerun.ErrConfig, "the server doesn't have a command that is needed, or calls it otherwise (rename-command)"},
	{"WRONGTYPE", onerun.ErrConfig, "another program uses these keys: give the store a prefix=NAME of its own"},
}

// kindOf is the kind of an error, and what to do about it.
//
//nolint:staticcheck // the kind is an error, and not one of this function's
func kindOf(err error) (kind error, do string) {
	if do, kind := untrusted(err); kind != nil {
		return kind, do
	}
	words := said(err)
	if words == "" {
		return onerun.ErrUnavailable, "is the server up, and reachable from here?"
	}
	for _, a := range answers {
		if strings.Contains(words, a.words) {
			return a.kind, a.do
		}
	}
	return onerun.ErrInternal, "please report this"
}

// wordsOf are what an error says: the server's own words, or else those of the last cause,
// which says most.
func wordsOf(err error) string {
	if words := said(err); words != "" {
		words, _, _ = strings.Cut(words, ", on @user_script")
		words, _, _ = strings.Cut(words, " script: ")
		return words
	}
	for {
		next := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			if all := joined.Unwrap(); len(all) > 0 {
				next = all[len(all)-1]
			}
		}
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
