package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onerun-dev/onerun/internal/config"
)

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "onerun.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("namespace: prod\ncalendars: {kr: kr.ics}\n")
	f, err := config.Load(path, schema())
	if err != nil || f.Top["namespace"].Text != "prod" || f.Calendars["kr"] != filepath.Join(dir, "kr.ics") {
		t.Fatalf("%+v, %v", f, err)
	}

	write("namespace: prod\nnamspace: x\n")
	var errs config.Errors
	if _, err = config.Load(path, schema()); !errors.As(err, &errs) || errs[0].Path != path || errs[0].Line != 2 {
		t.Errorf("a wrong file: %v", err)
	}

	// As large as may be, and a byte larger.
	write("#" + strings.Repeat("x", config.MaxSize-1))
	if _, err = config.Load(path, schema()); err != nil {
		t.Errorf("the largest file: %v", err)
	}
	write("#" + strings.Repeat("x", config.MaxSize))
	if _, err = config.Load(path, schema()); !errors.As(err, &errs) || errs[0].Error() != path+": the file is larger than 1024 KiB, so it is no configuration" {
		t.Errorf("too large a file: %v", err)
	}
}

func TestLoadWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if f, err := config.Load(os.DevNull, schema()); err != nil || len(f.Top) != 0 {
		t.Errorf("the null device: %v", err)
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{dir, syscall.EISDIR},
		{filepath.Join(dir, "none"), fs.ErrNotExist},
		{filepath.Join(dir, "none", "none"), fs.ErrNotExist},
		{"/dev/zero", fs.ErrInvalid},
	} {
		_, err := config.Load(c.path, schema())
		var errs config.Errors
		if !errors.Is(err, c.want) || errors.As(err, &errs) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v, want %v", c.path, err, c.want)
		}
	}
}

// The file of a shell's <(…).
func TestLoadPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- os.WriteFile(path, []byte("namespace: prod\n"), 0) }()
	f, err := config.Load(path, schema())
	if err != nil || f.Top["namespace"].Text != "prod" {
		t.Fatalf("%+v, %v", f, err) // nobody may have read, so the writer isn't waited for
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}
