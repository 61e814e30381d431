package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// B33: a job's exit status is onerun's, and the record's: all 256 of them.
func TestEveryExitStatus(t *testing.T) {
	b := newBed(t)
	const workers = 4 // at a time, each with a lock of its own
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for code := w; code < 256; code += workers {
				r := b.run("run", "settle", "--scope", "key", "--partition", fmt.Sprint(code), "--log-file", "/dev/null", "-c", fmt.Sprintf("exit %d", code))
				if r.code != code || r.out+r.err != "" {
					t.Errorf("exit %d: %+v", code, r)
				}
			}
		})
	}
	wg.Wait()
	runs := b.list(t, "history", "--limit", "0")
	if len(runs) != 256 {
		t.Fatalf("%d runs", len(runs))
	}
	for _, r := range runs {
		status, reason := "FAILED", any("exit")
		if r["partition"] == "0" {
			status, reason = "SUCCEEDED", nil
		}
		if fmt.Sprint(r["exit_code"]) != r["partition"] || r["status"] != status || r["reason"] != reason || r["signal"] != nil {
			t.Errorf("%s: %v %v, exit code %v, signal %v", r["key"], r["status"], r["reason"], r["exit_code"], r["signal"])
		}
	}
}

// Every signal that ends a process is 128 and its number, and the record has its name:
// those that leave a core behind, and the real-time ones, which have none in C.
func TestEverySignal(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	named := map[int]string{34: "SIGRTMIN", 35: "SIGRTMIN+1", 50: "SIGRTMIN+16", 64: "SIGRTMIN+30"}
	for _, name := range strings.Fields("HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM XCPU XFSZ VTALRM PROF IO PWR SYS") {
		named[int(unix.SignalNum("SIG"+name))] = "SIG" + name
	}
	for n, name := range named {
		r := b.run("run", "settle", "--log-file", "/dev/null", "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$", n))
		run := b.list(t, "history", "settle", "--limit", "1")[0]
		if r.code != 128+n || r.out+r.err != "" || run["reason"] != "signal" || run["signal"] != name || run["exit_code"] != float64(128+n) {
			t.Errorf("signal %d: %+v; recorded as %v %v %v, want %s", n, r, run["reason"], run["signal"], run["exit_code"], name)
		}
	}
}

// What goes in and what comes out passes byte by byte, however much it is and whatever
// is in it.
func TestBytesPass(t *testing.T) {
	b := newBed(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.NewPCG(seed, 0)
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(random.Uint64())
	}
	copy(data, "\x00\xff\r\n\x1b[31m\n\n")
	for _, args := range [][]string{
		{"run", "settle", "--date", "2026-09-15", "--"},
		{"lock", "report", "--"},
	} {
		cmd := b.command(append(args, "sh", "-c", "tee /dev/stderr")...)
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(data), &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), data) || !bytes.Equal(errs.Bytes(), data) {
			t.Errorf("%s: %d bytes in, %d out, %d on standard error", args[0], len(data), out.Len(), errs.Len())
		}
	}
}
