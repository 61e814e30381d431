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
	killed := flag.Int("kills", 200, "wrappers that are killed; 0 leaves that part out")
	rev := flag.String("against", "", "another commit, whose onerun is held against this one; none leaves that part out")
	onServer := flag.Bool("postgres", false, "the store on PostgreSQL, and nothing else")
	serverRuns := flag.Int("postgres-ledger", 0, "runs in the large ledger on PostgreSQL, 1.5 KiB each; 0 leaves that part out")
	onlyRedis := flag.Bool("redis", false, "the store on Redis, and nothing else")
	onMaria := flag.Bool("mysql", false, "the store on MySQL and MariaDB, and nothing else")
	onQuorum := flag.Bool("zookeeper", false, "the store on ZooKeeper, and nothing else")
	serving := flag.Int("schedulers", 0, "jobs that three schedulers on PostgreSQL fire each minute, for two minutes, and nothing else")
	flag.Parse()
	measure := func() error { return bench(*rounds, *starts, *runs, *mib, *killed, *rev) }
	if *onServer {
		measure = func() error { return onPostgres(max(*rounds/10, 3), *serverRuns) }
	}
	if *onlyRedis {
		measure = func() error { return onRedis(max(*rounds/10, 3)) }
	}
	if *onMaria {
		measure = func() error { return onMySQL(max(*rounds/10, 3)) }
	}
	if *onQuorum {
		measure = func() error { return onZooKeeper(max(*rounds/10, 3)) }
	}
	if *serving > 0 {
		measure = func() error { return onSchedulers(*serving, 2) }
	}
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// contender is a program that takes its turn: argv of round i.
type contender struct {
	name string
	argv func(i int) []string
}

func bench(rounds, starts, runs, mib, killed int, rev string) error {
	dir, err := os.MkdirTemp("", "onerun-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bin := func(name string) string { return filepath.Join(dir, name) }
	for name, pkg := range map[string]string{"onerun": "./cmd/onerun", "floor": "./bench/floor", "least": "./bench/least"} {
		if err := build("", pkg, bin(name)); err != nil {
			return err
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
	if err == nil && killed > 0 {
		err = kills(dir, killed)
	}
	if err == nil && rev != "" {
		err = againstOther(dir, rev, rounds)
	}
	if err != nil || runs == 0 {
		return err
	}
	return ledger(dir, rounds/2, runs)
}

// build builds a program of the module in a folder ("": this one). The file is written once more, in one piece: how the
// linker's lies in memory alone can make a start an eighth slower or faster.
func build(dir, pkg, to string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", to+".linked", pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	if out, err := exec.Command("cp", to+".linked", to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w\n%s", to, err, out)
	}
	return nil
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
