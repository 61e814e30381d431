package notify

import (
	"context"
	"net/url"
	"strings"
)

// Ping is the address of a dead-man's switch, by the conventions of healthchecks.io.
type Ping struct{ url *url.URL }

// Step is what is pinged.
type Step string

// The steps, as they follow the address.
const (
	PingStart   Step = "/start"
	PingSuccess Step = ""
	PingFail    Step = "/fail"
)

// ParsePing understands an address as --ping has it. Its errors hold nothing of the address.
func ParsePing(text string) (Ping, error) {
	u, err := webURL(text)
	if err != nil {
		return Ping{}, err
	}
	u.Fragment, u.RawFragment = "", ""
	return Ping{u}, nil
}

// String shows scheme and host: the path is what makes a ping one's own.
func (p Ping) String() string { return p.url.Scheme + "://" + p.url.Host }

// NeedsFull reports whether onerun-full has to send it: over TLS.
func (p Ping) NeedsFull() bool { return p.url.Scheme == "https" }

// at is the address of a step of a run.
func (p Ping) at(step Step, runID string) *url.URL {
	u := *p.url
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/")+string(step), ""
	if p.url.RawPath != "" {
		u.RawPath = strings.TrimSuffix(p.url.RawPath, "/") + string(step)
	}
	rid := "rid=" + url.QueryEscape(runID)
	if u.RawQuery != "" {
		rid = u.RawQuery + "&" + rid // as it was written: some servers go by the order
	}
	u.RawQuery = rid
	return &u
}

// Ping sends one step, with a text of whatever is known. No further try is begun once enough is closed.
func (s *Sender) Ping(ctx context.Context, p Ping, step Step, runID, body string, enough <-chan struct{}) error {
	l := letter{url: p.at(step, runID), body: []byte(body), headers: map[string]string{"Content-Type": "text/plain; charset=utf-8"}}
	return hidden(again(ctx, enough, func() error { return s.post(ctx, l) }), p.url.String())
}
