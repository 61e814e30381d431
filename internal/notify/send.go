package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Bounds of one message. The caller's context is the bound of all of them.
const (
	tries     = 3
	firstRest = 500 * time.Millisecond
	patience  = 5 * time.Second  // of one try over the network, to connect and be answered
	running   = 10 * time.Second // of a command
)

// Sender sends. Its zero value does, but for what onerun-full is needed for.
type Sender struct {
	Full string   // the path of onerun-full; "": there is none
	Env  []string // the environment of commands, which gets the message's variables
	Dir  string   // their working directory

	mu       sync.Mutex
	children map[int]bool // those that are waited for
}

// Owns reports whether a process is a child that a message is sent by: its status is not for
// whoever reaps orphans.
func (s *Sender) Owns(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[pid]
}

// Send tells one target. id is the message's own, the same at each try, so that a receiver can tell that one came twice.
// The error says why it could not be told, without anything that is secret.
func (s *Sender) Send(ctx context.Context, t Target, m Message, id string) error {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return err
	}
	var err error
	switch t.Kind {
	case Webhook:
		err = again(ctx, nil, func() error { return s.post(ctx, webhook(t, body.Bytes(), id)) })
	case Command:
		return s.command(ctx, t.raw, m.variables(), body.Bytes()) // whose words are its own
	case Chat:
		err = again(ctx, nil, func() error { return s.chat(ctx, t.raw, m) })
	}
	return hidden(err, t.raw)
}

// passing is an error that may be over in a moment.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// again tries up to three times while what goes wrong may be over in a moment, and until enough is closed.
func again(ctx context.Context, enough <-chan struct{}, once func() error) error {
	rest := firstRest
	for n := 1; ; n++ {
		err := once()
		var p passing
		if !errors.As(err, &p) || n == tries {
			return err
		}
		timer := time.NewTimer(rest/2 + rand.N(rest/2)) // a thousand jobs that fail together come back one by one
		rest *= 2
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
		case <-enough:
		}
		timer.Stop()
		return err
	}
}

// hidden takes out of an error every part of a URL but its scheme and host, whoever put it there: a server may send back
// what it was sent.
func hidden(err error, raw string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, part := range parts(raw) {
		text = strings.ReplaceAll(text, part, "***")
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// parts are the words of a URL that may be secret, as they are written and as they are meant: a service puts them together
// in its own way. Of a web address the host is no secret; of a chat service's all may be.
func parts(raw string) (words []string) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil
	}
	texts := []string{u.EscapedPath(), u.Path, u.RawQuery, u.Fragment, u.EscapedFragment()}
	if unescaped, err := url.QueryUnescape(u.RawQuery); err == nil {
		texts = append(texts, unescaped)
	}
	if u.User != nil {
		password, _ := u.User.Password()
		texts = append(texts, u.User.Username(), password, u.User.String())
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		texts = append(texts, u.Host)
	}
	for _, text := range texts {
		words = append(words, strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })...)
	}
	shown := "" // and may stay
	if u.Scheme == "http" || u.Scheme == "https" {
		shown = strings.ToLower(u.Host)
	}
	return slices.DeleteFunc(words, func(w string) bool { return len(w) < 4 || strings.Contains(shown, strings.ToLower(w)) })
}

// late says in whose words a time was over.
func late(err error, limit time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return passing{fmt.Errorf("no answer within %s", limit)}
	}
	return err
}
