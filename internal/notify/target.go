package notify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Kind is a way to tell somebody.
type Kind int

// The kinds.
const (
	Webhook Kind = iota + 1 // http and https: one POST
	Command                 // command:LINE, executed by a shell
	Chat                    // a service that onerun-full knows
)

// NeedsFull reports whether onerun-full has to send what goes there: over TLS, or to a chat
// service.
func (t Target) NeedsFull() bool {
	return t.Kind == Chat || t.Kind == Webhook && t.url.Scheme == "https"
}

// Target is where messages go. All of it but what String shows is secret.
type Target struct {
	Kind   Kind
	url    *url.URL // of a webhook, without the fragment
	secret []byte   // what a webhook's messages are signed with; nil: they are not
	raw    string   // of a command: the line; else the whole URL
}

// commandScheme begins the URL of a command.
const commandScheme = "command:"

// Parse understands a URL as --notify has it. Its errors hold nothing of the URL but the scheme.
func Parse(text string) (Target, error) {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return Target{}, errors.New("the URL has control characters in it")
	}
	if line, ok := strings.CutPrefix(text, commandScheme); ok {
		if strings.TrimSpace(line) == "" {
			return Target{}, errors.New("command: has no command; write command:LINE")
		}
		return Target{Kind: Command, raw: line}, nil
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || !isScheme(scheme) || rest == "" {
		return Target{}, errors.New("this is no URL; write https://HOST/PATH, command:LINE, the URL of a chat service, or @FILE that holds one")
	}
	scheme = strings.ToLower(scheme)
	switch {
	case scheme == "http" || scheme == "https":
		return parseWebhook(text)
	case !isService(scheme):
		return Target{}, fmt.Errorf("%q is no way to tell anybody; use http, https, command, or one of %s", scheme, strings.Join(services, " "))
	case !strings.HasPrefix(rest, "//"):
		return Target{}, fmt.Errorf("the URL has to begin with %s://", scheme)
	}
	if _, err := url.Parse(text); err != nil { // whose text would show it
		return Target{}, fmt.Errorf("the URL that begins with %s:// is malformed", scheme)
	}
	return Target{Kind: Chat, raw: text}, nil
}

// isScheme goes by RFC 3986, section 3.1, and by what can't be a secret that somebody took for a URL.
func isScheme(s string) bool {
	return s != "" && len(s) <= 20 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '+'
	})
}

func parseWebhook(text string) (Target, error) {
	u, err := webURL(text)
	if err != nil {
		return Target{}, err
	}
	t := Target{Kind: Webhook, url: u, raw: text}
	if u.Fragment != "" {
		key, ok := strings.CutPrefix(u.Fragment, "secret=")
		if !ok || key == "" {
			return Target{}, errors.New("what follows # in the URL of a webhook is not sent; only #secret=KEY means something there")
		}
		if t.secret, err = signingKey(key); err != nil {
			return Target{}, err
		}
		u.Fragment, u.RawFragment = "", ""
	}
	return t, nil
}

// isPort reports whether a text is the number of a port; empty: the scheme's.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// webURL is a URL of http or https with a host.
func webURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("the URL is malformed")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL has to begin with https:// or http://")
	case !isPort(u.Port()):
		return nil, errors.New("the port in the URL is none; it can be 1 to 65535")
	case u.Hostname() == "":
		return nil, fmt.Errorf("the URL has no host; write %s://HOST/PATH", u.Scheme)
	}
	return u, nil
}

// signingKey is the key of a secret as Standard Webhooks writes it (whsec_BASE64), or of any text.
func signingKey(secret string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		key, err = base64.RawStdEncoding.DecodeString(encoded)
	}
	if err != nil || len(key) == 0 {
		return nil, errors.New("what follows whsec_ in the secret is not base64")
	}
	return key, nil
}

// String shows where messages go, without anything that may be secret: of a chat service even the host can be a token.
func (t Target) String() string {
	switch t.Kind {
	case Webhook:
		return t.url.Scheme + "://" + t.url.Host
	case Chat:
		scheme, _, _ := strings.Cut(t.raw, ":")
		return strings.ToLower(scheme) + "://"
	}
	return commandScheme
}

// Shown is String for what is yet to be parsed, or can't be.
func Shown(text string) string {
	if strings.HasPrefix(text, "@") {
		return text
	}
	t, err := Parse(text)
	if err != nil {
		return "?"
	}
	return t.String()
}

// Lines are the URLs of a file: one a line, blank lines and those that begin with # apart.
func Lines(text string) (urls []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			urls = append(urls, line)
		}
	}
	return urls
}
