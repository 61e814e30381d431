package bed_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/bed"
)

// place tells a process of this test that it is to run servers there until it is killed.
const place = "ONERUN_TEST_BED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(place); dir != "" {
		if err := occupy(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		select {}
	}
	os.Exit(m.Run())
}

// how runs a server that takes its time to end, and writes to where it was until then; or, if it
// is to be killed when it is an orphan, one that hears of nothing else.
func how(orphaned syscall.Signal) bed.How {
	end := `mkdir -p "$PWD/deep/late"; sleep 0.2; true >"$PWD/deep/late/word"; exit`
	if orphaned == syscall.SIGKILL {
		end = ""
	}
	return bed.How{
		Argv: func(*bed.Daemon) ([]string, error) {
			return []string{"sh", "-c", "trap '' HUP; trap '" + end + "' TERM; echo ready; while :; do sleep 0.01; done"}, nil
		},
		Up: []string{"ready"}, Orphaned: orphaned, Close: syscall.SIGKILL,
	}
}

// occupy has servers that run, that stand still and that were stopped, and prints their processes.
func occupy(dir string) error {
	b := bed.New("test", bed.Account{"root"}, dir)
	for i, orphaned := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGTERM} {
		d, err := b.Daemon(how(orphaned))
		if err != nil {
			return err
		}
		if err := d.Launch(); err != nil {
			return err
		}
		switch i {
		case 2:
			err = bed.Process{Daemon: d}.Freeze()
		case 3:
			d.Stop(syscall.SIGTERM)
		}
		if err != nil {
			return err
		}
	}
	if _, err := b.Dir(); err != nil {
		return err
	}
	fmt.Println("occupied")
	return nil
}

// TestKilled: when a process with servers is killed, alone or with all of its group, they end and
// nothing is left where they were.
func TestKilled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sig   syscall.Signal
		group bool
	}{
		{syscall.SIGKILL, false},
		{syscall.SIGKILL, true},
		{syscall.SIGTERM, true},
		{syscall.SIGINT, true},
	} {
		t.Run(fmt.Sprint(c.sig, c.group), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), place+"="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if said, err := bufio.NewReader(out).ReadString('\n'); said != "occupied\n" {
				t.Fatalf("it says %q: %v", said, err)
			}
			if n := len(inside(t, dir)); n < 6 { // a shell and a server for each of three
				t.Fatalf("%d processes are there", n)
			}
			pid := cmd.Process.Pid
			if c.group {
				pid = -pid
			}
			if err := syscall.Kill(pid, c.sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed
			for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				left, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				running := inside(t, dir)
				if len(left)+len(running) == 0 {
					return
				}
				if time.Since(begin) > 30*time.Second {
					t.Fatalf("left: %v, processes %v", left, running)
				}
			}
		})
	}
}

// inside are the processes that work in a directory or below it.
func inside(t *testing.T, dir string) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range all {
		at, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(at, dir+"/") { // or it has ended
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// TestClose: a bed that is closed has nothing left, and one that is closed before it was used
// neither.
func TestClose(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := bed.New("test", bed.Account{"root"}, filepath.Join(dir, "none"), dir)
	b.Close()
	d, err := b.Daemon(how(syscall.SIGTERM))
	if err != nil {
		t.Fatal(err)
	}
	p := bed.Process{Daemon: d}
	if err := p.Signal(syscall.SIGSTOP); err == nil {
		t.Error("a server that was never started took a signal")
	}
	for range 2 {
		if err := d.Launch(); err != nil {
			t.Fatal(err)
		}
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
		d.Stop(syscall.SIGTERM)
		if err := d.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(d.Home, "deep/late/word")); err != nil {
			t.Errorf("it wasn't stopped in order: %v", err)
		}
		if err := p.Signal(syscall.SIGSTOP); err == nil {
			t.Error("a server that has ended took a signal")
		}
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	if running := inside(t, dir); len(running) > 0 {
		t.Errorf("running: %v", running)
	}
	if err := d.Start(); err == nil {
		t.Error("a server was started in a bed that is closed")
	}
}

// TestNoStart: a server that ends before it is up tells why.
func TestNoStart(t *testing.T) {
	t.Parallel()
	b := bed.New("test", bed.Account{"root"}, t.TempDir())
	t.Cleanup(b.Close)
	d, err := b.Daemon(bed.How{
		Argv:   func(*bed.Daemon) ([]string, error) { return []string{"sh", "-c", "echo the disk is full"}, nil },
		Serves: func() bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Launch(); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("got %v", err)
	}
}
