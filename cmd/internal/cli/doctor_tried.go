package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// atomic is tried out.
func (d *doctor) atomic(ctx context.Context) reply {
	a := reply{Question: "is creation atomic", bad: no, Answer: yes}
	if why := d.unprobed(); why != "" {
		a.Answer, a.Evidence = unknown, why
		return a
	}
	program, err := os.Executable()
	if err != nil {
		a.Answer, a.Evidence = unknown, err.Error()
		return a
	}
	a.Answer, a.Evidence = contention(ctx, program, [2]string{d.lockDir, d.lockDir})
	return a
}

// contention lets two processes contend in each mode.
func contention(ctx context.Context, program string, dirs [2]string) (string, string) {
	var told []string
	verdict := yes
	for _, mode := range probeModes {
		exact, err := contend(ctx, program, dirs, mode)
		if err != nil {
			return unknown, fmt.Sprintf("mode %s could not be tried in %s: %v", mode, dirs[0], err)
		}
		if exact != probeRounds {
			verdict = no
		}
		told = append(told, fmt.Sprintf("%d of %d (mode %s)", exact, probeRounds, mode))
	}
	return verdict, fmt.Sprintf("two processes contended for a lock in %s; exactly one got it in %s", dirs[0], strings.Join(told, " and "))
}

// cleanedUp is tried out.
func (d *doctor) cleanedUp(ctx context.Context) reply {
	a := reply{Question: "is the lock cleaned up", bad: no, Answer: yes}
	if a.Evidence = d.unprobed(); a.Evidence != "" {
		a.Answer = unknown
		return a
	}
	program, failed := os.Executable()
	for _, mode := range probeModes {
		found, err := "", failed
		if err == nil {
			found, err = bury(ctx, program, d.lockDir, mode)
		}
		switch {
		case err != nil:
			a.Answer, a.Evidence = unknown, fmt.Sprintf("mode %s could not be tried in %s: %v", mode, d.lockDir, err)
			return a
		case found != "won after dead":
			a.Answer, a.Evidence = no, fmt.Sprintf("the owner of a lock of mode %s was killed (SIGKILL), and the next claim says: %s", mode, found)
			return a
		}
	}
	a.Evidence = "the owner of a lock was killed (SIGKILL), and the next claim got it and found the owner dead, in both modes"
	return a
}

// unprobed says why nothing is tried out, or "".
func (d *doctor) unprobed() string {
	if !d.embedded() {
		return "only the embedded store's lock files are tried out"
	}
	return probeable(d.lockDir)
}
