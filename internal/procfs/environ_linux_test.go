package procfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const entryName = "PROCFS_TEST_OWNER"

// shell runs a shell with exactly this environment until its input ends.
func shell(env ...string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", "echo ready; read x")
	cmd.Env = env
	return cmd
}

func TestFindEnviron(t *testing.T) {
	value := fmt.Sprint("owner-", os.Getpid())
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	entry := entryName + "=" + value
	var large []string // longer than any one read
	for i := range 500 {
		large = append(large, fmt.Sprintf("FILLER%d=%s", i, strings.Repeat("x", 1000)))
	}
	want := []int{
		start(t, shell(entry)).pid(),
		start(t, shell("A=1", entry, "B=2")).pid(),
		start(t, shell(append(large, entry)...)).pid(),
	}
	for _, env := range [][]string{
		{entry + "2"}, {"X" + entry}, {"OTHER=" + entry}, {entryName + "=" + value[:len(value)-1]}, {entryName + "="}, {entryName}, {},
	} {
		start(t, shell(env...))
	}
	pids, complete, err := FindEnviron(entryName, value, self.StartTicks)
	slices.Sort(pids)
	slices.Sort(want)
	// Whether the view was complete says something of what was not found alone: with somebody found, nothing is looked at
	// again, and on a busy machine some other process is always just being executed.
	if !slices.Equal(pids, want) || err != nil {
		t.Errorf("got %v, %v, %v, want %v", pids, complete, err, want)
	}
}

func TestFindEnvironFindsNobody(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	start(t, shell()) // an empty environment, which is known to be empty
	pids, complete, err := FindEnviron(entryName, "nobody has this", self.StartTicks)
	if len(pids) > 0 || !complete || err != nil {
		t.Errorf("got %v, %v, %v", pids, complete, err)
	}
}

// The kernel's threads have nothing to read, like a process within execve(2), and yet leave no doubt.
func TestFindEnvironKernelThreads(t *testing.T) {
	r := environReader{entry: []byte(entryName + "=x"), uid: os.Getuid()}
	err := processes(func(pid int) {
		if s, err := readStat(pid); err != nil || !s.kernel {
			return
		}
		if found, known := r.at(pid); found || !known {
			t.Errorf("%d: found %v, known %v", pid, found, known)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestSettled(t *testing.T) {
	for text, want := range map[string]bool{
		statText(5, "x", 'R', 1, 5, 5, 0, 1, 9, 4096): true,  // env -i
		statText(5, "x", 'R', 1, 5, 5, 0, 1, 9, 0):    false, // within execve
		statText(5, "x", 'Z', 1, 5, 5, 0, 1, 9, 0):    true,
		statText(5, "x", 'Z', 1, 5, 5, 0, 2, 9, 0):    false, // other threads of it run
		"5 (x) R 1": false, // a kernel that doesn't tell
		"":          false,
	} {
		if got := settledStat([]byte(text)); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestFindEnvironSince(t *testing.T) {
	p := start(t, shell(entryName+"=since"))
	id := identify(t, p)
	for since, want := range map[uint64]int{0: 1, id.StartTicks: 1, id.StartTicks + 1: 0} {
		if pids, _, err := FindEnviron(entryName, "since", since); len(pids) != want || err != nil {
			t.Errorf("since %d (it started at %d): got %v, %v", since, id.StartTicks, pids, err)
		}
	}
}

func TestFindEnvironZombie(t *testing.T) {
	p := start(t, shell(entryName+"=zombie"))
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := waitEnded(p.pid()); err != nil {
		t.Fatal(err)
	}
	if pids, _, err := FindEnviron(entryName, "zombie", 0); len(pids) > 0 || err != nil {
		t.Errorf("got %v, %v", pids, err)
	}
}

// carriesItself has the variable in its own environment, and so has its child.
func carriesItself() error {
	p, err := launch(helper("wait"))
	if err != nil {
		return err
	}
	defer p.end()
	pids, _, err := FindEnviron(entryName, "itself", 0)
	if err != nil || len(pids) != 1 || pids[0] != p.pid() {
		return fmt.Errorf("got %v, %w, want the child %d and not itself, %d", pids, err, p.pid(), os.Getpid())
	}
	return nil
}

func TestFindEnvironNeverSelf(t *testing.T) {
	run(t, helper("carries itself", entryName+"=itself"))
}

// beUndumpable has an environment that no equal may read, like a setuid program's.
func beUndumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	return waitForEOF()
}

// findBesideUnreadable runs as an ordinary user, with a process of its own that it can't look into, and with plenty of
// root's, which it can't either.
func findBesideUnreadable() error {
	self, err := Self()
	if err != nil {
		return err
	}
	if _, err := os.ReadFile("/proc/1/environ"); err == nil {
		return errors.New("process 1 is readable")
	}
	if pids, complete, err := FindEnviron(entryName, "x", 0); len(pids) > 0 || !complete || err != nil {
		return fmt.Errorf("beside root's processes: %v, %v, %w", pids, complete, err)
	}
	p, err := launch(helper("undumpable"))
	if err != nil {
		return err
	}
	defer p.end()
	if pids, complete, err := FindEnviron(entryName, "x", self.StartTicks); len(pids) > 0 || complete || err != nil {
		return fmt.Errorf("beside an own unreadable process: %v, %v, %w", pids, complete, err)
	}
	return nil
}

func TestFindEnvironUnreadable(t *testing.T) {
	var err error
	if os.Geteuid() == 0 {
		err = asNobody("beside unreadable", Identity{})
	} else {
		err = findBesideUnreadable()
	}
	if err != nil {
		t.Error(err)
	}
}

func TestFindEnvironBadName(t *testing.T) {
	for _, c := range [][2]string{{"", "x"}, {"A=B", "x"}, {"A\x00", "x"}, {"A", "x\x00"}} {
		if _, complete, err := FindEnviron(c[0], c[1], 0); complete || !errors.Is(err, unix.EINVAL) {
			t.Errorf("%q: got %v, %v", c, complete, err)
		}
	}
}

func TestRealUID(t *testing.T) {
	for text, want := range map[string]int{
		"Name:\tsh\nUid:\t1000\t0\t0\t0\nGid:\t5\t5\t5\t5\n": 1000,
		"Uid:\t0\t0\t0\t0":          0,
		"":                          -1,
		"Uid:\n":                    -1,
		"Uid:\tx\n":                 -1,
		"Name:\tUid: 7\nGid:\t5\n":  -1, // the kernel writes a line feed in a name as \n
		"Name:\tx\nuid:\t7\nGid:\n": -1,
	} {
		uid, ok := realUID(text)
		if ok != (want >= 0) || ok && uid != want {
			t.Errorf("%q: got %d, %v", text, uid, ok)
		}
	}
}

// Root in a container lacks capabilities, and can't look into other users' processes: then
// it doesn't know whether one of them is what it looks for.
func TestFindEnvironOfAnotherUser(t *testing.T) {
	requireRoot(t)
	const nobody = 65534
	entry := entryName + "=another"
	cmd := shell(entry)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	id := identify(t, start(t, cmd))
	if pids, _, err := FindEnvironOf(nobody, entryName, "another", id.StartTicks); !slices.Equal(pids, []int{id.PID}) || err != nil {
		t.Errorf("root: got %v, %v", pids, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: this thread has lost a capability
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		err := unix.Capget(&header, &caps[0])
		if err == nil {
			caps[0].Effective &^= 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN
			caps[1].Effective &^= 1 << (unix.CAP_PERFMON - 32) // newer kernels take it instead
			err = unix.Capset(&header, &caps[0])
		}
		if err != nil {
			t.Error(err)
			return
		}
		if pids, complete, err := FindEnvironOf(nobody, entryName, "another", id.StartTicks); len(pids) > 0 || complete || err != nil {
			t.Errorf("without capabilities: got %v, %v, %v", pids, complete, err)
		}
	}()
	<-done
}
