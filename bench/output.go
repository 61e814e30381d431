package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// talk measures a job that prints a lot, to a reader in a pipe: beside the same job through
// cat(1), which is the least that passes something on; and how much memory that takes.
func talk(bin, dir string, rounds int, mib int) error {
	const piece = 256 // MiB, each round
	zeros := func(n int) string { return fmt.Sprintf("head -c %dM /dev/zero", n) }
	run := func(flags string, n int) string {
		return bin + " run talk --store sqlite:" + dir + "/ " + flags + " -- sh -c '" + zeros(n) + "; grep VmHWM /proc/$PPID/status >" + dir + "/peak'"
	}
	shell := func(line string) contender {
		return contender{line, func(int) []string { return []string{"sh", "-c", line + " | cat >" + os.DevNull} }}
	}
	all := []contender{shell(zeros(piece) + " | cat"), shell(run("", piece)), shell(run("--capture none", piece)), shell(run("--output on-failure", piece))}
	times, _, err := takeTurns(all, max(5, rounds/10))
	if err != nil {
		return err
	}
	fmt.Printf("\n# A job that prints %d MiB to a pipe: throughput, to that through cat; ratio of neighbours, median (middle half)\n\n", piece)
	for i, name := range []string{"onerun run J", "onerun run J --capture none", "onerun run J --output on-failure"} {
		goal := ""
		if i == 0 {
			goal = "   goal 0.8"
		}
		fmt.Printf("%-38s %-18s %s%s\n", name, "/ cat", ratio(times[0], times[i+1]), goal)
	}
	for _, flags := range []string{"", "--output on-failure"} {
		if out, err := exec.Command("sh", "-c", run(flags, mib)+" >"+os.DevNull).CombinedOutput(); err != nil {
			return fmt.Errorf("a job that prints %d MiB: %w\n%s", mib, err, out)
		}
		text, err := os.ReadFile(filepath.Join(dir, "peak"))
		if err != nil {
			return err
		}
		fields := strings.Fields(string(text))
		if len(fields) < 2 {
			return fmt.Errorf("peak memory: %q", text)
		}
		var kib int
		if _, err := fmt.Sscan(fields[1], &kib); err != nil {
			return err
		}
		fmt.Printf("peak memory of onerun run %s at %d MiB: %.1f MiB   goal 24\n", flags, mib, float64(kib)/1024)
	}
	return nil
}
