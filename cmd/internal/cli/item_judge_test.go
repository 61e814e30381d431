package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestItemSurvivorWithoutMark: what an item has started lives on with its environment cleared, in
// the job's process group: nobody can tell whose it is, so the item isn't begun beside it.
func TestItemSurvivorWithoutMark(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	p := b.start("run", "pay", "-c", `onerun item order-1 -c 'env -i sh -c "echo \$\$ >left; read x <gate" & echo $PPID >owner; wait'
		read go; onerun item order-1 -E 9 -- echo again; echo "second $?"
		read go; onerun item order-1 -E 9 -- echo again; echo "third $?"`)
	if err := syscall.Mkfifo(b.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	left, owner := b.pidIn(t, "left"), b.pidIn(t, "owner")
	_ = syscall.Kill(owner, syscall.SIGKILL)
	if !eventually(func() bool { return !runs(owner) }) {
		t.Fatal("it can't be killed")
	}
	p.goesOn()
	p.says("second 9")
	if it := b.item(t, "order-1"); it["liveness"] != "unknown" {
		t.Errorf("with a survivor it is %v", it)
	}
	if err := os.WriteFile(b.path("gate"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return !runs(left) }) {
		t.Fatal("the survivor doesn't end")
	}
	p.goesOn()
	p.says("again")
	p.says("third 0")
	p.wait()
}

// TestItemElsewhere: who works in another pid namespace can't be seen from here, and is not taken
// for dead, though the run that it is part of has ended; nor when that run was pruned.
func TestItemElsewhere(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	inside := func(script string) *exec.Cmd {
		cmd := exec.Command("unshare", "-pf", "--mount-proc", "sh", "-c", script)
		cmd.Dir, cmd.Env = b.dir, b.command().Env
		return cmd
	}
	if err := syscall.Mkfifo(b.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	const work = `setsid onerun item order-1 -- sh -c "touch up; read x <gate" >log 2>&1 & while ! test -e up; do sleep 0.02; done`
	p := launch(t, inside(`onerun run pay --scope key --partition a -- sh -c '`+work+`'; echo ended; read go`))
	p.says("ended")
	// As long as this is open, no later namespace gets the number of that one (namespaces(7)).
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/pid_for_children", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ns.Close() }()
	again := func(partition string) string {
		return outcome(inside("onerun run pay --scope key --partition " + partition + " -- onerun item order-1 -E 9 -- echo again")).out
	}
	if out := outcome(inside("onerun run pay --scope key --partition b -- onerun item order-1 -E 9 -- echo again")).exits(t, 9).out; out != "" {
		t.Errorf("beside its owner it printed %q", out)
	}
	b.run("prune", "pay:a").exits(t, 0)
	if it := b.item(t, "order-1"); it["liveness"] == "dead" || it["state"] != "started" {
		t.Errorf("after its run was pruned it is %v", it)
	}
	p.goesOn()
	p.wait() // the namespace is gone, with all that worked there
	// Only who sees all namespaces of the machine knows that: from within another one a person may decide.
	if out := again("c"); out != "" {
		t.Errorf("without knowing it printed %q", out)
	}
	outcome(inside("onerun resolve pay --item order-1 --as failed --reason 'that container is gone'")).exits(t, 0)
	if out := again("d"); out != "again\n" {
		t.Errorf("after a person's decision it printed %q", out)
	}
}

// TestItemPrunedRun: a run is pruned while something of its background does an item.
func TestItemPrunedRun(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := syscall.Mkfifo(b.path("gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.run("run", "pay", "--partition", "a", "-c", `curl -s --unix-socket $ONERUN_SOCKET http://x/v1/items/begin -d '{"item": "order-1"}' >/dev/null
		sh -c 'echo $$ >left; read x <gate' >/dev/null 2>&1 & while ! test -s left; do sleep 0.01; done`).exits(t, 0)
	left := b.pidIn(t, "left")
	t.Cleanup(func() { _ = syscall.Kill(left, syscall.SIGKILL) })
	b.run("prune", "pay:a").exits(t, 0)
	if it := b.item(t, "order-1"); it["liveness"] != "alive" {
		t.Errorf("it is %v", it)
	}
	b.run("run", "pay", "--partition", "b", "--", "onerun", "item", "order-1", "-E", "9", "--", "echo", "again").exits(t, 9)
	_ = syscall.Kill(left, syscall.SIGKILL)
	if !eventually(func() bool { return b.item(t, "order-1")["liveness"] == "dead" }) {
		t.Errorf("after its end it is %v", b.item(t, "order-1"))
	}
}

// TestItemTexts: what a job says of an item is masked by the configuration's patterns too, and has
// a form; payloads are compared byte by byte, however long they are.
func TestItemTexts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := os.WriteFile(b.path("c.yaml"), []byte("redact: [\"card-[0-9]+\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := b.run("run", "pay", "--config", "c.yaml", "-c", `
		ask() { curl -s --unix-socket $ONERUN_SOCKET http://x/v1/items/$1 -d "$2"; }
		owner=$(ask begin '{"item": "a"}' | sed 's/.*owner":"//; s/".*//')
		ask end '{"item": "a", "owner": "'$owner'", "signal": "password=c4n4ry"}'
		ask end '{"item": "a", "owner": "'$owner'", "exit_code": 99999}'
		ask end '{"item": "a", "owner": "'$owner'", "exit_code": 3, "signal": "SIGRTMIN+1", "error": "card-4711 was refused"}'
		onerun item b -E 5 --payload $(printf '\377') -- true; echo "first $?"
		onerun item b -E 5 --payload $(printf '\376') -- true; echo "other $?"
		printf '\377' >same; onerun item b -E 5 --payload @same -- true; echo "same $?"
		onerun item c --payload $(head -c 70000 /dev/zero | tr '\0' a) -- true; echo "long $?"
		onerun report skipped "$(head -c 70000 /dev/zero | tr '\0' a)"; echo "skipped $?"`).exits(t, 0)
	for _, want := range []string{"signal is no name of one", "exit_code is 99999", "first 0\n", "other 79\n", "same 5\n", "long 0\n", "skipped 0\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("it printed %q, without %q", r.out, want)
		}
	}
	if it := b.item(t, "a"); it["error"] != "*** was refused" || it["exit_code"] != 3.0 || it["signal"] != "SIGRTMIN+1" {
		t.Errorf("kept is %v", it)
	}
}
