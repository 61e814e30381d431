package procfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestJudgeRunningProcess(t *testing.T) {
	id := identify(t, start(t, helper("wait")))
	for name, c := range map[string]struct {
		id   Identity
		want Liveness
	}{
		"the very process":       {id, Alive},
		"another start time":     {Identity{id.PID, id.StartTicks - 1}, Dead},
		"start time not noted":   {Identity{id.PID, 0}, Unknown},
		"no pid":                 {Identity{0, id.StartTicks}, Unknown},
		"a group, not a process": {Identity{-id.PID, id.StartTicks}, Unknown},
		"every process":          {Identity{-1, 0}, Unknown},
	} {
		if got, evidence := Judge(c.id); got != c.want {
			t.Errorf("%s: got %v (%s), want %v", name, got, evidence, c.want)
		}
	}
}

func TestJudgeZombieAndReaped(t *testing.T) {
	p := start(t, helper("wait"))
	id := identify(t, p)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := waitEnded(id.PID); err != nil {
		t.Fatal(err)
	}
	for _, ticks := range []uint64{id.StartTicks, 0} {
		got, evidence := Judge(Identity{id.PID, ticks})
		if err := expect("zombie", got, Dead, evidence, "zombie"); err != nil {
			t.Error(err)
		}
	}
	_ = p.cmd.Wait()
	for _, ticks := range []uint64{id.StartTicks, 0} {
		got, evidence := Judge(Identity{id.PID, ticks})
		if err := expect("reaped", got, Dead, evidence, "does not exist"); err != nil {
			t.Error(err)
		}
	}
}

// beHeadless ends the first thread and lets the others run.
func beHeadless() error {
	go func() {
		_ = waitForEOF()
		os.Exit(0)
	}()
	_, _, errno := unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // this thread alone; exit_group(2) would end them all
	return errno
}

// A process whose first thread has ended shows the state Z, and goes on working in its other threads.
func TestJudgeZombieLeaderWithRunningThreads(t *testing.T) {
	cmd := helper("headless", "GOMAXPROCS=4")
	cmd.SysProcAttr.Setpgid = true
	id := identify(t, start(t, cmd))
	s, err := ReadStat(id.PID)
	for err == nil && s.State != 'Z' { // the thread ends right after the helper has said that it is ready
		runtime.Gosched()
		s, err = ReadStat(id.PID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, evidence := Judge(id); got != Alive {
		t.Errorf("got %v (%s), want alive", got, evidence)
	}
	if live, _, err := GroupMembers(id.PID); len(live) != 1 || err != nil {
		t.Errorf("members of its group: %v, %v, want it alone", live, err)
	}
}

// kill(2) takes the number of any thread for its process, and /proc/TID exists although it isn't listed.
func TestJudgeNumberNowAThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	got, evidence := Judge(Identity{PID: unix.Gettid(), StartTicks: 1})
	if err := expect("thread", got, Dead, evidence, "reused"); err != nil {
		t.Error(err)
	}
}

// beRenamed takes the name that it is told. Writing to comm is prctl(PR_SET_NAME) for the first thread.
func beRenamed() error {
	if err := os.WriteFile("/proc/self/comm", append([]byte(os.Getenv("NAME")), 0), 0); err != nil {
		return err
	}
	return waitForEOF()
}

// hostileNames are what programs may call themselves, 15 bytes at most.
var hostileNames = []string{
	") R 1 1 1", ")", "(", "((", "))", ") Z 1 (x) X 1", "a b c", " ", "", "\n) Z 1 1\n", "\\", "작업", "\xff\xfe) S 0", "1 (x) Z 1",
}

func TestReadStatOfHostileNames(t *testing.T) {
	for _, name := range hostileNames {
		t.Run(strconv.Quote(name), func(t *testing.T) {
			p := start(t, helper("renamed", "NAME="+name))
			if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.pid())); err != nil || string(comm) != name+"\n" {
				t.Fatalf("the process is called %q (%v)", comm, err)
			}
			s, err := ReadStat(p.pid())
			group, _ := unix.Getpgid(p.pid())
			session, _ := unix.Getsid(p.pid())
			if err != nil || s.PID != p.pid() || s.PPID != os.Getpid() || s.PGRP != group || s.Session != session || s.Gone() {
				t.Errorf("got %+v, %v", s, err)
			}
			if got, evidence := Judge(Identity{s.PID, s.StartTicks}); got != Alive {
				t.Errorf("got %v (%s)", got, evidence)
			}
		})
	}
}

func TestReadStatOfHostileFileName(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/) R 1 (x"
	if err := os.WriteFile(path, b, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "100")
	if err := cmd.Start(); err != nil { // it has executed the file when Start returns
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	s, err := ReadStat(cmd.Process.Pid)
	if err != nil || s.PPID != os.Getpid() || s.Gone() {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestSelf(t *testing.T) {
	id, err := Self()
	if err != nil || id.PID != os.Getpid() || id.StartTicks == 0 {
		t.Fatalf("got %+v, %v", id, err)
	}
	if got, evidence := Judge(id); got != Alive {
		t.Errorf("got %v (%s)", got, evidence)
	}
}

func TestReadStatMissing(t *testing.T) {
	p := start(t, helper("wait"))
	pid := p.pid()
	p.end()
	if _, err := ReadStat(pid); !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
		t.Errorf("got %v", err)
	}
}

// reusedNumber runs as the first process of a pid namespace, where it can choose the next number.
func reusedNumber() error {
	const number = 300
	first, err := launchAs(number, helper("wait"))
	if err != nil {
		return err
	}
	old, err := first.identity()
	if err != nil {
		return err
	}
	first.end()
	nextTick()
	second, err := launchAs(number, helper("wait"))
	if err != nil {
		return err
	}
	defer second.end()
	if second.pid() != old.PID {
		return fmt.Errorf("number %d was given out as %d", number, second.pid())
	}
	process, why := Judge(old)
	group, _, whyGroup := GroupGone(old)
	current, err := second.identity()
	if err != nil {
		return err
	}
	now, whyNow := Judge(current)
	return errors.Join(
		expect("the old process", process, Dead, why, "reused"),
		expect("the old group", group, Dead, whyGroup, "reused"),
		expect("the new process", now, Alive, whyNow, "running"))
}

// survivingMember runs as the first process of a pid namespace, so that orphans become its own children.
func survivingMember() error {
	// kill(-1) would be about everybody, and as first process we may be leader of group 1
	if live, _, err := GroupMembers(1); err != nil || !slices.Equal(live, []int{1}) {
		return fmt.Errorf("group 1: %v, %w", live, err)
	}
	const number = 400
	cmd := exec.Command("/bin/sh", "-c", "sleep 100 & echo $!; read x")
	leader, err := launchAs(number, cmd)
	if err != nil {
		return err
	}
	id, err := leader.identity()
	if err != nil {
		return err
	}
	live, complete, err := GroupMembers(id.PID)
	if len(live) != 2 || !complete || err != nil {
		return fmt.Errorf("leader and member: %v %v %w", live, complete, err)
	}
	member := live[0] + live[1] - id.PID
	_ = leader.cmd.Process.Kill() // not end: that would wait for the pipe that the member holds
	if _, err := unix.Wait4(id.PID, nil, 0, nil); err != nil {
		return err
	}
	left, members, why := GroupGone(id)
	if err := expect("group without leader", left, Alive, why, "running members"); err != nil || len(members) != 1 || members[0] != member {
		return fmt.Errorf("%w: %v, want %d", err, members, member)
	}
	if gone, why := Judge(id); gone != Dead {
		return fmt.Errorf("the leader alone: %v (%s)", gone, why)
	}
	// The number is in use by the group: nobody else gets it.
	other, err := launchAs(number, helper("wait"))
	if err != nil {
		return err
	}
	other.end()
	if other.pid() == number {
		return errors.New("the number of a living group was given out again")
	}
	// A zombie answers kill(2), and yet nothing of the group runs.
	if err := errors.Join(unix.Kill(member, unix.SIGKILL), waitEnded(member), unix.Kill(-number, 0)); err != nil {
		return err
	}
	left, members, why = GroupGone(id)
	if err := expect("group of zombies", left, Dead, why, "no running member"); err != nil {
		return fmt.Errorf("%w: %v", err, members)
	}
	if _, err := unix.Wait4(member, nil, 0, nil); err != nil {
		return err
	}
	left, _, why = GroupGone(id)
	return expect("empty group", left, Dead, why, "is empty")
}

// launchAs starts cmd as leader of its own group, with that process id if it is free.
func launchAs(pid int, cmd *exec.Cmd) (*process, error) {
	// exec.Cmd starts a short-lived process of its own the first time, to see what the kernel can do
	if err := exec.Command("/bin/true").Run(); err != nil {
		return nil, err
	}
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
		return nil, err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	return launch(cmd)
}

func TestReusedNumber(t *testing.T) {
	requireRoot(t)
	run(t, separate(helper("reused number")))
}

func TestSurvivingMember(t *testing.T) {
	requireRoot(t)
	cmd := separate(helper("surviving member"))
	cmd.SysProcAttr.Setpgid = true
	run(t, cmd)
}

// foreignProc runs in a pid namespace of its own, and sees the /proc of another.
func foreignProc() error {
	p, err := launch(helper("wait"))
	if err != nil {
		return err
	}
	defer p.end()
	alive, why := Judge(Identity{p.pid(), 1})
	missing, whyMissing := Judge(Identity{1 << 21, 1})
	group, _, whyGroup := GroupGone(Identity{PID: os.Getpid(), StartTicks: 1})
	err = errors.Join(
		expect("a child", alive, Unknown, why, "another pid namespace"),
		expect("nobody", missing, Dead, whyMissing, "does not exist"),
		expect("own group", group, Unknown, whyGroup, "another pid namespace"))
	if _, e := Self(); !errors.Is(e, errForeign) {
		err = errors.Join(err, fmt.Errorf("Self: %w", e))
	}
	if _, complete, e := FindEnviron("A", "B", 0); !errors.Is(e, errForeign) || complete {
		err = errors.Join(err, fmt.Errorf("FindEnviron: %v %w", complete, e))
	}
	return err
}

func TestForeignProc(t *testing.T) {
	requireRoot(t)
	cmd := separate(helper("foreign /proc"))
	cmd.SysProcAttr.Setpgid = true
	run(t, cmd)
}

// judgeTheHidden runs as nobody and is told the identity of a process of root that leads its own group.
func judgeTheHidden() error {
	id, err := toldIdentity()
	if err != nil {
		return err
	}
	if s, err := readStat(id.PID); err == nil {
		return fmt.Errorf("it isn't hidden at all: %+v", s)
	}
	process, why := Judge(id)
	group, _, whyGroup := GroupGone(id)
	live, complete, err := GroupMembers(id.PID)
	if len(live) > 0 || complete || err != nil {
		return fmt.Errorf("members: %v, complete %v, %w", live, complete, err)
	}
	// A group of which a zombie is left, which all can see, has no hidden member: it is gone.
	cmd := helper("wait")
	cmd.SysProcAttr.Setpgid = true
	p, err := launch(cmd)
	if err != nil {
		return err
	}
	defer p.end()
	if err := errors.Join(p.cmd.Process.Kill(), waitEnded(p.pid())); err != nil {
		return err
	}
	left, _, whyLeft := GroupGone(Identity{PID: p.pid()})
	// what belongs to the reader itself is seen as ever
	self, err := Self()
	if err != nil {
		return err
	}
	own, whyOwn := Judge(self)
	pids, complete, err := FindEnviron(helperEnv, "judge the hidden", self.StartTicks)
	if len(pids) > 0 || !complete || err != nil {
		return fmt.Errorf("environment: %v, complete %v, %w", pids, complete, err)
	}
	return errors.Join(
		expect("hidden process", process, Unknown, why, "can't be read"),
		expect("hidden group", group, Unknown, whyGroup, "can't be read"),
		expect("own zombie", left, Dead, whyLeft, "no running member"),
		expect("own process", own, Alive, whyOwn, "running"))
}

// On a /proc with hidepid a living process may have no entry at all.
func TestHiddenProcessIsNotDead(t *testing.T) {
	requireRoot(t)
	for _, option := range []string{"hidepid=1", "hidepid=2"} {
		t.Run(option, func(t *testing.T) {
			run(t, separate(helper("hidden, "+option)))
		})
	}
}

// otherUser runs as nobody and is told the identity of a process of root in plain sight.
func otherUser() error {
	id, err := toldIdentity()
	if err != nil {
		return err
	}
	if err := unix.Kill(id.PID, 0); err != unix.EPERM {
		return fmt.Errorf("kill: %w, want EPERM", err)
	}
	same, why := Judge(id)
	other, whyOther := Judge(Identity{id.PID, id.StartTicks + 1})
	unnoted, whyUnnoted := Judge(Identity{id.PID, 0})
	group, _, whyGroup := GroupGone(id)
	return errors.Join(
		expect("same start", same, Alive, why, "running"),
		expect("other start", other, Dead, whyOther, "reused"),
		expect("start not noted", unnoted, Unknown, whyUnnoted, "not known"),
		expect("its group", group, Alive, whyGroup, "running members"))
}

// B16: EPERM says that a process is there, not whose it is.
func TestJudgeOtherUsersProcess(t *testing.T) {
	requireRoot(t)
	if err := nobodyOnRoot("other user"); err != nil {
		t.Error(err)
	}
}

func TestGroupMembers(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `sh -c 'exit 0' & sleep 100 & sleep 100 & echo ready; read x`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := start(t, cmd)
	t.Cleanup(func() { _ = unix.Kill(-p.pid(), unix.SIGKILL) })
	live, complete, err := GroupMembers(p.pid())
	for err == nil && len(live) > 3 { // the third background process is just ending
		live, complete, err = GroupMembers(p.pid())
	}
	if len(live) != 3 || !complete || err != nil {
		t.Errorf("got %v, %v, %v", live, complete, err)
	}
	if err := unix.Kill(-p.pid(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := waitEnded(p.pid()); err != nil {
		t.Fatal(err)
	}
	// the leader is a zombie that nobody has reaped; the others end in the same moment
	for live, complete, err = GroupMembers(p.pid()); len(live) > 0; live, complete, err = GroupMembers(p.pid()) {
		runtime.Gosched()
	}
	if !complete || err != nil || unix.Kill(-p.pid(), 0) != nil {
		t.Errorf("group of a zombie: %v, %v, kill: %v", complete, err, unix.Kill(-p.pid(), 0))
	}
	id := Identity{PID: p.pid()}
	if got, _, evidence := GroupGone(id); got != Dead {
		t.Errorf("got %v (%s)", got, evidence)
	}
	p.end()
	if got, _, evidence := GroupGone(id); got != Dead { // the others may wait for their new parent to reap them
		t.Errorf("got %v (%s)", got, evidence)
	}
}

func TestGroupMembersOfNoGroup(t *testing.T) {
	for _, pgid := range []int{0, -1, -5, -1 << 21} {
		if live, complete, err := GroupMembers(pgid); len(live) > 0 || complete || !errors.Is(err, unix.EINVAL) {
			t.Errorf("%d: got %v, %v, %v", pgid, live, complete, err)
		}
		if got, _, evidence := GroupGone(Identity{PID: pgid}); got != Unknown {
			t.Errorf("%d: got %v (%s)", pgid, got, evidence)
		}
	}
	// Group 1 can't be asked for by kill(-1), which means everybody; the answer comes from /proc.
	live, complete, err := GroupMembers(1)
	group, _ := unix.Getpgid(1)
	if (len(live) > 0) != (group == 1) || !complete || err != nil {
		t.Errorf("group 1: got %v, %v, %v; process 1 is in group %d", live, complete, err, group)
	}
}
