package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Twenty processes at once find a lock whose owner was killed. Exactly one takes it over,
// and the others are refused while that one works, in every round and either mode. (The
// same in process, with a kill between any two steps, is tested in package filelock.)
func TestTakeover(t *testing.T) {
	const rounds, contenders = 40, 20
	for _, mode := range []string{"flock", "create"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			for round := range rounds {
				kind := []string{"run", "lock"}[round%2]
				dead := b.start(contender(kind, mode, 2*round, "echo up; read x")...)
				dead.says("up")
				dead.die()
				if err := exec.Command("mkfifo", b.path("gate")).Run(); err != nil {
					t.Fatal(err)
				}
				args := contender(kind, mode, 2*round+1, "echo entered >>witness; read x <gate")
				done := make(chan []result, 1)
				go func() {
					done <- together(t, contenders, func(int) *exec.Cmd {
						script := `onerun "$@"; code=$?; test $code = 0 || echo refused $code >>witness; exit $code`
						cmd := b.command()
						cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", script, "sh"}, args...)
						return cmd
					})
				}()
				if !eventually(func() bool { return strings.Count(b.read("witness"), "\n") >= contenders }) {
					t.Errorf("round %d: not all came to an end", round)
				}
				got := b.read("witness")
				if strings.Count(got, "entered\n") != 1 || strings.Count(got, "refused 75\n") != contenders-1 {
					t.Fatalf("round %d, %s: the witness saw\n%s", round, kind, got)
				}
				if err := os.WriteFile(b.path("gate"), []byte("\n"), 0); err != nil {
					t.Fatal(err)
				}
				results := <-done
				if count(results, 0) != 1 || count(results, 75) != contenders-1 {
					t.Fatalf("round %d, %s: %+v", round, kind, results)
				}
				_ = os.Remove(b.path("witness"))
				_ = os.Remove(b.path("gate"))
			}
			if locks := b.list(t, "locks"); len(locks) != 0 {
				t.Errorf("left over: %v", locks)
			}
			runs := b.list(t, "history", "--limit", "0")
			for i, r := range runs {
				if want := []string{"SUCCEEDED", "FAILED"}[i%2]; r["status"] != want {
					t.Errorf("%s is %s", r["key"], r["status"])
				}
			}
			if len(runs) != rounds {
				t.Errorf("%d runs", len(runs))
			}
		})
	}
}

// contender is a start that wants the lock, with a key of its own where there are keys.
func contender(kind, mode string, n int, script string) []string {
	if kind == "lock" {
		return []string{"lock", "-n", "-E", "75", "--lock-mode", mode, "report", "-c", script}
	}
	return []string{"run", "settle", "-E", "75", "--lock-mode", mode, "--partition", fmt.Sprint(n), "-c", script}
}

// read is the text of a file, "" if it isn't there.
func (b *bed) read(name string) string {
	text, _ := os.ReadFile(b.path(name))
	return string(text)
}
