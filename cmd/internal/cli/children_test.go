package cli

import (
	"fmt"
	"os/exec"
	"testing"
)

// zombies is a job's line that counts, each second, the processes that nobody has waited for.
const zombies = `{schedule: "* * * * * *", shell: "cat /proc/[0-9]*/status | grep -c ^State:.Z >>DIR/zombies; true"}`

// leavesOrphans is a shell's line that leaves as many processes behind as a job of a night may.
const leavesOrphans = `for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (setsid sleep 0.1 &); done; exit 3`

// inContainer is onerun as the first process of a pid namespace.
func (b *bed) inContainer(args ...string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{"--pid", "--fork", "--kill-child", "--mount-proc", program()}, args...)...)
	cmd.Dir, cmd.Env = b.dir, b.command().Env
	return cmd
}

// TestServeFirstProcess (B34): as the first process of a container the scheduler waits for what its jobs leave behind, and has the
// right status of its jobs all the same.
func TestServeFirstProcess(t *testing.T) {
	t.Parallel()
	b := newServe(t, "timezone: UTC\njobs:\n  leaves: {schedule: \"@reboot\", shell: \""+leavesOrphans+"\"}\n"+
		"  fails: {schedule: \"* * * * * *\", shell: \"exit 3\"}\n  zombies: "+zombies+"\n")
	s := b.serveAs(t, b.inContainer("serve"))
	if !eventually(func() bool {
		runs := b.list(t, "history", "leaves")
		return len(runs) == 1 && runs[0]["status"] == "FAILED"
	}) {
		t.Fatalf("it printed %s", s.printed())
	}
	n := len(b.sees("zombies", atLeast(1)))
	b.sees("zombies", func(lines []string) bool { return len(lines) > n && lines[len(lines)-1] == "0" })
	for _, job := range []string{"leaves", "fails"} {
		for _, r := range b.list(t, "history", job) {
			if r["status"] == "FAILED" && fmt.Sprint(r["exit_code"]) != "3" {
				t.Errorf("%v", r)
			}
		}
	}
}

// TestBackfillFirstProcess: the same of what a backfill's dates leave behind, while it goes on.
func TestBackfillFirstProcess(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	script := `case $ONERUN_BUSINESS_DATE in *-01) ` + leavesOrphans + `;; esac
		while cat /proc/[0-9]*/status | grep -q ^State:.Z; do sleep 0.02; done; echo none`
	if r := outcome(b.inContainer("backfill", "j", "--from", "2026-09-01", "--to", "2026-09-02", "--keep-going", "--timeout", "20s", "-c", script)).exits(t, 3); r.out != "none\n" {
		t.Errorf("it printed %q", r.out)
	}
}
