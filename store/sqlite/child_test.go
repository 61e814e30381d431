package sqlite_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
	"github.com/onerun-dev/onerun/store/sqlite"
)

// plan tells another process which store it is a client of, and where it dies.
type plan struct {
	Path    string
	LockDir string
	KillAt  string // the step before which it dies, as by kill -9
	Nth     int    // … when it comes to that for the Nth time; 0: the first
}

// order is one thing that another process is to do; reply is what became of it. They
// travel as JSON, one a line.
type order struct {
	Do      string // nothing, open, claim, wait, job, fork, beat, finish, work, approve
	Claim   onerun.Claim
	Outcome onerun.Outcome
	Approve onerun.ApprovalRequest
	Claims  []onerun.Claim // work
	Witness string         // work: the file that sees it
	Script  string         // job and fork: for sh; its first line of output is Reply.PID
	Timeout time.Duration  // of the one call; 0: a minute
}

type reply struct {
	Grant   *onerun.Grant
	Refusal *onerun.Refusal
	Kinds   []string // which of the contract's errors it was
	Err     string
	Group   int // the job's process group
	PID     int // what the job's script said
	Won     int // work: how many claims
	Steps   []string
}

// childEnv carries a plan to another process.
const childEnv = "ONERUN_SQLITE_TEST_CHILD"

// child is another process, with a client of a store. Its methods are not for concurrent
// use.
type child struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     *json.Encoder
	out    *json.Decoder
	stderr bytes.Buffer
	dead   bool
}

// errDied: the other process was killed before it replied.
var errDied = errors.New("the process died")

// newChild starts another process; change may alter how. It lives until it is killed, or
// the test ends.
func newChild(t testing.TB, p plan, change ...func(*exec.Cmd)) *child {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	program, err := twin()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(program)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text))
	c.cmd.Stderr = &c.stderr
	for _, f := range change {
		f(c.cmd)
	}
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.out = json.NewEncoder(in), json.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatalf("start another process: %v", err)
	}
	t.Cleanup(func() { c.kill() })
	return c
}

// ask gives an order. The error is errDied, or what must not happen.
func (c *child) ask(o order) (r reply, err error) {
	if err := c.in.Encode(o); err != nil && !errors.Is(err, syscall.EPIPE) {
		return r, err
	}
	if err := c.out.Decode(&r); err != nil {
		state, _ := c.wait()
		if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return r, errDied
		}
		return r, fmt.Errorf("no reply to %q: %w; the process ended with %s and said: %s", o.Do, err, state, c.stderr.String())
	}
	return r, nil
}

// claim gives the order to claim, and again while nothing can be proven.
func (c *child) claim(claim onerun.Claim) (reply, error) {
	for ctx := soon(c.t); ; {
		r, err := c.ask(order{Do: "claim", Claim: claim})
		if r.Refusal == nil || !unproven(r.Refusal) || !moment(ctx) {
			return r, err
		}
	}
}

// do gives an order that has to succeed.
func (c *child) do(o order) reply {
	c.t.Helper()
	ask := c.ask
	if o.Do == "claim" {
		ask = func(o order) (reply, error) { return c.claim(o.Claim) }
	}
	r, err := ask(o)
	switch {
	case err != nil:
		c.t.Fatal(err)
	case r.Err != "":
		c.t.Fatalf("%s: %s", o.Do, r.Err)
	case r.Refusal != nil:
		c.t.Fatalf("%s: %v", o.Do, r.Refusal)
	}
	return r
}

// kill ends the process with SIGKILL and waits until it is gone, with all that it held.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_, _ = c.wait()
}

func (c *child) wait() (*os.ProcessState, error) {
	if c.dead {
		return c.cmd.ProcessState, nil
	}
	c.dead = true
	err := c.cmd.Wait()
	return c.cmd.ProcessState, err
}

// serveIfChild makes this process a child, and ends it, if it was started as one.
func serveIfChild() {
	env, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	runtime.LockOSThread() // PDEATHSIG fires when the thread that forked ends
	var s server
	err := json.Unmarshal([]byte(env), &s.plan)
	if err == nil {
		err = s.serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// server is a child from inside.
type server struct {
	plan
	store onerun.Store
	grant onerun.Grant
	steps []string
}

func (s *server) serve() error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for in.More() {
		var o order
		if err := in.Decode(&o); err != nil {
			return err
		}
		if err := out.Encode(s.answer(o)); err != nil {
			return err
		}
	}
	return nil
}

// step notes a step and dies at the one that was planned.
func (s *server) step(name string) {
	s.steps = append(s.steps, name)
	if name != s.KillAt {
		return
	}
	if s.Nth--; s.Nth <= 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it is on its way
	}
}

func (s *server) answer(o order) (r reply) {
	limit := o.Timeout
	if limit == 0 {
		limit = time.Minute
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := s.obey(ctx, o, &r)
	if !errors.As(err, &r.Refusal) && err != nil {
		r.Err, r.Kinds = err.Error(), kinds(err)
	}
	r.Steps = s.steps
	return r
}

func (s *server) obey(ctx context.Context, o order, r *reply) (err error) {
	if o.Do == "nothing" {
		return nil
	}
	if s.store == nil {
		opts := []sqlite.Option{sqlite.WithHook(s.step)}
		if s.LockDir != "" {
			opts = append(opts, sqlite.WithLockDir(s.LockDir))
		}
		store, err := sqlite.Open(ctx, s.Path, opts...)
		if err != nil {
			return err
		}
		s.store = store
	}
	switch o.Do {
	case "open":
	case "claim", "wait":
		claim := s.store.Claim
		if o.Do == "wait" {
			claim = s.store.(onerun.WaitingClaimer).ClaimWaiting
		}
		if s.grant, err = claim(ctx, o.Claim); err == nil {
			r.Grant = &s.grant
		}
		return err
	case "job", "fork":
		return s.job(o, r)
	case "beat":
		_, err := s.store.Heartbeat(ctx, s.grant.Lease)
		return err
	case "finish":
		return s.store.Finish(ctx, s.grant.Lease, o.Outcome)
	case "work":
		r.Won, err = s.work(ctx, o)
		return err
	case "approve":
		_, err := s.store.Approve(ctx, o.Approve)
		return err
	default:
		return fmt.Errorf("no such order: %q", o.Do)
	}
	return nil
}

// job starts a job as package process does: in a group of its own, which it notes unless
// it is told to fork alone.
func (s *server) job(o order, r *reply) error {
	pr, pw, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = pr.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = null.Close() }()
	noter := s.store.(onerun.Noter)
	if err := noter.NoteStart(s.grant.Lease); err != nil {
		return err
	}
	r.Group, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", o.Script}, &syscall.ProcAttr{
		Env:   append(os.Environ(), "ONERUN_OWNER="+s.grant.Lease.Owner),
		Files: []uintptr{null.Fd(), pw.Fd(), null.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	_ = pw.Close()
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(pr).ReadString('\n')
	if err != nil {
		return fmt.Errorf("what the job says: %w", err)
	}
	if r.PID, err = strconv.Atoi(strings.TrimSpace(line)); err != nil || o.Do == "fork" {
		return err
	}
	stat, err := procfs.ReadStat(r.Group)
	if err != nil {
		return err
	}
	return noter.NoteGroup(s.grant.Lease, r.Group, stat.StartTicks)
}
