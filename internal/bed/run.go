package bed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// run is one life of a server, from a start to its end.
type run struct {
	end   io.Closer     // closing it ends the server
	up    chan struct{} // closed when a word of its log says that it is up
	ended chan struct{} // closed when it has ended

	mu    sync.Mutex
	pid   int      // the server's; 0 before the shell has told it
	lines []string // the last ones of its log
}

func begin(cmd *exec.Cmd, up []string) (*run, error) {
	end, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	log, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	r := &run{end: end, up: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		r.listen(log, up)
		_ = cmd.Wait()
		close(r.ended)
	}()
	return r, nil
}

// listen reads what the server says until it has ended.
func (r *run) listen(log io.ReadCloser, up []string) {
	defer func() { _ = log.Close() }()
	in := bufio.NewScanner(log)
	in.Buffer(nil, 1<<20)
	loud, said, told := os.Getenv("ONERUN_TEST_SERVER_LOG") != "", false, false
	for in.Scan() {
		known := r.note(in.Text())
		said = said || slices.ContainsFunc(up, func(word string) bool { return strings.Contains(in.Text(), word) })
		if said && known && !told {
			told = true
			close(r.up)
		}
		if loud {
			fmt.Fprintln(os.Stderr, in.Text())
		}
	}
}

// note takes a line, and tells whether the server's process is known.
func (r *run) note(line string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, ok := strings.CutPrefix(line, "pid "); ok && r.pid == 0 {
		r.pid, _ = strconv.Atoi(n)
	} else if r.lines = append(r.lines, line); len(r.lines) > 30 {
		r.lines = r.lines[1:]
	}
	return r.pid != 0
}

func (r *run) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

// process is the server's, as long as it hasn't ended: its number may be another's then.
func (r *run) process() (int, error) {
	select {
	case <-r.ended:
		return 0, errors.New("the server has ended")
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pid == 0 {
		return 0, errors.New("the server isn't there yet")
	}
	return r.pid, nil
}

func (r *run) signal(sig syscall.Signal) error {
	pid, err := r.process()
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}
