// Command bench compares onerun with flock(1) and with the least programs that could
// do the same, as whole processes, and prints ratios from one run. Run it with
//
//	make bench
//
// Absolute times say little on a shared machine, so none is printed: the programs take
// turns, and each round gives one ratio of neighbours in time. Quote the medians.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 200, "rounds of each comparison")
	starts := flag.Int("starts", 200, "starts at once")
	runs := flag.Int("ledger", 1_000_000, "runs in the large ledger; 0 leaves that part out")
	mib := flag.Int("output", 2048, "MiB that a talkative job prints; 0 leaves that part out")
	flag.Parse()
	if err := bench(*rounds, *starts, *runs, *mib); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// contender is a program that takes its turn: argv of round i.
type contender struct {
	name string
	argv func(i int) []string
}

func bench(rounds, starts, runs, mib int) error {
	dir, err := os.MkdirTemp("", "onerun-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin := func(name string) string { return filepath.Join(dir, name) }
	for name, pkg := range map[string]string{"onerun": "./cmd/onerun", "floor": "./bench/floor", "least": "./bench/least"} {
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", bin(name), pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	yes, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	store := "sqlite:" + bin("onerun.db")
	if out, err := exec.Command(bin("floor"), dir).CombinedOutput(); err != nil {
		return fmt.Errorf("set up: %w\n%s", err, out)
	}
	flock := contender{"flock -n F true", func(int) []string { return []string{"flock", "-n", bin("F"), yes} }}
	least := contender{"least Go wrapper", func(int) []string { return []string{bin("least"), bin("L"), yes} }}
	floor := contender{"floor", func(int) []string { return []string{bin("floor"), dir, yes} }}
	lock := contender{"onerun lock -n N -- true", func(int) []string {
		return []string{bin("onerun"), "lock", "N", "--store", store, "-n", "--", yes}
	}}
	run := contender{"onerun run J --partition P -- true", func(i int) []string {
		return []string{bin("onerun"), "run", "J", "--store", store, "--partition", fmt.Sprint("p", i), "--", yes}
	}}
	skip := contender{"onerun run J --partition P (skipped)", func(int) []string {
		return []string{bin("onerun"), "run", "J", "--store", store, "--partition", "p0", "--", yes}
	}}

	fmt.Printf("# Start of a job: %d rounds, the programs in turn; ratio of neighbours, median (middle half)\n\n", rounds)
	all := []contender{flock, least, floor, lock, run, skip}
	times, peak, err := takeTurns(all, rounds)
	if err != nil {
		return err
	}
	row := func(c, to int, goal string) {
		fmt.Printf("%-38s %-18s %s   %s\n", all[c].name, "/ "+short(all[to].name), ratio(times[c], times[to]), goal)
	}
	row(1, 0, "")
	row(2, 0, "")
	row(3, 0, "goal 2.2, on the way to 1.6")
	row(4, 0, "goal 4, on the way to 3")
	row(4, 2, "goal 1.25")
	row(5, 0, "")
	fmt.Printf("\npeak memory of onerun lock %.1f MiB, of onerun run %.1f MiB, of flock %.1f MiB   goal 20\n", peak[3], peak[4], peak[0])

	fmt.Printf("\n# %d starts at once on one name, until the last has its answer\n\n", starts)
	err = atOnce(starts, flock, lock, contender{"onerun run J -- sleep", func(int) []string {
		return []string{bin("onerun"), "run", "crowd", "--store", store, "--", "sleep", "0.2"}
	}}, contender{"flock -n F sleep", func(int) []string { return []string{"flock", "-n", bin("F"), "sleep", "0.2"} }})
	if err == nil && mib > 0 {
		err = talk(bin("onerun"), dir, rounds, mib)
	}
	if err != nil || runs == 0 {
		return err
	}
	return ledger(dir, rounds/2, runs)
}

func short(name string) string {
	if len(name) > 12 {
		return name[:12]
	}
	return name
}

// takeTurns runs every contender once a round and returns their times by round, and
// the greatest resident size in MiB.
func takeTurns(cs []contender, rounds int) (times [][]time.Duration, peak []float64, err error) {
	times, peak = make([][]time.Duration, len(cs)), make([]float64, len(cs))
	for i := -5; i < rounds; i++ { // the first rounds warm the caches
		for c, x := range cs {
			argv := x.argv(i + 5)
			cmd := exec.Command(argv[0], argv[1:]...)
			begin := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return nil, nil, fmt.Errorf("%s: %w\n%s", x.name, err, out)
			}
			took := time.Since(begin)
			if i < 0 {
				continue
			}
			times[c] = append(times[c], took)
			if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
				peak[c] = max(peak[c], float64(u.Maxrss)/1024)
			}
		}
	}
	return times, peak, nil
}

// ratio is the median of the ratios round by round, with the quartiles.
func ratio(a, b []time.Duration) string {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = float64(a[i]) / float64(b[i])
	}
	slices.Sort(r)
	return fmt.Sprintf("%5.2f (%.2f to %.2f)", r[len(r)/2], r[len(r)/4], r[len(r)*3/4])
}

// atOnce starts n processes of each contender together and measures until the last
// has ended, in turns.
func atOnce(n int, flock, lock, run, flockRun contender) error {
	const turns = 5
	took := map[string][]time.Duration{}
	for range turns {
		for _, c := range []contender{flock, lock, flockRun, run} {
			cmds := make([]*exec.Cmd, n)
			for i := range cmds {
				argv := c.argv(i)
				cmds[i] = exec.Command(argv[0], argv[1:]...)
			}
			begin := time.Now()
			for _, cmd := range cmds {
				if err := cmd.Start(); err != nil {
					return err
				}
			}
			for _, cmd := range cmds {
				_ = cmd.Wait() // a loser's status is its answer
			}
			took[c.name] = append(took[c.name], time.Since(begin))
		}
	}
	fmt.Printf("%-38s %-18s %s\n", lock.name, "/ flock", ratio(took[lock.name], took[flock.name]))
	fmt.Printf("%-38s %-18s %s\n", run.name, "/ flock", ratio(took[run.name], took[flockRun.name]))
	return nil
}
