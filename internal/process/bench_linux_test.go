package process

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
)

// BenchmarkRunTrue is what the supervision costs: `listening` is for a program that catches the signals anyway, which
// is what onerun does; starting and ending to catch them is dear.
func BenchmarkRunTrue(b *testing.B) {
	run := func(b *testing.B) {
		for b.Loop() {
			if end, err := Run(context.Background(), Command{Path: "/bin/true"}); err != nil || end.ExitCode != 0 {
				b.Fatal(end, err)
			}
		}
	}
	b.Run("process", run)
	b.Run("process,listening", func(b *testing.B) {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
		defer signal.Stop(signals)
		run(b)
	})
	b.Run("os,exec", func(b *testing.B) {
		for b.Loop() {
			cmd := exec.Command("/bin/true")
			cmd.Env = []string{}
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
