package sqlledger

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
)

// IsOurs reports whether an error is one of the contract's already.
func IsOurs(err error) bool {
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

// Cause is an error in other words, which hold no password.
type Cause struct {
	Words string
	Err   error
}

// Error implements error.
func (c *Cause) Error() string { return c.Words }

// Unwrap gives the error as it was.
func (c *Cause) Unwrap() error { return c.Err }

// Masked takes a password out of a text.
func Masked(text, password string) string {
	if password != "" {
		text = strings.ReplaceAll(text, password, "***")
	}
	return onerun.Redact(text)
}

// Changed tells an operator that a run is not what they saw.
func Changed(r onerun.Run) error {
	return &onerun.StateError{Why: fmt.Sprintf("%s changed meanwhile: it is %s now, attempt %d; look again", r.Name(), r.Status, r.Attempt)}
}

// usage is an error of the caller's.
func usage(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{onerun.ErrUsage}, args...)...)
}
