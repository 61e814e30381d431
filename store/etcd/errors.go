package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onerun-dev/onerun"
)

// refused reports whether an error says that the user or its password is not, or not any more, one
// that the server knows.
func refused(err error) bool {
	err = rpctypes.Error(err)
	return errors.Is(err, rpctypes.ErrAuthFailed) || errors.Is(err, rpctypes.ErrInvalidAuthToken)
}

// explain gives an error of the client or the server its kind, and words for people.
func (s *space) explain(ctx context.Context, what string, err error) error {
	var ours *onerun.StoreError
	if errors.As(err, &ours) {
		return err
	}
	if errors.Is(err, onerun.ErrClosed) {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: what, Path: s.config.place(), Err: err, Do: "close it when the jobs on it have ended"}
	}
	kind, do := kindOf(err)
	if errors.Is(kind, onerun.ErrUnavailable) && strings.Contains(err.Error(), "handshake failed") && s.plain(ctx) {
		kind, do = onerun.ErrConfig, plainly
	}
	if errors.Is(kind, onerun.ErrUnavailable) && !s.config.tls && strings.Contains(err.Error(), "server preface") && s.secured(ctx) {
		kind, do = onerun.ErrConfig, "the server speaks TLS: name the authority that signed its certificate (cacert=FILE), or say tls=on, in the store's URL"
	}
	text := words(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), codeOf(err) == codes.DeadlineExceeded:
		text = "it didn't answer in time"
	case ctx.Err() != nil:
		text = context.Cause(ctx).Error()
	}
	if s.config.password != "" {
		text = strings.ReplaceAll(text, s.config.password, "***")
	}
	return &onerun.StoreError{Kind: kind, What: what, Path: s.config.place(), Err: &cause{onerun.Redact(text), err}, Do: do}
}

// plainly is what to do about a server that speaks no TLS.
const plainly = "the server doesn't speak TLS: tls=off in the store's URL, or --cert-file on the server"

// plain reports whether one of the servers answers in plain text. To one that does, and to one that goes away in that moment, a
// handshake ends alike.
func (s *space) plain(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	for _, e := range s.config.endpoints {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e+"/version", http.NoBody)
		if err != nil {
			return false
		}
		answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(q)
		if err != nil {
			continue
		}
		_ = answer.Body.Close()
		if answer.StatusCode == http.StatusOK { // else it may be what a server that speaks TLS says of plain text
			return true
		}
	}
	return false
}

// secured reports whether one of the servers speaks TLS: to one that does, what comes in plain text is the end of the connection.
func (s *space) secured(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	d := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}} // nothing is said to it
	for _, e := range s.config.endpoints {
		if conn, err := d.DialContext(ctx, "tcp", e); err == nil {
			_ = conn.Close()
			return true
		}
	}
	return false
}

// cause is an error in other words, which hold no password.
type cause struct {
	words string
	error
}

func (c *cause) Error() string { return c.words }

func (c *cause) Unwrap() error { return c.error }

func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.Unknown
}

// kindOf is the kind of an error, and what to do about it.
//
//nolint:staticcheck // the kind is an error, and not one of this function's
func kindOf(err error) (kind error, do string) {
	const up = "is etcd up, reachable from here, and has it a majority of its members? etcdctl endpoint status --cluster"
	text, known := err.Error(), rpctypes.Error(err)
	is := func(all ...error) bool {
		for _, e := range all {
			if errors.Is(known, e) {
				return true
			}
		}
		return false
	}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF):
		return onerun.ErrUnavailable, up
	case is(rpctypes.ErrUserEmpty):
		return onerun.ErrPermission, "etcd wants to know who asks: etcd://USER@HOST/PREFIX?passfile=FILE"
	case is(rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision):
		return onerun.ErrPermission, "check the user in the store's URL and its password in the file"
	case is(rpctypes.ErrPermissionDenied):
		return onerun.ErrPermission, "grant the user's role readwrite on the prefix, as docs/stores/etcd.md shows"
	case is(rpctypes.ErrNoSpace):
		return onerun.ErrIO, "etcd's database is full: compact and defragment it, or raise --quota-backend-bytes; then etcdctl alarm disarm"
	case is(rpctypes.ErrCorrupt), codeOf(err) == codes.DataLoss:
		return onerun.ErrIO, "a member's data differ from the others': look at etcd's log, and replace that member"
	case is(rpctypes.ErrRequestTooLarge, rpctypes.ErrTooManyOps):
		return onerun.ErrConfig, "leave --max-request-bytes and --max-txn-ops at least as large as etcd has them by itself"
	case is(rpctypes.ErrNotCapable, rpctypes.ErrClusterVersionUnavailable), codeOf(err) == codes.Unimplemented:
		return onerun.ErrConfig, "use etcd 3.4 or newer"
	case strings.Contains(text, "remote error: tls"):
		return onerun.ErrPermission, "check cert and key in the store's URL, and --trusted-ca-file on the server"
	case strings.Contains(text, "x509: "):
		return onerun.ErrConfig, "name the authority that signed the server's certificate (cacert=FILE), and the server as that calls it (server_name=NAME)"
	case strings.Contains(text, "first record does not look like a TLS handshake"):
		return onerun.ErrConfig, plainly
	case strings.Contains(text, "handshake failed"): // also of a server that goes away in that moment
		return onerun.ErrUnavailable, "does the server speak TLS? if not, tls=off in the store's URL"
	}
	switch codeOf(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted:
		return onerun.ErrUnavailable, up
	case codes.Unauthenticated, codes.PermissionDenied:
		return onerun.ErrPermission, "check the user in the store's URL, and what its role may"
	}
	return onerun.ErrInternal, "please report this"
}

// words are what an error says, without gRPC's own preliminaries.
func words(err error) string {
	if s, ok := status.FromError(rpctypes.Error(err)); ok {
		return s.Message()
	}
	text := err.Error()
	if _, after, ok := strings.Cut(text, " desc = "); ok {
		return after
	}
	return text
}
