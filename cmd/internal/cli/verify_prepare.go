package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/storeurl"
)

// verification is one examination under way.
type verification struct {
	env        *env
	store      onerun.Store
	place      place
	embedded   bool     // the store has no leases: the lock ends with its holder
	name       string   // of the job and of the lock that it works with
	lock       string   // as --lock names it, when the job names one; else ""
	flags      []string // of every start
	locking    []string // of every start: what its lock is made of, and its lease
	ttl        time.Duration
	scopeKey   bool
	frozenTTL  time.Duration
	program    string   // what is started
	self       string   // this program, which is also what the starts execute
	dir        string   // everything of this examination
	witness    string   // the file that the executed write to
	config     *os.File // of the configuration file, what says where the store is; nil: there is none
	processes  int
	rounds     int
	rendezvous string
	hosts      int
	within     time.Duration
	old        *sighting // a holder that was frozen beyond its lease
	count      int       // of starts so far
	running    []*started
	gates      []gate
	checks     []examined
	left       []string // what could not be cleared up
	shown      bool     // a line of progress stands on the terminal
}

// prepare finds the store and the job's settings as a start of the job would.
func (c *verifyCmd) prepare(ctx context.Context, e *env) (*verification, error) {
	v := &verification{
		env: e, name: "onerun-verify-" + onerun.NewID()[:12], processes: c.Processes, rounds: c.Rounds,
		rendezvous: string(c.Rendezvous), hosts: c.Hosts, within: time.Duration(c.Within), frozenTTL: time.Duration(c.TTL),
	}
	lockDir := v.settings(c)
	var err error
	if v.store, v.place, err = e.open(ctx, lockDir); err != nil {
		return nil, err
	}
	kind, err := storeurl.KindOf(v.place.url)
	if err != nil {
		return nil, err
	}
	v.embedded = kind == storeurl.Local
	if err = v.ask(ctx); err != nil {
		return nil, err
	}
	if err = v.programs(string(c.Program)); err == nil {
		err = v.files()
	}
	if err != nil {
		v.removeFiles()
		return nil, err
	}
	return v, nil
}

// ask asks the store for something, so that one that can't be used is told as by every command.
func (v *verification) ask(ctx context.Context) error {
	ctx, cancel := v.env.bound(ctx)
	defer cancel()
	_, err := v.store.Runs(ctx, onerun.Query{Namespace: v.env.Namespace, Job: v.name, Limit: 1})
	return v.place.blame(err)
}

// settings are those of the job that decide about exclusion, as flags of its starts. It gives the
// directory of the lock files for verify's own look.
func (v *verification) settings(c *verifyCmd) (lockDir string) {
	run := &runCmd{Job: string(c.Job)}
	for _, f := range flagFields(run) {
		if d := f.tag.Get("default"); d != "" {
			set(f.value, d)
		}
	}
	if v.env.file != nil {
		plain := *v.env // verify's own flags of the same names say nothing about the job
		plain.given, plain.sources = map[string]bool{}, map[string]string{}
		plain.apply(run, run.Job)
		if abs, err := filepath.Abs(string(run.LockDir)); err == nil && run.LockDir != "" { // it counts from the file's directory
			run.LockDir = word(abs)
		}
	}
	if c.LockDir != "" {
		run.LockDir = c.LockDir
	}
	v.ttl = min(time.Duration(run.TTL), 30*time.Second)
	v.scopeKey = run.Scope == "key"
	if run.Lock != "" {
		v.lock = v.name
	}
	run.Shell, run.Timeout, run.TTL = "", 0, duration(v.ttl)
	given := map[string]bool{"ttl": true}
	v.locking = slices.Concat(argumentsOf(&run.lockFlags, given), argumentsOf(&run.execFlags, given))
	for _, f := range flagFields(&v.env.common) {
		if v.env.given[f.name] && !strings.HasPrefix(f.name, "log-") && f.name != "config" {
			v.flags = append(v.flags, "--"+f.name+"="+textOf(f.value))
		}
	}
	v.flags = append(v.flags, "--log-level=error", "--log-format=text")
	return string(run.LockDir)
}

// programs finds what is to be started, and this program by a path.
func (v *verification) programs(program string) error {
	self, err := os.Executable()
	if err != nil {
		return &onerun.StoreError{Kind: onerun.ErrConfig, What: "this program", Err: err}
	}
	v.self = self
	if v.program, err = typedProgram(); err != nil {
		return &onerun.StoreError{Kind: onerun.ErrConfig, What: "this program", Err: err}
	}
	if program != "" {
		if v.program, err = exec.LookPath(program); err == nil {
			v.program, err = filepath.Abs(v.program)
		}
		if err != nil {
			return usage("--program %s can't be started: %s", program, pathCause(errors.Unwrap(err)))
		}
	}
	return nil
}

// files makes the directory of this examination, the witness, and what the starts find as the configuration.
func (v *verification) files() (err error) {
	if v.dir, err = os.MkdirTemp("", "onerun-verify-"); err == nil {
		v.dir, err = filepath.Abs(v.dir)
	}
	if err == nil && v.env.file != nil {
		err = v.configure()
	}
	if err == nil {
		return nil
	}
	return &onerun.StoreError{Kind: createKind(err), What: "make a directory for verify", Path: os.TempDir(), Err: pathCause(err), Do: "name another with TMPDIR"}
}

// callWitness begins a new file for the executed to write to: what one check has seen is none of the next one's.
func (v *verification) callWitness(check string) error {
	v.witness = filepath.Join(v.dir, "witness-"+check)
	if err := os.WriteFile(v.witness, nil, 0o600); err != nil {
		return &onerun.StoreError{Kind: createKind(err), What: "make a file for verify", Path: v.witness, Err: pathCause(err)}
	}
	return nil
}

// configure leaves of the configuration file what says where the store is: its messages, labels and
// retries are not for verify's starts. It stands in memory, since there can be a password in it.
func (v *verification) configure() error {
	said := map[string]string{"namespace": v.env.Namespace, "store_timeout": time.Duration(v.env.StoreTimeout).String()}
	if url, _ := v.env.storeInFile(); url != "" {
		said["store"] = absoluteURL(url)
	}
	text, err := json.Marshal(said) // which is YAML as well
	if err != nil {
		return err
	}
	fd, err := unix.MemfdCreate("onerun.yaml", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	v.config = os.NewFile(uintptr(fd), "onerun.yaml")
	_, err = v.config.Write(text)
	return err
}

// absoluteURL is a store's URL without a path that counts from the working directory.
func absoluteURL(url string) string {
	for _, prefix := range []string{"@", "sqlite:"} {
		if path, ok := strings.CutPrefix(url, prefix); ok {
			if abs, err := filepath.Abs(path); err == nil && !filepath.IsAbs(path) {
				return prefix + abs
			}
		}
	}
	return url
}

// runs are the words of a start of a key.
func (v *verification) runs(partition string) []string {
	args := []string{"run", v.name, "--partition", partition, "-n", fmt.Sprintf("--skip-code=%d", codeRefused), fmt.Sprintf("--blocked-code=%d", codeRefused), "--capture=none", "--finish-wait=10s"}
	switch {
	case v.scopeKey:
		args = append(args, "--scope=key")
	case v.lock != "":
		args = append(args, "--lock="+v.lock)
	}
	return slices.Concat(args, v.flags, v.locking)
}

// locks are the words of a start that is for the lock alone, and leaves nothing in the ledger.
func (v *verification) locks(ttl time.Duration) []string {
	return slices.Concat([]string{"lock", v.name, "-n", fmt.Sprintf("-E%d", codeRefused)}, v.flags, v.locking, []string{"--ttl=" + ttl.String()})
}
