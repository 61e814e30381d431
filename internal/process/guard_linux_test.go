package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun/internal/procfs"
)

// deaf is a job that tells of each SIGTERM, and doesn't end.
const deaf = `trap "echo term" TERM; echo pid $$; echo up; while :; do sleep 0.05; done`

// leaves is a job that ends when it is told to, and leaves something behind.
const leaves = `sleep 100 & echo pid $!; echo up; read go; exit 3`

// Whoever is being stopped by its wrapper is asked to end once: its guard leaves that to the wrapper, as long
// as the grace lasts.
func TestGuardDoesNotAskAgain(t *testing.T) {
	t.Parallel()
	o, _ := own(t, ownerSpec{Job: deaf, Timeout: time.Second, Grace: 4 * guardSlack, Record: patience})
	o.expect("term")
	o.expect("end timed out 137")
	o.expect("recorded FAILED timeout")
	o.seen(GuardReleased)
}

// A guard that was frozen while all came to its end, and goes on when the deadline is long over, touches nothing:
// what is left of the job's group was left behind, and its number may be somebody else's.
func TestGuardThawedAfterTheEnd(t *testing.T) {
	t.Parallel()
	o, guard := own(t, ownerSpec{Job: leaves, Timeout: 2 * time.Second, Record: patience})
	freeze(t, guard)
	o.goesOn()
	o.expect("end exited 3")
	o.exitCode()
	until := bootTime() + 2*time.Second + 2*guardSlack
	eventually(t, "the deadline is over", func() bool { return bootTime() > until })
	thaw(t, guard)
	o.seen(GuardReleased)
	if !runs(o.pids[0]) {
		t.Error("what the job has left behind is gone")
	}
}

// A guard is started at a moment of its own: by then the job may have ended, and the numbers of the lock's descriptors
// be those of something else, such as a pipe that must come to its end.
func TestGuardStartedLate(t *testing.T) {
	t.Parallel()
	job := exec.Command("sleep", "1000")
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = job.Process.Kill(); _ = job.Wait() })
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	r, w := pipe(t)
	g := NewGuarding(func() (GuardOrder, error) {
		return GuardOrder{Tree: Tree{Group: identify(job.Process.Pid)}, Wrapper: self, Record: patience}, nil
	}, "/proc/self/exe", []string{guardHelper}, []int{int(w.Fd())})
	t.Cleanup(g.End)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err == nil {
		err = unix.Dup3(int(null.Fd()), int(w.Fd()), unix.O_CLOEXEC)
	}
	if err != nil {
		t.Fatal(err)
	}
	guard := 0
	reports := bufio.NewReader(r)
	line, err := reports.ReadString('\n')
	if _, scanErr := fmt.Sscanf(line, "guard %d", &guard); scanErr != nil {
		t.Fatalf("the guard has %q to say, %v", line, err)
	}
	g.End()
	if line, err = reports.ReadString('\n'); !strings.HasPrefix(line, fmt.Sprintf("seen %d ", GuardReleased)) {
		t.Errorf("the guard ends with %q, %v", line, err)
	}
	if line, err = reports.ReadString('\n'); err == nil {
		t.Errorf("there is still somebody who has the descriptor, and says %q", line)
	}
}
