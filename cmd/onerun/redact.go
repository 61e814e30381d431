package main

import (
	"regexp"

	"github.com/onerun-dev/onerun"
)

// redacted masks what is secret by its form (see onerun.Redact) or by the configuration
// file's `redact` patterns. Whatever is kept, logged or told passes through it.
func (e *env) redacted(s string) string { return maskAll(e.secrets, onerun.Redact(s)) }

func maskAll(patterns []*regexp.Regexp, s string) string {
	for _, p := range patterns {
		s = p.ReplaceAllLiteralString(s, onerun.Masked)
	}
	return s
}

// redactedLabels masks labels; one that is named after a secret is one.
func redactedLabels(e *env, labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return labels
	}
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		if onerun.SecretName(k) {
			v = onerun.Masked
		}
		out[e.redacted(k)] = e.redacted(v)
	}
	return out
}
