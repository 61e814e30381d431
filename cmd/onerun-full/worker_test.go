package main_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// A worker is the job of the torture test: this test's own program, in a process of its own. It
// works a while in pages. That it works stands in a file, to which it needs nobody's leave. On a
// store that is SQL each page is committed through the fence, and the whole as an item, in one
// table for all hosts.
//
//	begin TOKEN KEY UPTIME
//	work TOKEN KEY UPTIME       at least each 20 ms
//	end TOKEN KEY CODE          the last thing that it does
const (
	workerURL     = "TORTURE_URL" // of the host's own way to the server
	workerWitness = "TORTURE_WITNESS"
	workerPages   = 3
)

type worker struct {
	witness *os.File
	lease   onerun.Lease
	key     string
}

// work is the program of a worker. It returns its exit status.
func work() int {
	var w worker
	var err error
	if w.witness, err = os.OpenFile(os.Getenv(workerWitness), os.O_APPEND|os.O_WRONLY, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 9
	}
	w.key = os.Getenv("ONERUN_KEY")
	w.lease = onerun.Lease{
		Namespace: os.Getenv("ONERUN_NAMESPACE"), Lock: onerun.JobLock(os.Getenv("ONERUN_JOB")), Owner: os.Getenv("ONERUN_OWNER"), RunID: os.Getenv("ONERUN_RUN_ID"),
	}
	w.lease.Token, _ = strconv.ParseInt(os.Getenv("ONERUN_TOKEN"), 10, 64)
	w.lease.Attempt, _ = strconv.Atoi(os.Getenv("ONERUN_ATTEMPT"))
	w.say("begin", sinceBoot())
	code := 0
	if err := w.pages(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	w.say("end", code)
	return code
}

// say writes one line, whole.
func (w *worker) say(what string, value any) {
	_, _ = fmt.Fprintf(w.witness, "%s %d %s %v\n", what, w.lease.Token, w.key, value)
}

func (w *worker) pages() error {
	working := make(chan struct{})
	defer close(working)
	go func() {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-tick.C:
				w.say("work", sinceBoot())
			case <-working:
				return
			}
		}
	}()
	pause := 100 * time.Millisecond
	if w.lease.Token%5 == 0 {
		pause = 3 * time.Second // in all longer than a lease
	}
	for page := range workerPages {
		time.Sleep(pause) // the work
		if err := w.commit(page); err != nil {
			return err
		}
	}
	return nil
}

// commit commits a page on a store with a fence.
func (w *worker) commit(page int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	t, err := openTables(os.Getenv(workerURL))
	if err != nil || t == nil {
		return err
	}
	return t.commit(ctx, w.lease, w.key, page)
}

// sinceBoot is the time since boot in ms, as all processes of this machine know it.
func sinceBoot() int64 {
	text, _ := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(text), " ")
	n, _ := strconv.ParseFloat(seconds, 64)
	return int64(n * 1000)
}
