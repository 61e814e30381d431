// Package storeurl knows what the URLs of stores have in common, without knowing a store.
package storeurl

import (
	"net/url"
	"strings"
)

// Redact hides what may be secret in a store URL, for messages and logs: the user part,
// and parameters that are named after a secret.
func Redact(storeURL string) string {
	scheme, rest, slashes := strings.Cut(storeURL, "://")
	if slashes && !strings.HasPrefix(storeURL, "sqlite:") {
		// A password may hold a slash or a question mark, if its writer didn't know better.
		at := strings.LastIndexByte(rest, '@')
		if at < 0 {
			return scheme + "://" + redactPairs(rest)
		}
		return scheme + "://***" + redactPairs(rest[at:])
	}
	base, query, ok := strings.Cut(storeURL, "?")
	switch {
	case slashes:
		end := len(base)
		if i := strings.IndexAny(rest, "/#?"); i >= 0 { // a path may hold an "@"
			end = len(scheme) + len("://") + i
		}
		if at := strings.LastIndexByte(base[:end], '@'); at >= 0 {
			base = scheme + "://***" + base[at:]
		}
	case strings.HasPrefix(base, "sqlite:"):
	default: // a driver's own form: user:password@tcp(host)/db, or host=db password=…
		if at := strings.LastIndexByte(base, '@'); at >= 0 {
			base = "***" + base[at:]
		}
		words := strings.Split(base, " ")
		for i, word := range words {
			if name, _, has := strings.Cut(word, "="); has && secretName(name) {
				words[i] = name + "=***"
			}
		}
		base = strings.Join(words, " ")
	}
	if !ok {
		return base
	}
	return base + redactPairs("?"+query)
}

// redactPairs hides the values of the parameters in a URL's text that are named after a secret.
func redactPairs(text string) string {
	var b strings.Builder
	for {
		i := strings.IndexAny(text, "?&")
		pair := text
		if i >= 0 {
			pair = text[:i]
		}
		if name, _, has := strings.Cut(pair, "="); has && secretName(name) {
			pair = name + "=***"
		}
		b.WriteString(pair)
		if i < 0 {
			return b.String()
		}
		b.WriteByte(text[i])
		text = text[i+1:]
	}
}

// Secret reports whether a store URL holds a password itself, and so must not be handed
// on to a job. A password may hold a slash or a question mark, if its writer didn't know better, and some stores take it so.
func Secret(storeURL string) bool {
	base, query, _ := strings.Cut(storeURL, "?")
	if _, rest, ok := strings.Cut(base, "://"); ok && !strings.HasPrefix(base, "sqlite:") {
		if !strings.Contains(rest, "/") { // else an @ of a parameter is its own
			rest += "?" + query
		}
		if user, _, has := cutLast(rest, "@"); has && strings.Contains(user, ":") {
			return true
		}
	}
	for pair := range strings.SplitSeq(query, "&") {
		if name, _, has := strings.Cut(pair, "="); has && secretName(name) {
			return true
		}
	}
	return false
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func secretName(name string) bool {
	if plain, err := url.QueryUnescape(name); err == nil { // a driver reads it so
		name = plain
	}
	name = strings.ToLower(name)
	for _, word := range []string{"pass", "pwd", "token", "secret", "credential"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
