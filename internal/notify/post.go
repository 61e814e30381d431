package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/onerun-dev/onerun/internal/httpconn"
)

// letter is one POST.
type letter struct {
	url     *url.URL
	body    []byte
	headers map[string]string
}

// webhook is the letter of a message. With a secret it is signed by the Standard Webhooks specification.
func webhook(t Target, body []byte, id string) letter {
	l := letter{url: t.url, body: body, headers: map[string]string{"Content-Type": "application/json"}}
	if t.secret != nil {
		at := strconv.FormatInt(time.Now().Unix(), 10) // of this try: receivers refuse what is old
		l.headers["webhook-id"], l.headers["webhook-timestamp"] = id, at
		l.headers["webhook-signature"] = "v1," + sign(t.secret, id, at, body)
	}
	return l
}

func sign(key []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.", id, at) // a hash takes all
	_, _ = mac.Write(body)
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// post is one try. What goes over TLS, onerun-full sends.
func (s *Sender) post(ctx context.Context, l letter) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.headers["User-Agent"] = "onerun"
	if l.url.Scheme == "https" {
		return late(s.deliver(ctx, Letter{URL: l.url.String(), Headers: l.headers, Body: l.body}), patience)
	}
	if u := l.url.User; u != nil {
		password, _ := u.Password()
		l.headers["Authorization"] = "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password))
	}
	port := l.url.Port()
	if port == "" {
		port = "80"
	}
	status, _, err := httpconn.Exchange(ctx, "tcp", net.JoinHostPort(l.url.Hostname(), port), httpconn.Sent{
		Method: "POST", Host: l.url.Host, Target: l.url.RequestURI(), Fields: l.headers, Body: l.body,
	})
	if status == 0 {
		return late(passing{err}, patience)
	}
	// What it says counts, and that has come: how the rest of the answer ends doesn't matter.
	again, err := Judge(status)
	if again {
		return passing{err}
	}
	return err
}

// Judge is what the status of an answer means, and whether it is worth to try again.
func Judge(status int) (again bool, err error) {
	err = fmt.Errorf("the answer was %d %s", status, httpconn.Words(status))
	switch {
	case status/100 == 2:
		return false, nil
	case status == 429 || status/100 == 5:
		return true, err
	case status/100 == 3:
		return false, fmt.Errorf("%w: redirects are not followed; write the URL that it leads to", err)
	}
	return false, err
}
