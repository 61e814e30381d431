package onerun

import (
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// payloadBytes is before a payload that is kept as hexadecimal digits.
const payloadBytes = `\x`

// KeptPayload is an item's payload in the form for a store that keeps text: what is text stays as it is, and other bytes,
// such as a digest that isn't written out, are \x and their hexadecimal digits.
func KeptPayload(payload string) string {
	if utf8.ValidString(payload) && !strings.ContainsRune(payload, 0) && !strings.HasPrefix(payload, payloadBytes) {
		return payload
	}
	return payloadBytes + hex.EncodeToString([]byte(payload))
}

// PayloadOf is the payload of what KeptPayload gave.
func PayloadOf(kept string) string {
	digits, ok := strings.CutPrefix(kept, payloadBytes)
	if !ok {
		return kept
	}
	payload, err := hex.DecodeString(digits)
	if err != nil { // it was written by something else
		return kept
	}
	return string(payload)
}
