package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/filelock"
)

// eventTextfileFailed is the log's name for a text file that could not be written.
const eventTextfileFailed = "textfile_failed"

// textfileWait is how long this process stays for its text file after all else is done: a directory on a dead file
// server must not keep it.
const textfileWait = 5 * time.Second

// textfile keeps a file for the textfile collector of Prometheus' node_exporter up to date, in a goroutine of its own:
// nothing about it delays the job, its record, or the lock.
type textfile struct {
	dir            string // absolute
	namespace, job string
	report         func(onerun.Observation)

	mu      sync.Mutex    // of what follows
	started time.Time     // the attempt under way; by this host's clock, as its end is
	last    chan struct{} // closed when all that was asked for before is done; nil: nothing was
	warned  bool          // one line is enough
}

// textfileOf makes one for a job; nil: there is no directory for it.
func (x *execution) textfileOf(job onerun.Job) *textfile {
	if x.textfileDir == "" {
		return nil
	}
	t := &textfile{dir: string(x.textfileDir), namespace: job.Namespace, job: job.Name, report: x.log.Observe}
	if abs, err := filepath.Abs(t.dir); err == nil { // else as it is: only a guard is elsewhere
		t.dir = abs
	}
	if name, err := onerun.CleanName("namespace", job.Namespace); err == nil { // as the runs have it
		t.namespace = name
	}
	return t
}

// Observe implements onerun.Observer.
func (t *textfile) Observe(o onerun.Observation) {
	if t == nil || o.Run.Namespace != t.namespace || o.Run.Job != t.job { // a run that died under a lock of several jobs
		return
	}
	switch {
	case o.Event == onerun.EventClaimed, o.Event == onerun.EventStarted:
		t.mu.Lock()
		t.started = o.At
		t.mu.Unlock()
	case o.Outcome != nil:
		t.mu.Lock()
		start := t.started
		t.mu.Unlock()
		t.ended(o, start)
	case o.Event == onerun.EventTakenOver:
		t.put(o.Run, func(s *textState) { s.end(textEnd{start: o.Run.StartedAt, at: o.Run.FinishedAt}) })
	case o.Delivery != nil && (o.Delivery.Kind == onerun.DeliveredApplied || o.Delivery.Kind == onerun.DeliveredCorrected):
		d := o.Delivery
		end := textEnd{at: d.Outcome.FinishedAt, exit: d.Outcome.ExitCode, well: d.Outcome.Status != onerun.Failed}
		if d.Run.Attempt == d.Attempt {
			end.start = d.Run.StartedAt
		}
		t.put(o.Run, func(s *textState) { s.end(end) })
	case o.Event == onerun.EventSkipped && o.Refusal != nil:
		at := o.At
		t.put(o.Run, func(s *textState) { s.refused(o.Refusal.Reason, at) })
	}
}

// ended puts the end of an attempt into the file.
func (t *textfile) ended(o onerun.Observation, start time.Time) {
	end := textEnd{start: start, at: o.Outcome.FinishedAt, exit: o.Outcome.ExitCode, well: endingOf(o).well()}
	if end.at.IsZero() {
		end.at = o.At
	}
	if end.exit == nil && o.Outcome.Status != onerun.Failed {
		end.exit = new(int)
	}
	t.put(o.Run, func(s *textState) { s.end(end) })
}

// put changes the file, after what was asked for before.
func (t *textfile) put(about onerun.Run, change func(*textState)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, done := t.last, make(chan struct{})
	t.last = done
	go func() {
		defer close(done)
		if before != nil {
			<-before
		}
		if err := changeTextfile(t.dir, t.namespace, t.job, change); err != nil {
			t.warn(about, err)
		}
	}()
}

// finish waits until the file is written, or for as long as may be.
func (t *textfile) finish() {
	if t == nil {
		return
	}
	t.mu.Lock()
	last := t.last
	t.mu.Unlock()
	if last != nil && !isClosed(last, textfileWait) {
		t.warn(onerun.Run{Namespace: t.namespace, Job: t.job}, fmt.Errorf("it takes longer than %s", textfileWait))
	}
}

// warn says once that the file is not as it should be. The exit code is the job's.
func (t *textfile) warn(about onerun.Run, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.warned || t.report == nil {
		return
	}
	t.warned = true
	t.report(onerun.Observation{
		Event: eventTextfileFailed, At: time.Now(), Run: about, Detail: filepath.Join(t.dir, textfileName(t.namespace, t.job)),
		Err: fmt.Errorf("--textfile-dir: the file was not written, and the monitor sees an older one or none: %w; %s", pathCause(err), textfileRemedy(err)),
	})
}

func textfileRemedy(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "make the directory that node_exporter has as --collector.textfile.directory"
	case errors.Is(err, fs.ErrPermission):
		return "let this account read the directory and make files in it"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free some space"
	case errors.Is(err, syscall.EFBIG):
		return filelock.SizeLimitRemedy()
	}
	return "the next end or refusal writes it again"
}

// guardTextfile is what a guard needs to write the file of an end that it records.
type guardTextfile struct {
	Dir, Namespace, Job string
	Started             time.Time
}

// forGuard is what the guard of the attempt under way needs.
func (t *textfile) forGuard() *guardTextfile {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return &guardTextfile{Dir: t.dir, Namespace: t.namespace, Job: t.job, Started: t.started}
}

// write writes how a run ended whose wrapper could not. The lock is free by then, or can't be freed for want of its
// store. Nobody hears a guard, so nothing is said of a file that can't be written.
func (g *guardTextfile) write(out onerun.Outcome, recorded error) {
	if g == nil {
		return
	}
	t := &textfile{dir: g.Dir, namespace: g.Namespace, job: g.Job}
	o := onerun.Observation{At: time.Now(), Outcome: &out}
	if recorded != nil {
		o.Err = &onerun.NotRecordedError{Outcome: out, Err: recorded}
	}
	t.ended(o, g.Started)
	t.finish()
}
