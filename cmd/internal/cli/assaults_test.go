package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The witness of a lane is a file that a job and all that it starts hold locked, in
// whatever group or session: should a second job begin while anything of the first one
// lives, it is refused that lock and says so. Argument 1 is what the job is like, 2 how
// it exits, 3 in which order it closes what it has open, if it does. What it leaves ends
// before its first process does, if nobody is killed.
const tortured = `
exec 3<&0 4>&1 5>&2 6</dev/null 9>>witness
flock -n 9 || { echo "$ONERUN_PARTITION" >>overlaps; exit 99; }
echo "$ONERUN_PARTITION" >>begun
flood() { head -c 3M /dev/zero; head -c 1M /dev/zero >&2; }
case $1 in
children) sleep 0.15 & ;;
left) setsid sleep 0.15 & ;;
deep) (setsid sh -c 'setsid sleep 0.15 & sleep 0.1; wait' & wait) & ;;
stubborn) trap '' TERM; (trap '' TERM; sleep 0.15) & ;;
flood) flood ;;
floods) flood & setsid sh -c 'head -c 3M /dev/zero; sleep 0.1' & ;;
closes) flood; for fd in $3; do eval "exec $fd>&-"; done ;;
parts) (sleep 0.15) & for fd in $3; do eval "exec $fd>&-"; done ;;
esac
sleep 0.1
wait
echo "$ONERUN_PARTITION" >>finished
exit $2
`

var natures = []string{"plain", "children", "left", "deep", "stubborn", "flood", "floods", "closes", "parts"}

// victim is a run of a job that is tortured.
type victim struct {
	*proc
	key   string
	pause func() // as long as the assault takes
}

// assault is what befalls a run.
type assault struct {
	name     string
	harmless bool // it leaves the run its own end
	group    bool // it has the first process end before what it has started, which is waited for in the group alone
	do       func(v victim)
}

var assaults = []assault{
	{name: "nothing", harmless: true, do: func(victim) {}},
	{name: "kill the wrapper", do: func(v victim) { v.signal(syscall.SIGKILL) }},
	{name: "kill the guard", harmless: true, do: func(v victim) { v.signalGuard(syscall.SIGKILL) }},
	{name: "kill the guard, then the wrapper", do: func(v victim) {
		v.signalGuard(syscall.SIGKILL)
		v.pause()
		v.signal(syscall.SIGKILL)
	}},
	{name: "freeze the wrapper for a while", harmless: true, do: func(v victim) {
		v.signal(syscall.SIGSTOP)
		v.pause()
		v.signal(syscall.SIGCONT)
	}},
	{name: "freeze the wrapper, then kill it", do: func(v victim) {
		v.signal(syscall.SIGSTOP)
		v.pause()
		v.signal(syscall.SIGKILL)
	}},
	{name: "freeze the guard, kill the wrapper, let the guard go on", do: func(v victim) {
		guards := v.signalGuard(syscall.SIGSTOP)
		v.signal(syscall.SIGKILL)
		v.pause()
		signalAll(guards, syscall.SIGCONT)
	}},
	{name: "freeze both, kill the wrapper, let the guard go on", do: func(v victim) {
		v.signal(syscall.SIGSTOP)
		guards := v.signalGuard(syscall.SIGSTOP)
		v.pause()
		v.signal(syscall.SIGKILL)
		signalAll(guards, syscall.SIGCONT)
	}},
	{name: "stop it, then kill the wrapper", do: func(v victim) {
		stop := exec.Command(program(), "stop", "job:"+v.key, "--reason", "torture")
		stop.Env = v.cmd.Env
		if stop.Start() != nil {
			return
		}
		v.pause()
		v.signal(syscall.SIGKILL)
		_ = stop.Wait() // there may be nothing to stop any more
	}},
	{name: "kill the first process", group: true, do: func(v victim) { signalAll(v.first(), syscall.SIGKILL) }},
	{name: "kill the first process, then the wrapper", group: true, do: func(v victim) {
		signalAll(v.first(), syscall.SIGKILL)
		v.pause()
		v.signal(syscall.SIGKILL)
	}},
	{name: "freeze the first process for a while", harmless: true, do: func(v victim) {
		first := v.first()
		signalAll(first, syscall.SIGSTOP)
		v.pause()
		signalAll(first, syscall.SIGCONT)
	}},
	{name: "kill what it has started", harmless: true, do: func(v victim) { signalAll(v.leaves(), syscall.SIGKILL) }},
	{name: "freeze what it has started for a while", harmless: true, do: func(v victim) {
		leaves := v.leaves()
		signalAll(leaves, syscall.SIGSTOP)
		v.pause()
		signalAll(leaves, syscall.SIGCONT)
	}},
	{name: "freeze all of the job, then kill the wrapper", do: func(v victim) {
		job := v.job()
		signalAll(job, syscall.SIGSTOP)
		v.pause()
		v.signal(syscall.SIGKILL)
		v.pause()
		signalAll(job, syscall.SIGCONT) // before there is a guard, nobody ends what has left the group
	}},
	{name: "freeze the wrapper, kill what it has started, let it go on", harmless: true, do: func(v victim) {
		v.signal(syscall.SIGSTOP)
		signalAll(v.leaves(), syscall.SIGKILL)
		v.pause()
		v.signal(syscall.SIGCONT)
	}},
}

func (p *proc) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *proc) signalGuard(s syscall.Signal) []int {
	pids := guardsOf(p.cmd.Process.Pid)
	signalAll(pids, s)
	return pids
}

func signalAll(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may be gone
	}
}

// job is all that runs of the victim's job, in whatever group.
func (v victim) job() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		text, _ := os.ReadFile(name) // gone meanwhile, or a zombie
		entries := strings.Split(string(text), "\x00")
		if slices.Contains(entries, "ONERUN_PARTITION="+v.key) && slices.Contains(entries, v.cmd.Env[len(v.cmd.Env)-1]) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// first is the job's first process, as long as it runs.
func (v victim) first() []int {
	return slices.DeleteFunc(v.job(), func(pid int) bool { return parentOf(strconv.Itoa(pid)) != strconv.Itoa(v.cmd.Process.Pid) })
}

// leaves are those of the job's processes that nothing depends on.
func (v victim) leaves() []int {
	return slices.DeleteFunc(v.job(), func(pid int) bool {
		name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		return string(name) != "sleep\n" && string(name) != "head\n"
	})
}
