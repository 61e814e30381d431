package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// examination is one look at a store, for what would make it unsafe.
type examination struct {
	s        *Store
	ctx      context.Context
	findings []onerun.Finding
	account  string
	settings map[string]string // of the server, and of a session of the store's
}

// Examine implements onerun.Examiner. It changes nothing, and makes no schema. A server
// that can't be reached is a finding too, and then the last one. What the account may not see
// is unknown.
func (s *Store) Examine(ctx context.Context) ([]onerun.Finding, error) {
	x := &examination{s: s, ctx: ctx, settings: map[string]string{}}
	x.passwordFile()
	if !x.connection() {
		return x.findings, nil
	}
	x.clock()
	if x.read() {
		x.server()
		x.primary()
		x.durability()
		x.session()
		x.limits()
	}
	if x.store() {
		x.tables()
		x.privileges()
		x.chains()
		x.stale()
	}
	return x.findings, nil
}

func (x *examination) add(check string, status onerun.FindingStatus, evidence, remedy string) {
	x.findings = append(x.findings, onerun.Finding{Check: check, Status: status, Evidence: evidence, Remedy: remedy})
}

// fine adds that a check found nothing, if it has found nothing.
func (x *examination) fine(check, evidence string) {
	for _, f := range x.findings {
		if f.Check == check {
			return
		}
	}
	x.add(check, onerun.FindingOK, evidence, "")
}

// unless adds that a check could not be made, if it could not.
func (x *examination) unless(err error, check string) bool {
	if err == nil {
		return true
	}
	var e *onerun.StoreError
	if err = x.s.explain("examine the store", err); errors.As(err, &e) && e.Err != nil {
		err = e.Err
	}
	x.add(check, onerun.FindingUnknown, err.Error(), "")
	return false
}

// in asks questions on one connection, outside of any transaction.
func (x *examination) in(f func(t *tx) error) error {
	return x.s.connected(x.ctx, func(conn *sql.Conn) error {
		if err := f(&tx{ctx: x.ctx, conn: conn}); err != nil {
			return &unbegun{err} // it only reads
		}
		return nil
	})
}

// passwordFile looks who may read it.
func (x *examination) passwordFile() {
	const check = "password-file"
	path := x.s.passwordFile
	if path == "" {
		return
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		x.add(check, onerun.FindingDanger, err.Error(), "the password is read anew for each connection: put the file back")
	case st.Mode().Perm()&0o077 != 0:
		x.add(check, onerun.FindingWarning, fmt.Sprintf("%s has mode %04o: others can read the password", path, st.Mode().Perm()), "chmod 600 "+path)
	default:
		x.add(check, onerun.FindingOK, path+" is its owner's alone", "")
	}
}

// connection connects, and looks at how.
func (x *examination) connection() bool {
	began := time.Now()
	var cipher string
	err := x.in(func(t *tx) error {
		if err := t.row("SELECT CURRENT_USER()").Scan(&x.account); err != nil {
			return err
		}
		var name string
		return t.row("SHOW SESSION STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher)
	})
	if err != nil {
		var e *onerun.StoreError
		if err = x.s.explain("examine the store", err); errors.As(err, &e) && e.Err != nil {
			x.add("connection", onerun.FindingDanger, fmt.Sprintf("%s: %v", e.Path, e.Err), e.Do)
		} else {
			x.add("connection", onerun.FindingDanger, err.Error(), "")
		}
		return false
	}
	x.add("connection", onerun.FindingOK, fmt.Sprintf("%s answers account %s after %s", x.s, x.account, time.Since(began).Round(time.Millisecond)), "")
	local := x.s.network == "unix" || strings.HasPrefix(x.s.addr, "127.") || strings.HasPrefix(x.s.addr, "[::1]") || strings.HasPrefix(x.s.addr, "localhost:")
	switch verified := x.s.tls.mode == tlsVerifyCA || x.s.tls.mode == tlsVerifyFull; {
	case cipher != "" && verified:
		x.add("encryption", onerun.FindingOK, "the connection is encrypted, and the server's certificate is verified", "")
	case local:
		x.add("encryption", onerun.FindingOK, "the server is on this machine", "")
	case cipher != "":
		x.add("encryption", onerun.FindingWarning, "the connection is encrypted, but anybody in between could pass for the server: its certificate isn't verified", "tls=verify-full and tls_ca=FILE in the store's URL")
	default:
		x.add("encryption", onerun.FindingWarning, "the connection isn't encrypted: whoever can listen sees what jobs print", "set up TLS on the server, and tls=verify-full in the store's URL")
	}
	return true
}

// clock compares the two clocks. No decision does; but what a reader is told would be odd.
func (x *examination) clock() {
	const check = "clock"
	var us int64
	before := time.Now()
	err := x.in(func(t *tx) error { return t.row("SELECT " + now).Scan(&us) })
	took := time.Since(before)
	if !x.unless(err, check) {
		return
	}
	off := fromMicros(&us).Sub(before.Add(took / 2)).Round(time.Millisecond)
	if off.Abs() > time.Second+took {
		x.add(check, onerun.FindingWarning, fmt.Sprintf("the server's clock and this host's are %s apart; leases go by the server's alone, but times in logs don't fit together", off.Abs()), "look at NTP on both")
		return
	}
	x.add(check, onerun.FindingOK, fmt.Sprintf("the server's clock and this host's are %s apart", off.Abs()), "")
}

// read reads the settings.
func (x *examination) read() bool {
	err := x.in(func(t *tx) error {
		for _, scope := range []string{"GLOBAL", "SESSION"} {
			err := t.each(func(scan func(...any) error) error {
				var name, value string
				err := scan(&name, &value)
				x.settings[scope+" "+name] = value
				return err
			}, "SHOW "+scope+" VARIABLES")
			if err != nil {
				return err
			}
		}
		return nil
	})
	return x.unless(err, "settings")
}

// global is a setting of the server; "": it has none of that name.
func (x *examination) global(name string) string { return x.settings["GLOBAL "+name] }

func (x *examination) on(name string) bool {
	v := strings.ToUpper(x.global(name))
	return v == "ON" || v == "1"
}

// store looks for the schema.
func (x *examination) store() bool {
	const check = "schema"
	var version int
	err := x.in(func(t *tx) (err error) {
		version, err = t.version()
		return err
	})
	switch {
	case !x.unless(err, check):
		return false
	case version == 0:
		x.add(check, onerun.FindingOK, "there is no store in the database yet; the first start makes it", "")
		return false
	case version > len(steps):
		x.add(check, onerun.FindingDanger, x.s.newer(int64(version)).Error(), "use the newer onerun that wrote it")
		return false
	case version < len(steps):
		x.add(check, onerun.FindingWarning, fmt.Sprintf("the schema is of version %d, this program's is %d; the next start brings it up", version, len(steps)), "onerun migrate")
		return false
	}
	x.add(check, onerun.FindingOK, fmt.Sprintf("version %d", version), "")
	return true
}
