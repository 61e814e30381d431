package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/importer"
	"github.com/onerun-dev/onerun/schedule"
)

type importCmd struct {
	Format   string `arg:"" enum:"crontab,systemd,kubernetes" help:"Of what the file is: crontab, systemd, kubernetes."`
	File     string `arg:"" help:"The crontab, the .timer with its .service beside it, or the manifests; - is standard input."`
	TZ       word   `name:"tz" placeholder:"ZONE" help:"Zone of schedules that name none (ONERUN_TZ, else the host's, local; of kubernetes UTC)."`
	System   bool   `help:"The crontab is a system table: an account stands before each command."`
	NoSystem bool   `name:"no-system" help:"The crontab is one user's: no account stands before a command."`
}

// Help explains the command.
func (importCmd) Help() string {
	return `A configuration file goes to standard output, with comments that say of each line what has become of it, and when its job
would start. What has to be looked at goes to standard error too, as FILE:LINE: TEXT. Nothing is left out in silence, nothing is
executed, and no store is asked.

It ends with 1 when there is something that could not be translated; the output has the rest.

    crontab -l | onerun import crontab - > onerun.yaml
    onerun import systemd /etc/systemd/system/backup.timer
    kubectl get cronjobs -o yaml | onerun import kubernetes -`
}

func (c *importCmd) run(_ context.Context, e *env) error {
	o := importer.Options{Zone: cmp.Or(string(c.TZ), os.Getenv("ONERUN_TZ")), Now: time.Now()}
	if o.Zone != "" {
		if _, err := schedule.LoadZone(o.Zone); err != nil {
			return err
		}
	}
	switch {
	case c.System && c.NoSystem:
		return usage("--system and --no-system say the opposite; give one")
	case (c.System || c.NoSystem) && c.Format != "crontab":
		return usage("--system and --no-system are for a crontab")
	case c.System:
		o.Table = importer.TableSystem
	case c.NoSystem:
		o.Table = importer.TableUser
	}
	name, text, err := c.read()
	if err != nil {
		return err
	}
	var r importer.Result
	switch c.Format {
	case "crontab":
		r = importer.Crontab(name, text, o)
	case "systemd":
		if c.File != "-" {
			o.Files = os.DirFS(filepath.Dir(c.File))
		}
		r = importer.Systemd(name, text, o)
	case "kubernetes":
		r = importer.Kubernetes(name, text, o)
	}
	return c.tell(e, r)
}

// tell writes the file, and then what has to be looked at, which so stands below it on a terminal.
func (c *importCmd) tell(e *env, r importer.Result) error {
	if _, err := e.out.Write(r.YAML); err != nil {
		return written(err)
	}
	var said bytes.Buffer
	for _, one := range r.Reports {
		fmt.Fprintln(&said, printable(e.redacted(one.String())))
	}
	_, _ = e.err.Write(said.Bytes())
	if r.Lost() {
		return &statusError{status: exitState}
	}
	return nil
}

// read reads the file, and one byte more than an import takes.
func (c *importCmd) read() (name string, text []byte, err error) {
	if c.File == "-" {
		text, err = io.ReadAll(io.LimitReader(os.Stdin, importer.MaxSize+1))
		return "standard-input", text, unread("standard input", err)
	}
	// Looked at before it is opened: opening a device can do something.
	info, err := os.Stat(c.File)
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "read", Path: c.File, Err: syscall.EISDIR}
	}
	if mode := fs.FileMode(0); err == nil {
		if mode = info.Mode(); !mode.IsRegular() && mode.Type() != fs.ModeNamedPipe {
			err = &fs.PathError{Op: "read", Path: c.File, Err: fmt.Errorf("%w: neither a file nor a pipe", fs.ErrInvalid)}
		}
	}
	if err != nil {
		return "", nil, unread(c.File, err)
	}
	f, err := os.Open(c.File)
	if err != nil {
		return "", nil, unread(c.File, err)
	}
	defer func() { _ = f.Close() }()
	text, err = io.ReadAll(io.LimitReader(f, importer.MaxSize+1))
	return c.File, text, unread(c.File, err)
}

func unread(path string, err error) error {
	if err == nil {
		return nil
	}
	return &onerun.StoreError{Kind: fileKind(err), What: "file to import", Path: path, Err: pathCause(err), Do: "name one that this account can read"}
}
