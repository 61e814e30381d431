package config

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// secret says whether a key's value may hold a secret, by the key's name: a store's URL has a password in it, an address
// for notes or pings is one.
func secret(key string) bool {
	k := joined(key)
	for _, part := range []string{"password", "passwd", "passphrase", "secret", "token", "credential", "webhook", "apikey", "url", "dsn"} {
		if strings.Contains(k, part) {
			return true
		}
	}
	return slices.Contains([]string{"store", "notify", "ping", "redact"}, k)
}

// mask takes out of a message about a value every word that the value has too, with all that is joined to it, so that
// neither the whole nor a part of the value is shown, however the message came by it. A word of up to three characters is only taken for the
// value's if it is one of the words of that: "no" is in many.
func mask(message, value string) string {
	hay, known := unescaped(value)
	text, plain := unescaped(message)
	if !known || !plain {
		return "refused (why isn't shown: the reason could hold a part of the value)"
	}
	hay = strings.ToLower(hay + "\n" + value)
	between := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	whole := strings.FieldsFunc(hay, between)
	words := strings.Fields(text)
	for i, joined := range words {
		parts := strings.FieldsFunc(joined, between)
		if len(parts) == 0 {
			parts = []string{strings.Trim(joined, `"'`)}
		}
		if slices.ContainsFunc(parts, func(part string) bool {
			part = strings.ToLower(part)
			if short := len(part) <= 3 && !strings.ContainsFunc(part, between); short {
				return slices.Contains(whole, part)
			}
			return strings.Contains(hay, part)
		}) {
			words[i] = "***"
		}
	}
	return strings.Join(slices.Compact(words), " ")
}

// unescaped undoes the escaping of URLs. It refuses a text that other ways of escaping would change.
func unescaped(s string) (string, bool) {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '\\' }) {
		return "", false
	}
	plain, err := url.PathUnescape(s)
	return plain, err == nil
}
