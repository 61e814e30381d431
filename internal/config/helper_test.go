package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/config"
)

// schema is what the tests' files may hold; SPEC.md's example needs no more.
func schema() config.Schema {
	word := config.Key{}
	duration := config.Key{Check: func(text string) error {
		if _, err := time.ParseDuration(text); err != nil && strings.Trim(text, "0123456789") != "" {
			return fmt.Errorf("%q is no duration; write for example 90s", text)
		}
		return nil
	}}
	later := func(why string) config.Key { return config.Key{Kind: config.Any, Later: why} }
	return config.Schema{
		Top: map[string]config.Key{
			"store": {Check: checkStore}, "namespace": word, "timezone": word, "log_level": word, "store_timeout": duration,
			"alerts": later("this version sends no alerts"),
		},
		Job: map[string]config.Key{
			"period": word, "date": word, "command": {Kind: config.List}, "shell": word, "on_crash": {Check: oneOf("auto", "manual")},
			"timeout": duration, "ttl": duration, "version_label": word, "retry_later": {Kind: config.Bool},
			"label": {Kind: config.Map, Check: func(text string) error {
				if !strings.Contains(text, "=") || strings.HasPrefix(text, "bad=") {
					return fmt.Errorf("%q is no label", text)
				}
				return nil
			}},
			"notify": {Kind: config.List, Check: func(text string) error {
				if !strings.Contains(text, "ops") {
					return fmt.Errorf("nobody is called %q", text)
				}
				return nil
			}},
			"rerun":    {Later: "this version knows one person"},
			"schedule": later("this version has no scheduler"), "catch_up": later("this version has no scheduler"),
			"overlap": later("this version has no scheduler"), "start_by": later("this version has no scheduler"),
			"finish_by": later("this version has no scheduler"),
		},
	}
}

// checkStore says about a bad URL what a careless library would.
func checkStore(text string) error {
	if strings.HasPrefix(text, "@") || strings.HasPrefix(text, "sqlite:") {
		return nil
	}
	return fmt.Errorf("parse %q: unknown scheme, at /%s", text, strings.TrimPrefix(text, "postgres://"))
}

func oneOf(words ...string) func(string) error {
	return func(text string) error {
		for _, w := range words {
			if text == w {
				return nil
			}
		}
		return fmt.Errorf("%q is none of %s", text, strings.Join(words, ", "))
	}
}

func parse(t *testing.T, text string) *config.File {
	t.Helper()
	f, err := config.Parse("onerun.yaml", []byte(text), schema())
	if err != nil {
		t.Fatalf("refused: %v\n%s", err, text)
	}
	return f
}

// refused gives the errors of a text, each as LINE:COLUMN: MESSAGE.
func refused(t *testing.T, text string) []string {
	t.Helper()
	f, err := config.Parse("onerun.yaml", []byte(text), schema())
	var errs config.Errors
	if !errors.As(err, &errs) || usable(f) {
		t.Fatalf("gave %v and %v, want Errors\n%s", f, err, text)
	}
	var lines []string
	for _, e := range errs {
		lines = append(lines, strings.TrimPrefix(e.Error(), "onerun.yaml:"))
	}
	return lines
}

// usable reports whether a file has settings; what comes with an error has none.
func usable(f *config.File) bool {
	return f == nil || f.Top != nil || f.Defaults != nil || f.Jobs != nil || f.Calendars != nil
}
