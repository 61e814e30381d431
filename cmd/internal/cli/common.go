package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/storeurl"
	"github.com/onerun-dev/onerun/schedule"
)

// common are the flags that every command takes.
type common struct {
	Store        word     `placeholder:"URL" help:"Store, for example sqlite:/var/lib/onerun/onerun.db, or @FILE that holds the URL (ONERUN_STORE)."`
	Namespace    string   `default:"default" placeholder:"NAME" help:"Environment that keys and locks live in (default: default)."`
	Config       word     `placeholder:"FILE" help:"Configuration file (ONERUN_CONFIG, else /etc/onerun/onerun.yaml if it is there)."`
	LogFormat    string   `enum:"text,json" default:"text" placeholder:"text|json" help:"Format of log lines on standard error."`
	LogLevel     string   `enum:"auto,debug,info,warn,error" default:"auto" placeholder:"LEVEL" help:"Least level that is logged: debug, info, warn, error (default: info on a terminal, else warn)."`
	LogFile      word     `placeholder:"FILE" help:"Append log lines to FILE instead of standard error."`
	LogPaths     string   `enum:"full,short" default:"full" placeholder:"full|short" help:"How log lines show paths."`
	StoreTimeout duration `default:"10s" placeholder:"D" help:"How long to wait for the store (10s)."`
}

// word is the value of a flag that must not be empty: --date "$D" with D unset would
// be a run without a key, and --store "$S" another store.
type word string

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *word) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return errors.New("the value is empty; leave it out, or give one")
	}
	*w = word(text)
	return nil
}

// duration is a flag: 90s, 5m, 2d, 1h30m, or bare seconds.
type duration time.Duration

const day = 24 * time.Hour

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *duration) UnmarshalText(text []byte) error {
	v, err := schedule.ParseDuration(string(text))
	if err == nil {
		*d = duration(v)
	}
	return err
}

// waiting is a duration, or "forever".
type waiting time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *waiting) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*w = waiting(onerun.Forever)
		return nil
	}
	var d duration
	if err := d.UnmarshalText(text); err != nil {
		return err
	}
	*w = waiting(d)
	return nil
}

func (w waiting) String() string {
	if time.Duration(w) == onerun.Forever {
		return "forever"
	}
	return time.Duration(w).String()
}

// backoff is the least and the greatest wait before a retry.
type backoff struct{ least, most duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *backoff) UnmarshalText(text []byte) error {
	least, most, two := strings.Cut(string(text), "..")
	if !two {
		most = least
	}
	var v backoff
	if v.least.UnmarshalText([]byte(least)) != nil || v.most.UnmarshalText([]byte(most)) != nil {
		return fmt.Errorf("%q is no backoff; write MIN..MAX, for example 10s..10m, or one duration", text)
	}
	if v.least > v.most {
		return fmt.Errorf("the backoff %q ends before it begins; write the shorter wait first", text)
	}
	*b = v
	return nil
}

func (b backoff) String() string {
	return time.Duration(b.least).String() + ".." + time.Duration(b.most).String()
}

// place is the store that a command works on.
type place struct {
	url     string
	secret  bool   // ONERUN_STORE itself holds a password, whether it is the store or not
	source  string // where the URL stands, if not in the flag
	usual   bool   // nothing names it
	private bool   // the default one of an ordinary account, which no other account uses
}

// open opens the store, by the search order of place.
func (e *env) open(ctx context.Context, lockDir string) (onerun.Store, place, error) {
	var err error
	lockDir = e.usualLockDir(lockDir)
	e.lockDir = lockDir
	if e.Namespace, err = onerun.CleanName("namespace", e.Namespace); err != nil {
		return nil, place{}, err
	}
	p, err := e.place()
	if err != nil {
		return nil, p, err
	}
	s, err := e.openAt(ctx, p.url, lockDir)
	return s, p, p.blame(err)
}

// blame says where a URL stands that can't be understood.
func (p place) blame(err error) error {
	if errors.Is(err, onerun.ErrUsage) && p.source != "" {
		return &onerun.StoreError{Kind: onerun.ErrConfig, What: p.source, Err: errors.New(strings.TrimPrefix(err.Error(), "usage: "))}
	}
	return err
}

// place finds the store: flag, environment, configuration file, else the embedded one.
func (e *env) place() (place, error) {
	inherited := os.Getenv("ONERUN_STORE")
	p := place{url: string(e.Store), secret: storeurl.Secret(inherited)}
	if p.url == "" {
		p.url, p.source = inherited, "ONERUN_STORE"
	}
	if p.url == "" || p.url == withheld {
		p.url, p.source = e.storeInFile()
	}
	if err := e.follow(&p); err != nil || p.url != "" {
		return p, err
	}
	switch {
	case os.Getenv("ONERUN_RUN_ID") != "", inherited == withheld:
		return p, &onerun.StoreError{
			Kind: onerun.ErrConfig, What: "store", Err: errors.New("none is named, inside a job of onerun's"),
			Do: "give --store or ONERUN_STORE: the embedded store could be another one than the job's",
		}
	case os.Getenv("KUBERNETES_SERVICE_HOST") != "":
		return p, &onerun.StoreError{
			Kind: onerun.ErrConfig, What: "store", Err: errors.New("none is named, in Kubernetes"),
			Do: "give --store or ONERUN_STORE: a pod's own disk protects nothing",
		}
	}
	dir, private, err := e.embedded()
	p.url, p.usual, p.private = "sqlite:"+filepath.Join(dir, "onerun.db"), true, private
	return p, err
}

// follow reads the file that has the URL, where @FILE names one.
func (e *env) follow(p *place) error {
	file, ok := strings.CutPrefix(p.url, "@")
	if !ok {
		return nil
	}
	p.source = "file with the store's URL " + file
	e.readOnce(file)
	b, err := named(file)
	if err != nil {
		return &onerun.StoreError{Kind: fileKind(err), What: "file with the store's URL", Path: file, Err: pathCause(err)}
	}
	if p.url = strings.TrimSpace(string(b)); p.url == "" {
		return &onerun.StoreError{Kind: onerun.ErrConfig, What: "file with the store's URL", Path: file, Err: errors.New("it is empty")}
	}
	return nil
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// fileKind is the kind of an error that reading a file gave.
func fileKind(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return onerun.ErrPermission
	case errors.Is(err, fs.ErrNotExist):
		return onerun.ErrConfig
	}
	return onerun.ErrIO
}

// createKind is the kind of an error that making a file or directory gave.
func createKind(err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return onerun.ErrPermission
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EIO), errors.Is(err, syscall.EFBIG):
		return onerun.ErrIO
	}
	return onerun.ErrCreate
}

func pathCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
