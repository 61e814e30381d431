package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/mysql"
)

// freezeEnv names the store of a child that stops itself between the two round trips of a claim,
// with the row of the lock in hand.
const freezeEnv = "ONERUN_MYSQL_FREEZE"

func freezeIfChild() {
	url := os.Getenv(freezeEnv)
	if url == "" {
		return
	}
	frozen := false
	s, err := mysql.Open(context.Background(), url, mysql.WithHook(func(step string) {
		if step == "commit the claim" && !frozen {
			frozen = true
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			time.Sleep(time.Second) // it is on its way, and this thread may run on until it is here
		}
	}))
	if err == nil {
		_, err = s.Claim(context.Background(), claimOf("settle", "2026-09-15"))
	}
	var ref *onerun.Refusal
	if errors.As(err, &ref) {
		fmt.Println("refused", ref.Reason)
		os.Exit(0)
	}
	fmt.Println("granted", err)
	os.Exit(0)
}

// TestClientFrozen: a client that stands still in the middle of a claim holds nobody up for long,
// and isn't granted what another has been granted meanwhile.
func TestClientFrozen(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), freezeEnv+"="+url)
	var out strings.Builder
	child.Stdout, child.Stderr = &out, os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() })
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(child.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it didn't stop: %v, %v", status, err)
	}
	began := time.Now()
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it held others up for %s", took)
	}
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(out.String()); got != "refused running" {
		t.Errorf("the frozen claim was %s", got)
	}
	succeed(t, s, g)
}
