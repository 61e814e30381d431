package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	_ "modernc.org/sqlite" // the driver by which the ledger is filled
)

// fill puts n runs into a ledger that onerun has made: twenty jobs, one of which has three
// failures among nothing but successes, and one that is unkeyed and was skipped a lot.
// ?1 is n, ?2 the present time in microseconds.
const fill = `
PRAGMA synchronous = OFF;
CREATE TEMP TABLE seed AS
WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < ?1)
SELECT n, printf('%08x-%04x-7000-8000-%012x', n >> 8, n & 255, n) AS run_id, printf('job-%02d', n % 20) AS job,
       CASE n % 20 WHEN 19 THEN NULL ELSE printf('p%d', n) END AS partition, ?2 - (?1 - n) * 60000000 AS at,
       CASE WHEN n % 20 = 0 THEN iif(n IN (20, 40, 60), 'FAILED', 'SUCCEEDED')
            WHEN n % 50 = 1 THEN 'FAILED' WHEN n % 100 = 3 AND n % 20 <> 19 THEN 'SKIPPED' ELSE 'SUCCEEDED' END AS status
FROM i;
INSERT INTO onerun_run (run_id, namespace, job, partition, key, lock, status, attempt, started_at, finished_at, token, worker_id, host, pid, exit_code)
SELECT run_id, 'default', job, partition, job || ':' || partition, 'job/' || job, status, 1, at, at + 1000000, at / 1000, 'host/4711', 'host', 4711, iif(status = 'FAILED', 1, 0)
FROM seed ORDER BY run_id;
INSERT INTO onerun_attempt (run_id, attempt, status, owner, token, lock, lock_dir, worker_id, host, boot, pid, in_process, on_crash, retries,
    backoff_min, backoff_max, retry_lost, started_at, finished_at, exit_code)
SELECT run_id, 1, status, '0123456789abcdef0123456789abcdef', at / 1000, 'job/' || job, '', 'host/4711', 'host', 'boot', 4711, 0, 'auto', 0, 0, 0, 0, at, at + 1000000,
    iif(status = 'FAILED', 1, 0)
FROM seed ORDER BY run_id;
INSERT INTO onerun_skip (namespace, job, key, reason, holder, detail, count, first_at, last_at)
SELECT 'default', job, '', 'locked', run_id || '/1', 'host', 3, at, at FROM seed WHERE partition IS NULL AND n % 100 = 19;
DROP TABLE seed;
`

// ledger measures whole commands on an empty ledger and on one of n runs, in turns, and
// how long a start is held up while half of that is pruned.
func ledger(dir string, rounds, n int) error {
	bin := filepath.Join(dir, "onerun")
	empty, full := filepath.Join(dir, "empty"), filepath.Join(dir, "full")
	for _, d := range []string{empty, full} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
		if out, err := exec.Command(bin, "migrate", "--store", "sqlite:"+d+"/").CombinedOutput(); err != nil {
			return fmt.Errorf("make a store: %w\n%s", err, out)
		}
	}
	if err := fillLedger(filepath.Join(full, "onerun.db"), n); err != nil {
		return fmt.Errorf("fill the ledger: %w", err)
	}
	fmt.Printf("\n# On a ledger of %d runs, to the same on an empty one, %d rounds in turns\n\n", n, rounds)
	asked := []struct {
		name string
		args func(i int) []string
	}{
		{"run job-07 --partition P -- true", func(i int) []string {
			return []string{"run", "job-07", "--partition", fmt.Sprint("b", i), "--", "true"}
		}},
		{"explain KEY", func(int) []string { return []string{"explain", "job-07:p7"} }},
		{"status", func(int) []string { return []string{"status"} }},
		{"history JOB --status failed", func(int) []string { return []string{"history", "job-00", "--status", "failed"} }},
		{"history JOB --status succeeded", func(int) []string { return []string{"history", "job-00", "--status", "succeeded"} }},
		{"history", func(int) []string { return []string{"history"} }},
	}
	for _, a := range asked {
		in := func(store string) contender {
			return contender{a.name, func(i int) []string {
				return append([]string{bin}, append(a.args(i), "--store", "sqlite:"+store+"/")...)
			}}
		}
		if a.name[:3] == "run" { // its flags come before the command
			in = func(store string) contender {
				return contender{a.name, func(i int) []string {
					return append([]string{bin, "run", "--store", "sqlite:" + store + "/"}, a.args(i)[1:]...)
				}}
			}
		}
		times, _, err := takeTurns([]contender{in(empty), in(full)}, rounds)
		if err != nil {
			return err
		}
		fmt.Printf("%-38s %s   goal 1.5\n", a.name, ratio(times[1], times[0]))
	}
	return whilePruning(bin, full, n)
}

func fillLedger(path string, n int) error {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.Exec(fill, n, time.Now().UnixMicro())
	return err
}

// whilePruning starts a job again and again, alone and while half of the ledger is
// removed, and says by how much the slowest start was slower than the usual one.
func whilePruning(bin, store string, n int) error {
	i := 0
	start := func() (time.Duration, error) {
		i++
		begin := time.Now()
		out, err := exec.Command(bin, "run", "--store", "sqlite:"+store+"/", "claims", "--partition", fmt.Sprint("c", i), "--", "true").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("a start while pruning: %w\n%s", err, out)
		}
		return time.Since(begin), err
	}
	var alone, beside []time.Duration
	for range 50 {
		d, err := start()
		if err != nil {
			return err
		}
		alone = append(alone, d)
	}
	prune := exec.Command(bin, "prune", "--store", "sqlite:"+store+"/", "--keep", fmt.Sprint(n/40))
	if err := prune.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- prune.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("prune: %w", err)
			}
			slices.Sort(alone)
			slices.Sort(beside)
			usual := alone[len(alone)/2]
			fmt.Printf("\n%d starts while half of it was pruned: the slowest waited %d ms longer than the usual one (99 in 100: %d ms)   goal 100\n", len(beside),
				(beside[len(beside)-1] - usual).Milliseconds(), (beside[len(beside)*99/100] - usual).Milliseconds())
			return nil
		default:
		}
		d, err := start()
		if err != nil {
			return err
		}
		beside = append(beside, d)
	}
}
