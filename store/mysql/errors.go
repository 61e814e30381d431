package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/sqlledger"
)

// Numbers of errors, as the manuals of both servers have them.
const (
	errChanged       = 1020
	errNoTable       = 1146
	errNoColumn      = 1054
	errDuplicate     = 1062
	errNull          = 1048
	errLockTimeout   = 1205
	errDeadlock      = 1213
	errTableChanged  = 1412 // it was made while a transaction had its snapshot already
	errPacketTooLong = 1153
	errTooLong       = 1406

	// What a server says that is read-only: a primary that was one, say.
	errOption   = 1290
	errReadOnly = 1792
	errReadMode = 1836
)

// code is the server's number of an error; 0: it is not the server's.
func code(err error) uint16 {
	var m *mysql.MySQLError
	if errors.As(err, &m) {
		return m.Number
	}
	return 0
}

// duplicate reports whether an error is of a unique index, by its name.
func duplicate(err error, index string) bool {
	var m *mysql.MySQLError
	if !errors.As(err, &m) || m.Number != errDuplicate {
		return false
	}
	_, key, _ := cutLast(m.Message, "for key '") // MySQL puts the table before it
	key = strings.TrimSuffix(key, "'")
	_, name, ok := strings.Cut(key, ".")
	if !ok {
		name = key
	}
	return name == index
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// collided reports whether the server gave a transaction up because it met another one,
// so that it may be begun anew.
func collided(err error) bool {
	c := code(err)
	return c == errDeadlock || c == errLockTimeout || c == errTableChanged
}

// disconnected reports whether an error is of a connection that there was, and not an answer.
// Nothing can be said then about what the server did. A server that may only be read from is one
// to leave, too: by its name another one may answer now, to which no connection of before leads.
func disconnected(err error) bool {
	if err == nil || noRows(err) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var connect *unconnected
	if errors.As(err, &connect) || sqlledger.IsOurs(err) {
		return false // a new connection failed: there is none to replace
	}
	switch code(err) {
	case 0, 1053, 1077, 1079, 1080, 1158, 1159, 1160, 1161, 1927, 3169, 4031: // being shut down, killed, or idle for too long
		return true
	}
	return readOnly(err)
}

// readOnly reports whether the server may only be read from.
func readOnly(err error) bool {
	c := code(err)
	return c == errOption || c == errReadOnly || c == errReadMode
}

// explain gives an error of the driver or the server its kind, and words for people.
func (s *Store) explain(what string, err error) error {
	if err == nil || sqlledger.IsOurs(err) {
		return err
	}
	if s.closed.Load() {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: what, Path: s.String(), Err: onerun.ErrClosed, Do: "close it when the jobs on it have ended"}
	}
	kind, do := kindOf(err)
	text := s.masked(words(err))
	if errors.Is(err, context.DeadlineExceeded) {
		text = "it didn't answer in time"
	}
	return &onerun.StoreError{Kind: kind, What: what, Path: s.String(), Err: &sqlledger.Cause{Words: text, Err: err}, Do: do}
}

// kindOf is the kind of an error, and what to do about it.
//
//nolint:staticcheck // the kind is an error, and not one of this function's
func kindOf(err error) (kind error, do string) {
	if do, kind := untrusted(err); kind != nil {
		return kind, do
	}
	switch code(err) {
	case 1045, 1698, 1130, 3118, 4151, 1862, 1820: // denied, from this host, account locked, password expired
		return onerun.ErrPermission, "check the user, its host and its password (in the password file, or the URL)"
	case 1044, 1142, 1143, 1227, 1370:
		return onerun.ErrPermission, "grant the account what docs/stores/mysql.md lists"
	case 1049:
		return onerun.ErrConfig, "create the database, or name another one in the store's URL"
	case errNoTable, errNoColumn, 1046:
		return onerun.ErrConfig, "is it the right database? onerun migrate brings one up"
	case 1193, 1231, 1064, 1665, 1286:
		return onerun.ErrConfig, "is the server MySQL 8, or MariaDB 10.6 or later, with binlog_format ROW or MIXED and InnoDB?"
	case errOption, errReadOnly, errReadMode, 3989:
		return onerun.ErrUnavailable, "this server is read-only, a replica perhaps: name the primary"
	case 3, 5, 9, 14, 21, 28, 1016, 1021, 1026, 1030, 1034, 1035, 1114, 1180, 1194, 1195, 1877, 1932:
		return onerun.ErrIO, "make room on the server's disk, and look at its log"
	case errPacketTooLong:
		return onerun.ErrIO, "raise max_allowed_packet on the server"
	case errTooLong, 1264, 1366:
		return onerun.ErrUsage, "a value is longer, or greater, than the store keeps"
	case errChanged:
		return onerun.ErrUnavailable, "roll back, and begin the transaction anew: with innodb_snapshot_isolation it can't share what has changed since it began"
	case 1317:
		return onerun.ErrUnavailable, "somebody ended the query (KILL QUERY); try again"
	case 1037, 1038, 1041, 1047, 1135, 1206, 1637: // memory, threads, or locks; and a node of a cluster that isn't ready
		return onerun.ErrUnavailable, "the server is short of something, or not ready yet: look at its log"
	case 3159:
		return onerun.ErrConfig, "the server takes encrypted connections alone: say tls=require, or more, in the store's URL"
	case errLockTimeout:
		return onerun.ErrUnavailable, "somebody holds a row for long; look at information_schema.innodb_trx"
	case errDeadlock, 1040, 1203, 1226, 1053, 1077, 1079, 1080, 1158, 1159, 1160, 1161, 1927, 1969, 3024, 3169, 4031, 1129, 0:
		return onerun.ErrUnavailable, "is the server up, and reachable from here?"
	}
	return onerun.ErrInternal, "please report this"
}

// untrusted says what to do about an error of a connection on which one side doesn't trust
// the other, and its kind; nil: it is another error.
func untrusted(err error) (do string, kind error) {
	var (
		bad     *tls.CertificateVerificationError
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		alert   *net.OpError
	)
	switch {
	case errors.As(err, &name):
		return "name the server in the store's URL as its certificate does (tls_server_name), or give it a certificate for that name", onerun.ErrConfig
	case errors.As(err, &unknown):
		return "name the authority that signed the server's certificate: tls_ca=FILE in the store's URL", onerun.ErrConfig
	case errors.As(err, &bad), errors.As(err, &invalid):
		return "look at the server's certificate: is it expired, or made for something else?", onerun.ErrConfig
	case errors.As(err, &alert) && alert.Op == "remote error": // the words of crypto/tls for what the other side says
		return "check tls_cert and tls_key in the store's URL, and ssl_ca on the server", onerun.ErrPermission
	case errors.Is(err, mysql.ErrNoTLS):
		return "set up TLS on the server; or, where nobody can listen, tls=disable in the store's URL", onerun.ErrConfig
	case errors.Is(err, mysql.ErrUnknownPlugin), errors.Is(err, mysql.ErrCleartextPassword), errors.Is(err, mysql.ErrOldPassword), errors.Is(err, mysql.ErrOldProtocol):
		return "give the account another authentication plugin: caching_sha2_password, ed25519 or mysql_native_password", onerun.ErrConfig
	}
	return "", nil
}

// words are what an error says, without the driver's own preliminaries.
func words(err error) string {
	var m *mysql.MySQLError
	switch {
	case errors.As(err, &m):
		return fmt.Sprintf("%s (%d)", m.Message, m.Number)
	case errors.Is(err, mysql.ErrInvalidConn):
		return "the connection was lost"
	case errors.Is(err, sql.ErrConnDone):
		return "the store is closed"
	}
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// masked takes the password out of a text.
func (s *Store) masked(text string) string {
	password, err := s.passwordNow()
	if err != nil {
		password = ""
	}
	return sqlledger.Masked(text, password)
}
