package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/config"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// find finds the store as every command does, but makes nothing that isn't there.
func (d *doctor) find(ctx context.Context, lockDir string) error {
	e := d.env
	var err error
	if e.Namespace, err = onerun.CleanName("namespace", e.Namespace); err != nil {
		return err
	}
	e.looking = true
	if d.place, err = e.place(); err != nil {
		return err
	}
	if d.place.usual && !exists(filepath.Dir(storeFile(d.place.url, "."))) {
		d.path = storeFile(d.place.url, ".")
		d.lockDir = filepath.Join(filepath.Dir(d.path), "locks")
		d.add("store", onerun.FindingUnknown, "there is no store yet; the first start makes "+d.path, "")
		return nil
	}
	d.store, err = e.openAt(ctx, d.place.url, e.usualLockDir(lockDir))
	if err != nil {
		return d.place.blame(err)
	}
	if s, ok := d.store.(interface {
		Path() string
		LockDir() string
	}); ok {
		d.path, d.lockDir = realPath(s.Path()), s.LockDir()
	}
	return nil
}

// usualIn is the directory of the embedded store of an ordinary account.
func usualIn(home string) string { return filepath.Join(home, ".local", "state", "onerun") }

// storeFile is the database that a store's URL names, as seen from a working directory;
// "" when it names another kind of store, or a file with the URL can't be read.
func storeFile(url, dir string) string {
	at := func(path string) string {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path
	}
	if file, ok := strings.CutPrefix(url, "@"); ok {
		b, err := foreign(at(file))
		if err != nil {
			return ""
		}
		url = strings.TrimSpace(string(b))
	}
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok {
		return ""
	}
	path, _, _ = strings.Cut(path, "?")
	path = at(strings.TrimPrefix(path, "//"))
	if st, err := os.Stat(path); err == nil && st.IsDir() || strings.HasSuffix(path, "/") {
		path = filepath.Join(path, sqlite.DatabaseName)
	}
	return realPath(path)
}

// storeByConfig is the database that a configuration file names, or the machine's file when
// none is named; "" when there is none, or it names no local store, or can't be read.
func storeByConfig(path, dir string) string {
	switch {
	case path == "" && !exists(systemConfig):
		return ""
	case path == "":
		path = systemConfig
	case !filepath.IsAbs(path):
		path = filepath.Join(dir, path)
	}
	text, err := foreign(path)
	if err != nil {
		return ""
	}
	file, err := config.Parse(path, text, schema())
	if err != nil {
		return ""
	}
	url, _ := (&env{file: file}).storeInFile()
	if url == "" {
		return ""
	}
	return storeFile(url, dir)
}

// realPath is a path without symbolic links in its directory.
func realPath(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return abs
	}
	return filepath.Join(dir, filepath.Base(abs))
}
