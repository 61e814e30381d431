package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/internal/notify"
)

// notifyFlags say whom to tell what becomes of the job.
type notifyFlags struct {
	Notify   addresses     `placeholder:"URL" help:"Tell URL: a webhook (https://…), command:LINE, or a chat service (slack://…); @FILE holds URLs, one a line; may be repeated."`
	NotifyOn notify.Events `default:"failure,blocked,late,recovery" placeholder:"EVENTS" help:"What to tell: failure, blocked, skip, late, recovery (failure,blocked,late,recovery)."`
	Ping     address       `placeholder:"URL" help:"Dead-man's switch, as of healthchecks.io: POST URL/start, then URL or URL/fail; @FILE holds the URL."`

	TextfileDir word `placeholder:"DIR" help:"Write DIR/onerun_NAMESPACE_JOB.prom after each end and each refusal, for node_exporter's --collector.textfile.directory."`
}

// address is a URL that is a secret as a whole, or @FILE that holds some.
type address string

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *address) UnmarshalText(text []byte) error {
	if len(text) == 0 || string(text) == "@" {
		return errors.New("the value is empty; leave it out, or give one")
	}
	*a = address(text)
	return nil
}

// addresses are those of a flag that may be repeated.
type addresses []address

// UnmarshalText adds one. It implements encoding.TextUnmarshaler.
func (a *addresses) UnmarshalText(text []byte) error {
	var one address
	err := one.UnmarshalText(text)
	if err == nil {
		*a = append(*a, one)
	}
	return err
}

// String shows where they lead, and nothing more.
func (a addresses) String() string {
	shown := make([]string, len(a))
	for i, one := range a {
		shown[i] = one.String()
	}
	return strings.Join(shown, " ")
}

func (a address) String() string {
	if a == "" {
		return ""
	}
	return notify.Shown(string(a))
}

// checkAddress and checkPing are what the configuration file asks of an address. What stands in
// another file is read when it is used.
func checkAddress(text string) error {
	if file, ok := strings.CutPrefix(text, "@"); ok && file != "" {
		return nil
	}
	_, err := notify.Parse(text)
	return plain(err)
}

// plain says of an error of package notify that it shows nothing of an address but its scheme.
func plain(err error) error {
	if err == nil {
		return nil
	}
	return config.Plain{Err: err}
}

func checkPing(text string) error {
	if file, ok := strings.CutPrefix(text, "@"); ok && file != "" {
		return nil
	}
	_, err := notify.ParsePing(text)
	return plain(err)
}

// urls are the URLs of an address: itself, or those in the file that it names.
func (a address) urls() ([]string, error) {
	path, ok := strings.CutPrefix(string(a), "@")
	if !ok {
		return []string{string(a)}, nil
	}
	text, err := named(path)
	if err != nil {
		return nil, a.inFile(pathCause(err))
	}
	urls := notify.Lines(string(text))
	if len(urls) == 0 {
		return nil, a.inFile(errors.New("there is none in it"))
	}
	return urls, nil
}

// inFile is an error about what stands in the file of an address.
func (a address) inFile(err error) error {
	return &onerun.StoreError{Kind: onerun.ErrConfig, What: "file with URLs to tell", Path: strings.TrimPrefix(string(a), "@"), Err: err}
}

// blame is an error about one URL of an address: of a flag (64), or in a file (78).
func (a address) blame(flag string, err error) error {
	if strings.HasPrefix(string(a), "@") {
		return a.inFile(err)
	}
	return usage("--%s: %s", flag, err)
}

// listeners are whom to tell what, read from the flags.
type listeners struct {
	on      notify.Events
	urls    []string // of targets, for a guard
	targets []notify.Target
	pingURL string
	ping    *notify.Ping
}

// read understands all addresses, so that a mistake is found before anything is claimed. nil:
// there is nobody to tell.
func (f notifyFlags) read() (*listeners, error) {
	t := &listeners{on: f.NotifyOn}
	for _, a := range f.Notify {
		urls, err := a.urls()
		if err != nil {
			return nil, err
		}
		for _, u := range urls {
			target, err := notify.Parse(u)
			if err != nil {
				return nil, a.blame("notify", err)
			}
			t.urls, t.targets = append(t.urls, u), append(t.targets, target)
		}
	}
	if f.Ping != "" {
		urls, err := f.Ping.urls()
		if err != nil {
			return nil, err
		}
		if len(urls) > 1 {
			return nil, f.Ping.inFile(fmt.Errorf("there are %d in it, and a ping has one", len(urls)))
		}
		p, err := notify.ParsePing(urls[0])
		if err != nil {
			return nil, f.Ping.blame("ping", err)
		}
		t.pingURL, t.ping = urls[0], &p
	}
	if t.targets == nil && t.ping == nil {
		return nil, nil
	}
	return t, nil
}

// fullProgram is the program that knows TLS and chat services, beside this one; "" if it is not there.
func fullProgram() string { return beside(notify.Companion) }
