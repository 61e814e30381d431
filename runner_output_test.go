package onerun_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/onerun-dev/onerun"
)

// TestOwnerKeepsOutput: however the function ends, what it handed over is recorded with the
// end, masked.
func TestOwnerKeepsOutput(t *testing.T) {
	for name, end := range map[string]func() error{
		"success": func() error { return nil },
		"failure": func() error { return errors.New("boom") },
		"panic":   func() error { panic("boom") },
		"goexit":  func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					_ = b.do(nightly, func(_ context.Context, o *onerun.Owner) error {
						o.KeepOutput(onerun.Output{Text: "earlier"})
						o.KeepOutput(onerun.Output{Text: "card-4711 password=x", Total: 20})
						return end()
					}, onerun.WithRedaction(func(s string) string { return strings.ReplaceAll(onerun.Redact(s), "4711", "***") }))
				}()
				<-done
				o, err := b.mem.Output(context.Background(), onerun.DefaultNamespace, b.last("nightly").RunID, 1)
				if err != nil || o.Text != "card-*** password=***" || o.Total != 20 {
					t.Errorf("%+v, %v", o, err)
				}
			})
		})
	}
}

// TestCleanOutput: text for every store, which stays as it is when it is cleaned again.
func TestCleanOutput(t *testing.T) {
	for in, want := range map[string]string{
		"":                    "",
		"plain 말\n":           "plain 말\n",
		"a\x00b\xff":          `a\x00b\xff`,
		"\xeb\xa7":            `\xeb\xa7`,
		"\uFFFD":              "\uFFFD",
		"\x1b[31mred":         "\x1b[31mred",
		"password=x\x00":      `password=***`,
		"token=\xffsecret ok": `token=*** ok`,
	} {
		if got := onerun.CleanOutput(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\x00\xff\xeb\xa7\x90 a="))), 0, 50).Draw(t, "text"))
		got := onerun.CleanOutput(in)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) || onerun.CleanOutput(got) != got {
			t.Fatalf("%q: %q, then %q", in, got, onerun.CleanOutput(got))
		}
		n := rapid.IntRange(0, 60).Draw(t, "n")
		if end := onerun.LastBytes(got, n); len(end) > n || !strings.HasSuffix(got, end) || !utf8.ValidString(end) || len(end) < min(n, len(got))-3 {
			t.Fatalf("last %d of %q: %q", n, got, end)
		}
	})
}
