package cli

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Several starts are after a retry from before it is due, beside the one that waits for
// it. Exactly one executes it, and whoever waited in vain ends with its own code.
func TestOneStartTakesTheRetry(t *testing.T) {
	const rounds, others = 8, 4
	b := newBed(t)
	for round := range rounds {
		key := []string{"--partition", fmt.Sprint(round), "-E", "75", "--log-file", b.path("log"), "--log-level", "info"}
		job := `echo $ONERUN_PARTITION/$ONERUN_ATTEMPT >>witness; test $ONERUN_ATTEMPT = 2 || exit 3; sleep 0.05`
		first := b.start(append([]string{"run", "settle", "--retries", "1", "--backoff", "400ms", "-c", job}, key...)...)
		failed := fmt.Sprintf("event=retry_waiting namespace=default store=sqlite:%s job=settle key=settle:%d ", b.path("store"), round)
		if !eventually(func() bool { return strings.Contains(b.read("log"), failed) }) {
			t.Fatalf("round %d: it doesn't wait: %s", round, b.read("log"))
		}
		results := together(t, others, func(int) *exec.Cmd {
			cmd := b.command()
			script := `while onerun "$@"; code=$?; test $code = 79; do :; done; exit $code`
			cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", script, "sh", "run", "settle", "-c", job}, key...)
			return cmd
		})
		code := first.wait()
		results = append(results, result{code: code})
		if n := strings.Count(b.read("witness"), fmt.Sprintf("%d/2\n", round)); n != 1 || strings.Count(b.read("witness"), "\n") != 2*(round+1) {
			t.Fatalf("round %d: executed %d times; the witness saw\n%s", round, n, b.read("witness"))
		}
		if count(results, 0) != 1 || count(results, 75)+count(results, 3) != others || code != 0 && code != 3 {
			t.Fatalf("round %d: %+v", round, results)
		}
	}
	if n := strings.Count(b.read("log"), "event=retry_superseded"); n == 0 || n == rounds {
		t.Logf("%d of %d waits were superseded: one side always won", n, rounds)
	}
}
