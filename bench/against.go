package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// againstOther builds onerun of another commit, and holds the start of a job against that
// one's: what a change costs everybody who starts one. Each has a store of its own, since
// the schema may differ.
func againstOther(dir, rev string, rounds int) (err error) {
	tree := filepath.Join(dir, "other")
	if out, err := exec.Command("git", "worktree", "add", "--detach", tree, rev).CombinedOutput(); err != nil {
		return fmt.Errorf("a working tree of %s: %w\n%s", rev, err, out)
	}
	defer func() {
		if out, e := exec.Command("git", "worktree", "remove", "--force", tree).CombinedOutput(); e != nil && err == nil {
			err = fmt.Errorf("remove the working tree of %s: %w\n%s", rev, e, out)
		}
	}()
	other := filepath.Join(dir, "onerun-other")
	if err := build(tree, "./cmd/onerun", other); err != nil {
		return fmt.Errorf("%s: %w", rev, err)
	}
	start := func(bin, store, what string) contender {
		return contender{what, func(i int) []string {
			args := []string{bin, what, "J", "--store", "sqlite:" + store + "/"}
			if what == "run" {
				args = append(args, "--partition", fmt.Sprint("p", i))
			}
			return append(args, "--", "true")
		}}
	}
	var all []contender
	for _, what := range []string{"run", "lock"} {
		for _, bin := range []string{other, filepath.Join(dir, "onerun")} {
			store := bin + "-store"
			if err := os.MkdirAll(store, 0o700); err != nil {
				return err
			}
			all = append(all, start(bin, store, what))
		}
	}
	times, _, err := takeTurns(all, rounds)
	if err != nil {
		return err
	}
	fmt.Printf("\n# Start of a job, to that by onerun of %s: %d rounds in turns; ratio of neighbours, median (middle half)\n\n", rev, rounds)
	fmt.Printf("%-38s %s   goal 1.10\n", "onerun run J --partition P -- true", ratio(times[1], times[0]))
	fmt.Printf("%-38s %s   goal 1.10\n", "onerun lock J -- true", ratio(times[3], times[2]))
	return nil
}
