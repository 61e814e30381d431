package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// orphaned is a job of three processes, one of which has left its group, that tells their
// pids and then waits for ever.
const orphaned = `setsid sh -c 'echo $$; exec sleep 600' & sh -c 'echo $$; exec sleep 600' & echo $$; wait`

// wrapped is a way to run a job under a lock, and to wait for that lock.
type wrapped struct {
	name    string
	job     func(i int) []string
	waiter  func(i int) []string
	guarded bool // a guard is to be there before its wrapper is killed
}

// aKill is what came of killing one wrapper.
type aKill struct {
	gone, in time.Duration // until the last process of the job was gone, and the waiter in; at most the limit
	overlap  bool          // the waiter was in when something of the job still ran
}

// kills measures what is left when a wrapper is killed with SIGKILL, for how long, and when
// whoever waits for the lock gets it; of flock(1) for comparison.
func kills(dir string, rounds int) error {
	bin, lock := filepath.Join(dir, "onerun"), filepath.Join(dir, "killed.lock")
	store := []string{"--store", "sqlite:" + dir + "/killed.db"}
	run := func(key string, more ...string) []string {
		return append(slices.Concat([]string{bin, "run", "killed"}, store, []string{"--partition", key}), more...)
	}
	all := []wrapped{
		{
			"onerun run", func(i int) []string { return run(fmt.Sprint("k", i), "--", "sh", "-c", orphaned) },
			func(i int) []string { return run(fmt.Sprint("w", i), "-w", "forever", "--", "echo", "in") }, true,
		},
		{
			"onerun lock", func(int) []string {
				return slices.Concat([]string{bin, "lock", "killed"}, store, []string{"--", "sh", "-c", orphaned})
			},
			func(int) []string {
				return slices.Concat([]string{bin, "lock", "killed"}, store, []string{"-w", "forever", "--", "echo", "in"})
			}, true,
		},
		{
			"flock", func(int) []string { return []string{"flock", lock, "sh", "-c", orphaned} },
			func(int) []string { return []string{"flock", lock, "echo", "in"} }, false,
		},
		{
			"flock -o", func(int) []string { return []string{"flock", "-o", lock, "sh", "-c", orphaned} },
			func(int) []string { return []string{"flock", "-o", lock, "echo", "in"} }, false,
		},
	}
	fmt.Printf("\n# kill -9 of the wrapper while its job runs, one process of which has left the group: %d rounds\n\n", rounds)
	for _, w := range all {
		limit, n := 10*time.Second, rounds
		if !w.guarded { // nobody ends its job
			limit, n = 200*time.Millisecond, min(rounds, 25)
		}
		var gone, in []time.Duration
		overlaps, ended, entered := 0, 0, 0
		for i := range n {
			k, err := w.kill(i, limit)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", w.name, i, err)
			}
			if k.overlap {
				overlaps++
			}
			if k.gone < limit {
				ended++
			}
			if k.in < limit {
				entered++
			}
			gone, in = append(gone, k.gone), append(in, k.in)
		}
		if w.guarded {
			fmt.Printf("%-12s the last process is gone  %s\n", w.name, spread(gone))
			fmt.Printf("%-12s the next one is in        %s\n", w.name, spread(in))
			fmt.Printf("%-12s beside what is left       %d of %d   goal 0\n", w.name, overlaps, n)
			continue
		}
		fmt.Printf("%-12s the job ended in %d of %d, the next one got in beside it in %d, and waited on in %d\n", w.name, ended, n, overlaps, n-entered)
	}
	return nil
}

// spread says how long something took.
func spread(d []time.Duration) string {
	slices.Sort(d)
	ms := func(i int) float64 { return float64(d[i].Microseconds()) / 1000 }
	fast := 0
	for _, x := range d {
		if x <= 100*time.Millisecond {
			fast++
		}
	}
	return fmt.Sprintf("after %.1f ms in the median, %.1f ms in 99 of 100, %.1f ms at the worst; within 100 ms: %.1f %%   goal 99 %%",
		ms(len(d)/2), ms(len(d)*99/100), ms(len(d)-1), 100*float64(fast)/float64(len(d)))
}
