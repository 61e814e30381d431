package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kill is one round: a job, somebody who waits for its lock, and SIGKILL to the wrapper.
func (w wrapped) kill(i int, limit time.Duration) (k aKill, err error) {
	job, out, err := begin(w.job(i))
	if err != nil {
		return k, err
	}
	defer func() { _ = job.Wait() }() // it was killed
	defer func() { _ = job.Process.Kill() }()
	var processes []unix.PollFd
	defer func() {
		for _, p := range processes { // no more than what is left
			_ = unix.PidfdSendSignal(int(p.Fd), unix.SIGKILL, nil, 0)
			_ = unix.Close(int(p.Fd))
		}
	}()
	lines := bufio.NewReader(out)
	defer func() { _ = out.Close() }()
	for range 3 {
		line, err := lines.ReadString('\n')
		if err != nil {
			return k, err
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return k, err
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return k, err
		}
		processes = append(processes, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	next, in, err := begin(w.waiter(i))
	if err != nil {
		return k, err
	}
	defer func() { _ = in.Close() }()
	if err := until(func() bool { return waits(next.Process.Pid) && (!w.guarded || watched(job.Process.Pid)) }); err != nil {
		return k, err
	}
	killed := time.Now()
	if err := job.Process.Kill(); err != nil {
		return k, err
	}
	if err := k.watch(killed, limit, processes, int32(in.Fd())); err != nil {
		return k, err
	}
	for _, p := range processes {
		_ = unix.PidfdSendSignal(int(p.Fd), unix.SIGKILL, nil, 0)
	}
	return k, next.Wait()
}

// watch waits until the processes have ended and the waiter has said something.
func (k *aKill) watch(killed time.Time, limit time.Duration, processes []unix.PollFd, in int32) error {
	fds := append(slices.Clone(processes), unix.PollFd{Fd: in, Events: unix.POLLIN})
	last, left := len(processes), len(processes)
	k.gone, k.in = limit, limit
	for left > 0 || k.in == limit {
		rest := limit - time.Since(killed)
		if rest <= 0 {
			return nil
		}
		if _, err := unix.Poll(fds, int(rest.Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		now := time.Since(killed)
		if fds[last].Revents != 0 && k.in == limit {
			k.in, fds[last].Fd = min(now, limit-1), -1
			for { // who ended in the moment before is not beside it
				if _, err := unix.Poll(fds[:last], 0); !errors.Is(err, unix.EINTR) {
					break
				}
			}
			k.overlap = slices.ContainsFunc(fds[:last], func(p unix.PollFd) bool { return p.Fd >= 0 && p.Revents == 0 })
		}
		for i := range fds[:last] {
			if fds[i].Fd >= 0 && fds[i].Revents != 0 {
				fds[i].Fd = -1
				left--
			}
		}
		if left == 0 && k.gone == limit {
			k.gone = min(now, limit-1)
		}
	}
	return nil
}

// begin starts a program with its output in a pipe that is read as it is.
func begin(argv []string) (*exec.Cmd, *os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout = w
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		_ = r.Close()
	}
	return cmd, r, err
}

// until waits for what is to be so before anything is measured.
func until(ready func() bool) error {
	for end := time.Now().Add(30 * time.Second); !ready(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return errors.New("it doesn't come to that")
		}
	}
	return nil
}

// waits reports whether a process, or a thread of it, waits for a lock, by proc_locks(5).
func waits(pid int) bool {
	text, _ := os.ReadFile("/proc/locks")
	return slices.ContainsFunc(strings.Split(string(text), "\n"), func(line string) bool {
		f := strings.Fields(line)
		return len(f) > 5 && f[1] == "->" && f[5] == strconv.Itoa(pid)
	})
}

// watched reports whether a guard is there that watches the job of a wrapper.
func watched(wrapper int) bool {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		text, _ := os.ReadFile(name)
		if !strings.HasPrefix(string(text), "onerun-guard\x00") {
			continue
		}
		dir := filepath.Dir(name)
		status, _ := os.ReadFile(dir + "/status")
		fds, _ := filepath.Glob(dir + "/fd/*")
		if strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", wrapper)) && slices.ContainsFunc(fds, func(fd string) bool {
			to, _ := os.Readlink(fd)
			return strings.Contains(to, "pidfd")
		}) {
			return true
		}
	}
	return false
}
