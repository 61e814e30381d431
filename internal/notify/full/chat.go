// Package full sends what takes more than every start of a job should link: messages to chat services, and requests over
// TLS. It is linked by onerun-full alone, which onerun starts when there is one to be sent: see docs/weight.md.
package full

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"github.com/onerun-dev/onerun/internal/notify"
)

// exitUsage is for what can't be a letter of onerun's (EX_USAGE, sysexits.h).
const exitUsage = 64

// Send reads one [notify.Letter], sends it, and returns the exit status. Why it could not be sent is one line to errs;
// onerun takes out of it what is secret.
func Send(in io.Reader, errs io.Writer) int {
	var l notify.Letter
	err := json.NewDecoder(in).Decode(&l)
	if err != nil {
		_, _ = fmt.Fprintln(errs, "this is not what onerun sends")
		return exitUsage
	}
	again := false
	if l.Headers != nil {
		again, err = post(l)
	} else {
		again, err = send(l)
	}
	if err == nil {
		return 0
	}
	status := 1
	if again {
		status = notify.ExitPassing
	}
	_, _ = fmt.Fprintln(errs, strings.Join(strings.Fields(err.Error()), " "))
	return status
}

// send sends to a chat service. again says that what went wrong may be over in a moment.
func send(l notify.Letter) (again bool, err error) {
	s, err := (&router.ServiceRouter{}).Locate(l.URL)
	if err != nil {
		return false, bare(err)
	}
	params := types.Params{}
	params.SetTitle(l.Title)
	err = s.Send(l.Text, &params)
	var network net.Error
	return errors.As(err, &network), bare(err)
}

// bare is an error without the URL that it is about.
func bare(err error) error {
	var web *url.Error
	if errors.As(err, &web) {
		return web.Err
	}
	return err
}

// Services are the schemes that the library knows.
func Services() []string { return (&router.ServiceRouter{}).ListServices() }
