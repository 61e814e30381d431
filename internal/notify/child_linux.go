package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/onerun-dev/onerun/internal/process"
)

// Letter is what onerun-full reads on its standard input, as JSON: in arguments or the environment others would see it.
// With Headers it is one POST, else a message to a chat service.
type Letter struct {
	URL     string            `json:"url"`
	Title   string            `json:"title,omitempty"`
	Text    string            `json:"text,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Body    []byte            `json:"body,omitempty"`
}

// ExitPassing is onerun-full's exit status when what went wrong may be over in a moment (EX_TEMPFAIL, sysexits.h).
const ExitPassing = 75

// Companion is the program with TLS and the chat services.
const Companion = "onerun-full"

// outputShown is how many bytes of the end of an output in chat follow the text: services have limits.
const outputShown = 1000

func (s *Sender) chat(ctx context.Context, raw string, m Message) error {
	text := m.Text
	if m.Output != nil {
		end := *m.Output
		if len(end) > outputShown {
			end = end[len(end)-outputShown:]
			for len(end) > 0 && !utf8.RuneStart(end[0]) {
				end = end[1:]
			}
			end = "…" + end
		}
		text += "\n\n" + end
	}
	return s.deliver(ctx, Letter{URL: raw, Title: m.Title, Text: text})
}

// deliver lets onerun-full send a letter.
func (s *Sender) deliver(ctx context.Context, l Letter) error {
	if s.Full == "" {
		return errors.New(Companion + " is not there")
	}
	in, err := json.Marshal(l)
	if err != nil {
		return err
	}
	err = s.run(ctx, &exec.Cmd{Path: s.Full, Args: []string{Companion, "send"}, Env: os.Environ()}, in)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == ExitPassing {
		return passing{err}
	}
	return err
}

func (s *Sender) command(ctx context.Context, line string, set map[string]string, in []byte) error {
	return s.run(ctx, &exec.Cmd{Path: "/bin/sh", Args: []string{"/bin/sh", "-c", line}, Env: process.Env(s.Env, set), Dir: s.Dir}, in)
}

// run executes a program in a process group of its own, all of which is killed when its time is over. It has nothing of
// this process's but its standard input, and what it prints goes nowhere; of a failure the last line is told.
func (s *Sender) run(ctx context.Context, c *exec.Cmd, in []byte) error {
	ctx, cancel := context.WithTimeout(ctx, running)
	defer cancel()
	var out tail
	cmd := exec.CommandContext(ctx, c.Path)
	cmd.Args, cmd.Env, cmd.Dir = c.Args, c.Env, c.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &out
	// The kernel kills it when the thread that forked it ends: that is, when this process dies.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond // of what it left in the background, with its output open
	err := s.start(cmd)
	if err == nil {
		err = cmd.Wait()
		s.mu.Lock()
		delete(s.children, cmd.Process.Pid)
		s.mu.Unlock()
	}
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("killed after %s at most, which is its time", running)
	}
	if line := out.lastLine(); line != "" {
		return fmt.Errorf("%w: %s", err, line)
	}
	return err
}

// start starts a child that Owns knows from its first moment.
func (s *Sender) start(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		if s.children == nil {
			s.children = map[int]bool{}
		}
		s.children[cmd.Process.Pid] = true
	}
	return err
}

// tail is the end of an output.
type tail struct{ b []byte }

func (t *tail) Write(b []byte) (int, error) {
	const limit = 1 << 10
	t.b = append(t.b, b...)
	if len(t.b) > limit {
		t.b = append(t.b[:0], t.b[len(t.b)-limit:]...)
	}
	return len(b), nil
}

func (t *tail) lastLine() string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?"))
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
