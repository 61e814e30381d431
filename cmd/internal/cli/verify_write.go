package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
	"github.com/onerun-dev/onerun/internal/storeurl"
)

// progress shows what is being tried out, on a terminal.
func (v *verification) progress(what string) {
	if !isTerminal(2) || what == "" && !v.shown {
		return
	}
	v.shown = what != ""
	if what != "" {
		what = "verify: " + what
	}
	_, _ = fmt.Fprintf(os.Stderr, "\r\x1b[K%.78s", what)
}

// write writes what was found.
func (v *verification) write(asJSON bool) error {
	failed := 0
	for _, c := range v.checks {
		if !c.OK {
			failed++
		}
	}
	verdict := v.verdict(failed)
	var err error
	if asJSON {
		err = writeJSON(v.env.out, map[string]any{
			"ok": failed == 0, "verdict": verdict, "store": storeurl.Redact(v.place.url), "namespace": v.env.Namespace, "checks": v.checks, "left": append([]string{}, v.left...),
		})
	} else {
		for _, c := range v.checks {
			word := "ok"
			if !c.OK {
				word = "FAILED"
			}
			if err == nil {
				err = say(v.env, "%-6s  %s: %s", word, c.Check, c.Evidence)
			}
		}
		if len(v.left) > 0 && err == nil {
			err = say(v.env, "left:   %s", strings.Join(v.left, "; "))
		}
		if err == nil {
			err = say(v.env, "%s", verdict)
		}
	}
	if err == nil && failed > 0 {
		err = &statusError{status: exitState}
	}
	return err
}

// verdict is the last line.
func (v *verification) verdict(failed int) string {
	where := fmt.Sprintf("store %s, namespace %s", storeurl.Redact(v.place.url), v.env.Namespace)
	switch {
	case failed > 0:
		return fmt.Sprintf("it does NOT hold here: %d of %d checks failed (%s)", failed, len(v.checks), where)
	case v.rendezvous != "":
		return fmt.Sprintf("it holds here: of the processes of %d hosts one wins (%s)", v.hosts, where)
	}
	return fmt.Sprintf("it holds here: of %d processes one wins (%s)", v.processes, where)
}

// clearUp leaves nothing behind that can be removed.
func (v *verification) clearUp() {
	v.dismiss()
	v.progress("clearing up")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Duration(v.env.StoreTimeout))
	defer cancel()
	if err := v.prune(ctx); err != nil { // then an end can wait in a lock file
		v.left = append(v.left, fmt.Sprintf("runs of the job %s: %v", v.name, err))
	} else {
		v.removeLocks()
	}
	v.removeFiles()
	_ = v.store.Close()
}

// tellLeft says what could not be cleared up, where there is no verdict to say it with.
func (v *verification) tellLeft() {
	for _, what := range v.left {
		complain(v.env, errors.New("left behind: "+what))
	}
}

// prune removes the runs of verify's own job from the ledger, and lets nothing stand for them.
func (v *verification) prune(ctx context.Context) error {
	w := who("onerun verify clears up")
	q := onerun.Query{Namespace: v.env.Namespace, Job: v.name, Pruned: true}
	runs, err := v.store.Runs(ctx, q)
	if err != nil || len(runs) == 0 {
		return err
	}
	for _, r := range runs { // a start that was ended with verify itself
		if r.Status == onerun.Failed {
			_, _ = v.store.Resolve(ctx, onerun.Resolution{Namespace: r.Namespace, RunID: r.RunID, Expect: onerun.Expected(r), As: onerun.Succeeded, Who: w}) // else it stays, and is told
		}
	}
	// Another host of a rendezvous may be at the same rows.
	for end := time.Now().Add(pruneTogether); ; rest(50 * time.Millisecond) {
		if err = v.pruneOnce(ctx, w); err != nil {
			return err
		}
		if runs, err = v.store.Runs(ctx, q); err != nil || len(runs) == 0 {
			return err
		}
		if v.rendezvous == "" || time.Now().After(end) {
			return fmt.Errorf("%d are still there, the first of them %s", len(runs), runs[0].Status)
		}
	}
}

// pruneTogether is how long hosts that clear up at the same time try again.
const pruneTogether = 5 * time.Second

func (v *verification) pruneOnce(ctx context.Context, w onerun.Who) error {
	p := onerun.PruneRequest{Namespace: v.env.Namespace, Job: v.name, Before: time.Now().Add(2 * day), ForgetKeys: true, Who: w}
	for more := true; more; {
		done, err := v.store.Prune(ctx, p)
		if err != nil {
			return err
		}
		more, p.Cursor = done.More, done.Cursor
	}
	return nil
}

// removeLocks removes the files of the locks that only verify knows of, if nobody holds them.
func (v *verification) removeLocks() {
	s, ok := v.store.(interface{ LockDir() string })
	if !ok {
		return
	}
	for _, lock := range []onerun.LockName{onerun.JobLock(v.name), onerun.NamedLock(v.name)} {
		names, _ := filepath.Glob(filepath.Join(s.LockDir(), filelock.FileName(v.env.Namespace, lock)+".*")) // the pattern is sound
		for _, name := range names {
			if err := removeFree(name); err != nil {
				v.left = append(v.left, fmt.Sprintf("%s: %v", name, pathCause(err)))
			}
		}
	}
}

func removeFree(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return errors.New("it is held")
	}
	return os.Remove(name)
}

func (v *verification) removeFiles() {
	if v.config != nil {
		_ = v.config.Close()
	}
	if v.dir != "" {
		if err := os.RemoveAll(v.dir); err != nil {
			v.left = append(v.left, fmt.Sprintf("%s: %v", v.dir, pathCause(err)))
		}
	}
}
