package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// errDied: the other client was killed before it replied.
var errDied = errors.New("the client died")

// client is another client of the store, in a process of its own where the store
// has any use for one. Its methods are not for concurrent use.
type client struct {
	t    *trial
	do   func(o order) (reply, error) // errDied, or what can't be
	kill func()                       // as by SIGKILL: without a word to the store
	stop func()                       // makes do return, from another goroutine
}

// client starts one. It lives until it is killed, or the case ends.
func (t *trial) client(sp spawn) *client {
	if t.h.InProcess {
		return t.stand(sp)
	}
	return t.process(sp)
}

func (t *trial) clients(n int) []*client {
	out := make([]*client, n)
	t.together(n, func(i int) error {
		out[i] = t.client(spawn{})
		return nil
	})
	return out
}

// granted claims through the client.
func (c *client) granted(claim onerun.Claim) onerun.Grant {
	r, err := c.do(order{Op: "claim", Claims: []onerun.Claim{claim}})
	c.t.must(err, "claim %s in another process", nameOf(claim))
	if r.Grant == nil {
		c.t.failf("claim %s in another process: expected to be granted, got %s", nameOf(claim), said(r.err()))
	}
	c.t.whole(claim, *r.Grant)
	return *r.Grant
}

// live lets the client live a claim. It reports whether it died on the way.
func (c *client) live(claim onerun.Claim, witness string) (r reply, died bool) {
	r, err := c.do(order{Op: "live", Claims: []onerun.Claim{claim}, Witness: witness, Close: true})
	if errors.Is(err, errDied) {
		return r, true
	}
	c.t.must(err, "live %s in another process", nameOf(claim))
	if r.Err != "" {
		c.t.failf("live %s in another process: %s", nameOf(claim), r.Err)
	}
	return r, false
}

// stand is a client in a goroutine's place: a handle of its own, and at its death
// it just stops.
func (t *trial) stand(sp spawn) *client {
	type killed struct{}
	w := &worker{spawn: sp, die: func() { panic(killed{}) }}
	ctx, stop := context.WithCancel(t.ctx)
	s, err := t.h.Open(t.ctx)
	t.must(err, "open the store")
	dead, closed := false, false
	t.atEnd(func() error {
		stop()
		if closed {
			return nil
		}
		return s.Close()
	})
	do := func(o order) (r reply, err error) {
		if dead {
			return reply{}, errDied
		}
		defer func() {
			switch v := recover().(type) {
			case nil:
			case killed:
				dead, err = true, errDied
			default:
				panic(v)
			}
		}()
		closed = closed || o.Close
		return w.do(ctx, s, o), nil
	}
	return &client{t: t, do: do, kill: func() { dead = true }, stop: stop}
}

// process is a client in another process.
func (t *trial) process(sp spawn) *client {
	sp.URL = t.h.URL
	env, err := json.Marshal(sp)
	t.must(err, "write down an order")
	cmd := t.h.Command()
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	// With the race detector, a process sleeps a second at its exit unless told not
	// to.
	if os.Getenv("GORACE") == "" {
		cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0")
	}
	cmd.Env = append(cmd.Env, childEnv+"="+string(env))
	if sp.TZ != "" {
		cmd.Env = append(cmd.Env, "TZ="+sp.TZ)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	t.must(err, "start another process")
	stdout, err := cmd.StdoutPipe()
	t.must(err, "start another process")
	t.must(cmd.Start(), "start another process")
	p := &proc{cmd: cmd, stdin: stdin, out: json.NewDecoder(stdout), enc: json.NewEncoder(stdin), stderr: &stderr, mayDie: sp.KillAt != ""}
	stop := context.AfterFunc(t.ctx, func() { _ = cmd.Process.Kill() })
	t.atEnd(func() error { stop(); return p.close() })
	if r, err := p.reply(); err != nil && !errors.Is(err, errDied) || r.Err != "" {
		t.failf("start another process: %w", errors.Join(err, r.err()))
	}
	return &client{t: t, do: p.do, kill: p.kill, stop: func() { _ = cmd.Process.Kill() }}
}

// proc is another process.
type proc struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	enc    *json.Encoder
	out    *json.Decoder
	stderr *bytes.Buffer
	mayDie bool
	dead   bool
	ended  error
}

func (p *proc) do(o order) (reply, error) {
	if p.dead {
		return reply{}, errDied
	}
	if err := p.enc.Encode(o); err != nil {
		return reply{}, p.gone(err)
	}
	return p.reply()
}

func (p *proc) reply() (r reply, err error) {
	if err := p.out.Decode(&r); err != nil {
		return reply{}, p.gone(err)
	}
	return r, nil
}

// gone says how the process ended, which didn't answer. Only one that was to die
// may have.
func (p *proc) gone(err error) error {
	p.wait()
	if p.mayDie && p.cmd.ProcessState != nil && !p.cmd.ProcessState.Exited() {
		return errDied
	}
	return fmt.Errorf("the other process ended without a reply: %w; %w; it said: %s", err, p.ended, strings.TrimSpace(p.stderr.String()))
}

func (p *proc) kill() {
	p.mayDie = true
	_ = p.cmd.Process.Kill()
	p.wait()
}

// wait returns when the process is gone, with all that it held.
func (p *proc) wait() {
	if !p.dead {
		p.dead = true
		p.ended = p.cmd.Wait()
	}
}

// close ends the process by ending its orders.
func (p *proc) close() error {
	if p.dead {
		return nil
	}
	_ = p.stdin.Close()
	timer := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	p.wait()
	if p.ended != nil {
		return fmt.Errorf("another process, told to end: %w; it said: %s", p.ended, strings.TrimSpace(p.stderr.String()))
	}
	return nil
}
