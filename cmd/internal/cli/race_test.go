package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// together executes n programs that are all let go in the same moment, when each is
// loaded and waits: they read a pipe that is closed then, and become the program.
func together(t testing.TB, n int, command func(i int) *exec.Cmd) []result {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	results := make([]result, n)
	ready := make([]*os.File, n)
	var wg sync.WaitGroup
	for i := range n {
		cmd := command(i)
		gate := exec.Command("/bin/sh", append([]string{"-c", `echo >&4; read x <&3; exec 3<&- 4>&-; exec "$@"`, "gate", cmd.Path}, cmd.Args[1:]...)...)
		gate.Dir, gate.Env, gate.Stdin = cmd.Dir, cmd.Env, cmd.Stdin
		there, tell, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ready[i], gate.ExtraFiles = there, []*os.File{read, tell}
		started := make(chan struct{})
		wg.Go(func() {
			var out, errs strings.Builder
			gate.Stdout, gate.Stderr = &out, &errs
			err := gate.Start()
			close(started)
			if err == nil {
				err = gate.Wait()
			}
			results[i] = result{codeOf(err), out.String(), errs.String()}
		})
		<-started
		_ = tell.Close()
	}
	_ = read.Close()
	for _, there := range ready {
		_, _ = there.Read(make([]byte, 1))
		_ = there.Close()
	}
	_ = write.Close()
	wg.Wait()
	return results
}

// count counts the results with that exit status.
func count(results []result, code int) (n int) {
	for _, r := range results {
		if r.code == code {
			n++
		}
	}
	return n
}

// The first thing that onerun is for: three are started at once, exactly one starts.
func TestThreeStartedAtOnce(t *testing.T) {
	b := newBed(t)
	for round := range 10 {
		date := fmt.Sprintf("2026-09-%02d", round+1)
		job := []string{"run", "settle", "--date", date, "-E", "75", "--", "sh", "-c", "echo $$ >>witness; read x <gate"}
		if err := exec.Command("mkfifo", b.path("gate")).Run(); err != nil {
			t.Fatal(err)
		}
		done := make(chan []result, 1)
		go func() { done <- together(t, 3, func(int) *exec.Cmd { return b.command(job...) }) }()
		// The two that are refused are so while the one runs.
		if !eventually(func() bool { return skipsOf(b.list(t, "history", "settle:"+date)) == 2 }) {
			t.Fatalf("two skips were to be seen: %v", b.list(t, "history", "settle:"+date))
		}
		if err := os.WriteFile(b.path("gate"), []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
		results := <-done
		if count(results, 0) != 1 || count(results, 75) != 2 {
			t.Fatalf("%+v", results)
		}
		witness, err := os.ReadFile(b.path("witness"))
		if err != nil || strings.Count(string(witness), "\n") != round+1 {
			t.Fatalf("the witness saw %q, %v", witness, err)
		}
		_ = os.Remove(b.path("gate"))
	}
	if runs := b.list(t, "history", "--status", "succeeded"); len(runs) != 10 {
		t.Errorf("%d runs", len(runs))
	}
}

func skipsOf(runs []map[string]any) int {
	if len(runs) != 1 {
		return -1
	}
	return int(runs[0]["skips"].(float64))
}

// B40: twenty at once ask for a rerun, and one gets it; then twenty at once start, and one
// executes.
func TestTwentyRerunsAtOnce(t *testing.T) {
	b := newBed(t)
	b.run("run", "settle", "--date", "2026-09-15", "--", "true").exits(t, 0)
	for round := 1; round <= 3; round++ {
		results := together(t, 20, func(i int) *exec.Cmd {
			return b.command("rerun", "settle:2026-09-15", "--reason", fmt.Sprintf("pressed by %d", i))
		})
		if count(results, 0) != 1 || count(results, exitState) != 19 {
			t.Fatalf("approvals: %+v", results)
		}
		for _, r := range results {
			if r.code != 0 {
				r.oneLine(t)
			}
		}
		results = together(t, 20, func(int) *exec.Cmd {
			return b.command("run", "settle", "--date", "2026-09-15", "-E", "75", "--", "sh", "-c", "echo $ONERUN_ATTEMPT >>witness")
		})
		if count(results, 0) != 1 || count(results, 75) != 19 {
			t.Fatalf("starts: %+v", results)
		}
	}
	witness, err := os.ReadFile(b.path("witness"))
	if string(witness) != "2\n3\n4\n" {
		t.Errorf("the witness saw %q, %v", witness, err)
	}
	if got := b.object(t, "show", "settle:2026-09-15")["approvals"].([]any); len(got) != 3 {
		t.Errorf("approvals: %v", got)
	}
}

// The same with decisions that exclude each other: one is made, the others are told so.
func TestDecisionsAtOnce(t *testing.T) {
	b := newBed(t)
	b.run("run", "settle", "--date", "2026-09-15", "--log-file", "/dev/null", "--", "false").exits(t, 1)
	results := together(t, 12, func(i int) *exec.Cmd {
		return b.command("resolve", "settle:2026-09-15", "--as", []string{"succeeded", "skipped"}[i%2], "--reason", "both at once")
	})
	if count(results, 0) != 1 || count(results, exitState) != 11 {
		t.Errorf("resolve: %+v", results)
	}
	for _, c := range [][]string{{"pause", "settle", "--reason", "why"}, {"resume", "settle"}, {"resolve", "settle:2026-12-25", "--as", "skipped", "--reason", "holiday"}} {
		results := together(t, 8, func(int) *exec.Cmd { return b.command(c...) })
		if count(results, 0) != 1 || count(results, exitState) != 7 {
			t.Errorf("%s: %+v", c[0], results)
		}
	}
}

// A store that isn't there yet is made by one of those that start, and no claim is lost.
func TestFirstUseAtOnce(t *testing.T) {
	for range 5 {
		b := newBed(t)
		results := together(t, 12, func(i int) *exec.Cmd {
			return b.command("run", fmt.Sprintf("job%d", i%6), "--date", "2026-09-15", "-E", "75", "--", "true")
		})
		if count(results, 0) != 6 || count(results, 75) != 6 {
			t.Fatalf("%+v", results)
		}
	}
}
