package cli

import (
	"errors"
	"reflect"
	"regexp"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/internal/masking"
)

// redacted masks what is secret by its form (see onerun.Redact) or by the configuration
// file's `redact` patterns. Whatever is kept, logged or told passes through it, but for names
// that have been checked: masked, a key could be neither found nor typed.
func (e *env) redacted(s string) string {
	return masking.Keep(func(s string) string { return maskAll(e.secrets, onerun.Redact(s)) }, s, e.names...)
}

// about notes the job or key that a command names, if it is one, and what it has no flag for.
func (e *env) about(cmd command) {
	v := reflect.Indirect(reflect.ValueOf(cmd))
	e.placesLocks = v.FieldByName("LockDir").IsValid()
	for _, field := range [...]string{"Key", "Job"} {
		if f := v.FieldByName(field); f.IsValid() && f.Kind() == reflect.String {
			if job, partition, err := onerun.SplitKey(f.String()); err == nil {
				e.names = append(e.names, onerun.MakeKey(job, partition), f.String())
			}
		}
	}
}

// told is the message of an error with what is secret masked. What it repeats of a value or names of a path is looked at by itself: before a
// colon of onerun's own words, "/etc/passwd" looks like the name of a secret, and the words like that.
func told(redact func(string) string, err error) string {
	text, own := err.Error(), repeatedBy(err)
	before, after, ok := strings.Cut(text, own+": ")
	if own == "" || !ok || before != "" && !strings.HasSuffix(before, " ") { // a short one may stand within a word
		return redact(text)
	}
	return redact(before) + redact(own) + ": " + redact(after)
}

// repeatedBy is what an error repeats of a value, or the path that it names.
func repeatedBy(err error) string {
	var file *onerun.StoreError
	if own := config.RepeatedBy(err); own != "" || !errors.As(err, &file) {
		return own
	}
	return file.Path
}

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
