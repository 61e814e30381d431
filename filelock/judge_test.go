package filelock

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// child starts a process of its own group, with an owner id in its environment.
func child(t testing.TB, owner string, env ...string) procfs.Identity {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(append(os.Environ(), ownerVariable+"="+owner), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	s, err := procfs.ReadStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return procfs.Identity{PID: s.PID, StartTicks: s.StartTicks}
}

func TestJudge(t *testing.T) {
	me := thisWorker()
	if me.Boot == "" || me.PIDNS == 0 || me.TimeNS == 0 || me.Machine == "" || me.StartTicks == 0 {
		t.Fatalf("this machine can't prove anything: %+v", me)
	}
	deadPID, deadTicks := corpse(t)
	owner := onerun.NewID()
	live := child(t, owner)
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = zombie.Wait() }()
	await(t, "zombie", func() bool {
		s, err := procfs.ReadStat(zombie.Process.Pid)
		return err == nil && s.State == 'Z'
	})

	const alive, dead, unknown = onerun.Alive, onerun.Dead, onerun.Unknown
	for _, c := range []struct {
		name string
		// from a note of a dead wrapper and a dead group
		change func(*Note)
		want   onerun.Liveness
		free   onerun.Liveness // with the lock known free; "": the same
		void   bool
		pid    int // named as alive
	}{
		{name: "all gone", want: dead},
		{name: "wrapper alive", change: func(n *Note) { n.PID, n.StartTicks = me.PID, me.StartTicks }, want: alive, pid: me.PID},
		{name: "wrapper's pid reused", change: func(n *Note) { n.PID, n.StartTicks = me.PID, me.StartTicks-1 }, want: dead},
		{name: "wrapper's pid in use, start not noted", change: func(n *Note) { n.PID, n.StartTicks = me.PID, 0 }, want: unknown},
		{name: "wrapper gone, start not noted", change: func(n *Note) { n.StartTicks = 0 }, want: dead},
		{name: "pid of another account, reused", change: func(n *Note) { n.PID = 1 }, want: dead},
		{name: "no pid", change: func(n *Note) { n.PID = 0 }, want: unknown},
		{name: "negative pid", change: func(n *Note) { n.PID = -1 }, want: unknown},
		{name: "wrapper a zombie", change: func(n *Note) { n.PID, n.StartTicks = zombie.Process.Pid, 0 }, want: dead},
		{name: "group alive", change: func(n *Note) { n.Group, n.GroupStartTicks = live.PID, live.StartTicks }, want: alive, pid: live.PID},
		{name: "group's number reused", change: func(n *Note) { n.Group, n.GroupStartTicks = live.PID, live.StartTicks-1 }, want: dead},
		{name: "group in use, start not noted", change: func(n *Note) { n.Group, n.GroupStartTicks = live.PID, 0 }, want: alive, pid: live.PID},
		{name: "no group", change: func(n *Note) { n.Group = 0 }, want: unknown},
		{name: "guard alive", change: func(n *Note) { n.Guard, n.GuardStartTicks = live.PID, live.StartTicks }, want: alive, pid: live.PID},
		{name: "guard gone", change: func(n *Note) { n.Guard, n.GuardStartTicks = deadPID, deadTicks }, want: dead},
		{name: "starting, never started", change: func(n *Note) { n.State = StateStarting }, want: dead, void: true},
		{name: "forking, job runs", change: func(n *Note) { n.State, n.Owner, n.StartTicks = StateForking, owner, 1 }, want: alive, pid: live.PID},
		{name: "forking, nothing runs", change: func(n *Note) { n.State = StateForking }, want: dead},
		{name: "forking, no owner", change: func(n *Note) { n.State, n.Owner = StateForking, "" }, want: unknown},
		{name: "starting, wrapper alive", change: func(n *Note) { n.State, n.PID, n.StartTicks = StateStarting, me.PID, me.StartTicks }, want: alive, pid: me.PID},
		{name: "in process, gone", change: func(n *Note) { n.State, n.Group = StateInProcess, 0 }, want: dead},
		{name: "in process, alive", change: func(n *Note) { n.State, n.PID, n.StartTicks = StateInProcess, me.PID, me.StartTicks }, want: alive, pid: me.PID},
		{name: "ended, background process left", change: func(n *Note) {
			n.State, n.Group, n.GroupStartTicks = StateEnded, live.PID, live.StartTicks
			n.Outcome = &Outcome{Status: onerun.Succeeded}
		}, want: dead},
		{name: "a state of a later version", change: func(n *Note) { n.State = "dreaming" }, want: unknown},
		{name: "no state", change: func(n *Note) { n.State = "" }, want: unknown},

		{name: "earlier boot", change: func(n *Note) { n.Boot = "earlier"; n.PID, n.StartTicks = me.PID, me.StartTicks }, want: dead},
		{name: "earlier boot, another name", change: func(n *Note) { n.Boot, n.Host = "earlier", "elsewhere" }, want: unknown},
		{name: "earlier boot, another machine", change: func(n *Note) { n.Boot, n.Machine = "earlier", strings.Repeat("0", 32) }, want: unknown},
		{name: "earlier boot, no machine id", change: func(n *Note) { n.Boot, n.Machine = "earlier", "" }, want: unknown},
		{name: "no boot id", change: func(n *Note) { n.Boot = "" }, want: unknown},
		{name: "another host", change: func(n *Note) { n.Host = "elsewhere" }, want: unknown},
		{name: "another machine", change: func(n *Note) { n.Machine = strings.Repeat("0", 32) }, want: unknown},
		{name: "no host", change: func(n *Note) { n.Host = "" }, want: unknown},
		{name: "another pid namespace", change: func(n *Note) { n.PIDNS++ }, want: unknown},
		{name: "no pid namespace", change: func(n *Note) { n.PIDNS = 0 }, want: unknown},
		{name: "PID 1 of another pid namespace", change: func(n *Note) { n.PIDNS++; n.PID = 1 }, want: unknown, free: dead},
		{name: "PID 1 of a container with a host name", change: func(n *Note) { n.PIDNS++; n.PID, n.Host, n.Machine = 1, "c0ffee", "" }, want: unknown, free: dead},
		{name: "PID 1 of another kernel's container", change: func(n *Note) { n.PIDNS++; n.PID, n.Boot, n.Host = 1, "other", "c0ffee" }, want: unknown},
		{name: "another time namespace, all gone", change: func(n *Note) { n.TimeNS++ }, want: dead},
		{name: "another time namespace, pid in use", change: func(n *Note) { n.TimeNS++; n.PID = me.PID }, want: unknown},
		{name: "time namespace not noted", change: func(n *Note) { n.TimeNS = 0; n.PID = me.PID }, want: unknown},
		{name: "nothing", change: func(n *Note) { *n = Note{} }, want: unknown},
	} {
		n := Note{Owner: onerun.NewID(), UID: os.Getuid(), State: StateRunning, Group: deadPID, GroupStartTicks: deadTicks}
		n.setWorker(me)
		n.PID, n.StartTicks = deadPID, deadTicks
		if c.change != nil {
			c.change(&n)
		}
		check := func(how string, v Verdict, want onerun.Liveness) {
			if v.Liveness != want || v.Void != c.void || v.Evidence == "" || strings.Contains(v.Evidence, "\n") {
				t.Errorf("%s, %s: %+v, want %s", c.name, how, v, want)
			}
			if c.pid != 0 && !slices.Equal(v.PIDs, []int{c.pid}) {
				t.Errorf("%s, %s: live %v, want %d", c.name, how, v.PIDs, c.pid)
			}
		}
		check("judged", Judge(n), c.want)
		if c.free == "" {
			c.free = c.want
		}
		check("judged with the lock free", JudgeFree(n), c.free)
		network := judge(n, circumstances{network: true}).Liveness
		if n.Boot != me.Boot && network == dead {
			t.Errorf("%s: dead on a network file system", c.name)
		}
		// a file that its owner removes by itself: what is alive or unknown can't become dead by "ended"
		if v := judge(n, circumstances{standing: true}); v.Liveness == dead && c.want != dead {
			t.Errorf("%s: %+v as X.excl", c.name, v)
		}
	}
}

// An owner that noted the end of its job and lives is about to remove its X.excl by itself.
func TestJudgeStanding(t *testing.T) {
	n := Note{Owner: onerun.NewID(), State: StateEnded, Outcome: &Outcome{Status: onerun.Succeeded}}
	n.setWorker(thisWorker())
	standing := circumstances{standing: true}
	if v := judge(n, standing); v.Liveness != onerun.Alive {
		t.Errorf("its owner lives: %+v", v)
	}
	n.Released = true
	if v := judge(n, standing); v.Liveness != onerun.Dead {
		t.Errorf("released: %+v", v)
	}
	n.Released = false
	n.Host = "elsewhere"
	if v := judge(n, standing); v.Liveness != onerun.Unknown {
		t.Errorf("another host: %+v", v)
	}
}

// A job in another group is found by its environment as long as the group isn't noted.
func TestJudgeFindsEscapedJob(t *testing.T) {
	owner := onerun.NewID()
	pid, ticks := corpse(t)
	live := child(t, owner, "OTHER=1")
	n := Note{Owner: owner, State: StateForking, UID: os.Getuid(), StartedAt: time.Now()}
	n.setWorker(thisWorker())
	n.PID, n.StartTicks = pid, ticks
	if v := Judge(n); v.Liveness != onerun.Alive || !slices.Equal(v.PIDs, []int{live.PID}) || !strings.Contains(v.Evidence, "environment") {
		t.Errorf("%+v, want %d alive", v, live.PID)
	}
	_ = syscall.Kill(live.PID, syscall.SIGKILL)
	await(t, "job's end", func() bool { return mustDead(procfs.Judge(live)) })
	if v := Judge(n); v.Liveness != onerun.Dead || v.Void {
		t.Errorf("%+v, want dead, but not void: the job did run", v)
	}
}

// The environment of another account's processes can't be read, but by root.
func TestJudgeForkingOfAnotherAccount(t *testing.T) {
	pid, ticks := corpse(t)
	n := Note{Owner: onerun.NewID(), State: StateForking, UID: os.Getuid() + 1}
	n.setWorker(thisWorker())
	n.PID, n.StartTicks = pid, ticks
	want := onerun.Unknown
	if os.Geteuid() == 0 {
		want = onerun.Dead
	}
	if v := Judge(n); v.Liveness != want || v.Void {
		t.Errorf("%+v, want %s", v, want)
	}
}

func TestThisWorker(t *testing.T) {
	w := ThisWorker("label")
	if w.PID != os.Getpid() || w.Label != "label" || ThisWorker("").Label != "" {
		t.Errorf("%+v", w)
	}
}

// Nor can root's judge, in a container that has taken its capabilities: then another account's
// start is not proven dead.
func TestJudgeForkingWithoutCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test changes accounts: run it as root, for example: sudo make test")
	}
	const nobody = 65534
	pid, ticks := corpse(t)
	owner := onerun.NewID()
	other := exec.Command("/bin/sh", "-c", "echo ready; read x")
	other.Env = []string{ownerVariable + "=" + owner}
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err == nil {
		_, err = stdout.Read(make([]byte, 16)) // it has its environment
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = stdin.Close(), other.Wait() }()
	n := Note{Owner: owner, State: StateForking, UID: nobody}
	n.setWorker(thisWorker())
	n.PID, n.StartTicks = pid, ticks
	if v := Judge(n); v.Liveness != onerun.Alive {
		t.Errorf("root: %+v", v)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: this thread has lost capabilities
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&header, &caps[0]); err != nil {
			t.Error(err)
		}
		caps[0].Effective &^= 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN
		caps[1].Effective &^= 1 << (unix.CAP_PERFMON - 32)
		if err := unix.Capset(&header, &caps[0]); err != nil {
			t.Error(err)
		}
		if v := Judge(n); v.Liveness != onerun.Unknown {
			t.Errorf("without capabilities: %+v", v)
		}
	}()
	<-done
}
