package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// How is the way in which a server is run.
type How struct {
	Argv     func(d *Daemon) ([]string, error) // asked for at every start
	Up       []string                          // the server is up when a line of its log has one of these words
	Serves   func() bool                       // or when this says so: it is asked again and again
	FreePort func() (int, error)               // finds ports for it; nil: FreePort
	Orphaned syscall.Signal                    // ends it when this process has gone
	Close    syscall.Signal                    // ends it when the bed is closed
}

// Daemon is a server of a bed.
type Daemon struct {
	Port int      // where it listens on this machine
	Home string   // where it lies, a directory of its own
	Env  []string // added to its environment, from the next start on

	bed *Bed
	how How

	mu  sync.Mutex
	run *run // the last one
}

// Daemon makes a place for a server, and doesn't start it yet.
func (b *Bed) Daemon(how How) (*Daemon, error) {
	home, err := b.Dir()
	if err != nil {
		return nil, err
	}
	if how.FreePort == nil {
		how.FreePort = FreePort
	}
	d := &Daemon{Home: home, bed: b, how: how}
	b.AtClose(func() { d.Stop(how.Close) })
	return d, nil
}

// Place finds a port for the server, and one for each of some others that it listens at.
func (d *Daemon) Place(others ...*int) (err error) {
	for _, port := range append(others, &d.Port) {
		if *port, err = d.how.FreePort(); err != nil {
			return err
		}
	}
	return nil
}

// Launch finds ports for the server and starts it.
func (d *Daemon) Launch(others ...*int) (err error) {
	for range 5 { // another program can be faster to take a port
		if err = d.Place(others...); err != nil {
			return err
		}
		if err = d.Start(); err == nil {
			return nil
		}
	}
	return err
}

// script runs a server, its arguments from the second on. It ends it by the signal that is the
// first one when its own input ends: when this process is gone, in whatever way. What the server
// inherits from it, beside its log, is what the keeper waits for.
const script = `sig=$1; shift; exec 4<&0; "$@" </dev/null 4<&- & pid=$!; echo "pid $pid"
	{ read -r _ <&4; kill -$sig $pid; kill -CONT $pid; } 2>/dev/null & wait $pid; code=$?
	kill $! 2>/dev/null; exit $code`

// Start starts the server, again after Stop, and waits until it is up. A shell stands between, in
// a session of its own: who ends this process often ends its whole group.
func (d *Daemon) Start() error {
	argv, err := d.how.Argv(d)
	if err != nil {
		return err
	}
	cmd, err := d.bed.command(d.Home, append([]string{"sh", "-c", script, "sh", strconv.Itoa(int(d.how.Orphaned))}, argv...)...)
	if err != nil {
		return err
	}
	cmd.SysProcAttr.Setsid = true
	cmd.Env = append(os.Environ(), d.Env...)
	r, err := begin(cmd, d.how.Up)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.run = r
	d.mu.Unlock()
	return d.await(r, filepath.Base(argv[0]))
}

// await waits until the server is up.
func (d *Daemon) await(r *run, name string) error {
	var ask <-chan time.Time
	if d.how.Serves != nil {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		ask = tick.C
	}
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		select {
		case <-r.up:
			return nil
		case <-r.ended:
			return fmt.Errorf("%s didn't start:\n%s", name, r.log())
		case <-limit.C:
			d.Stop(syscall.SIGKILL)
			return fmt.Errorf("%s isn't up after a minute:\n%s", name, r.log())
		case <-ask:
			if d.how.Serves() {
				return nil
			}
		}
	}
}

func (d *Daemon) last() *run {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.run
}

// Stop ends the server by a signal, and waits for that: SIGKILL is a crash.
func (d *Daemon) Stop(sig syscall.Signal) {
	r := d.last()
	if r == nil {
		return
	}
	if r.signal(sig) != nil {
		_ = r.end.Close()
	} else if sig != syscall.SIGKILL {
		_ = r.signal(syscall.SIGCONT) // one that is frozen hears of nothing else
	}
	<-r.ended
	_ = r.end.Close()
}

// Wait waits for a server that ends by itself.
func (d *Daemon) Wait(ctx context.Context) error {
	r := d.last()
	if r == nil {
		return errors.New("the server was never started")
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server doesn't end: %w", context.Cause(ctx))
	}
}
