package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onerun-dev/onerun"
)

// TestContention: many processes want the same keys, some under one lock, some under
// locks of their own, in both modes; a witness that is no part of the store sees who
// works when. Each key is executed once, and no two under one lock at a time.
func TestContention(t *testing.T) {
	t.Parallel()
	const processes, keys = 8, 12
	b := newBed(t)
	witness := filepath.Join(filepath.Dir(b.path), "witness")
	var claims []onerun.Claim
	for i := range keys {
		c := claimOf(fmt.Sprintf("job-%d", i%3), fmt.Sprintf("2026-09-%02d", i+1))
		switch i % 3 {
		case 1: // beside each other
			c.Lock = onerun.KeyLock(c.Key())
		case 2:
			c.Lock, c.LockMode = onerun.NamedLock("shared"), onerun.LockCreate
		}
		claims = append(claims, c)
	}
	children := ready(t, processes, plan{Path: b.path})
	won := 0
	for i, r := range atOnce(t, children, func(i int) order {
		return order{Do: "work", Claims: append(append([]onerun.Claim{}, claims[i%keys:]...), claims[:i%keys]...), Witness: witness}
	}) {
		if r.Err != "" {
			t.Errorf("process %d: %s", i, r.Err)
		}
		won += r.Won
	}
	if won != keys {
		t.Errorf("%d claims were granted for %d keys", won, keys)
	}
	testimony(t, witness, claims)
	sound(t, b.path)
	if n := one[int](t, b.sql(), "SELECT count(*) FROM onerun_run WHERE status = 'SUCCEEDED' AND attempt = 1"); n != keys {
		t.Errorf("keys that succeeded with their first attempt: %d of %d", n, keys)
	}
}

// testimony reads what the witness saw.
func testimony(t *testing.T, witness string, claims []onerun.Claim) {
	t.Helper()
	f, err := os.Open(witness)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	busy, tokens, executed := map[string]string{}, map[string]int64{}, map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		var what, lock, key string
		var token int64
		if _, err := fmt.Sscan(s.Text(), &what, &lock, &key, &token); err != nil {
			t.Fatalf("the witness says %q: %v", s.Text(), err)
		}
		switch {
		case what == "begin" && busy[lock] != "":
			t.Errorf("%s began under %s while %s was at work", key, lock, busy[lock])
		case what == "begin":
			busy[lock] = key
			executed[key]++
			if token <= tokens[lock] {
				t.Errorf("%s has token %d under %s, after %d", key, token, lock, tokens[lock])
			}
			tokens[lock] = token
		case busy[lock] != key:
			t.Errorf("%s ended under %s, where %q was at work", key, lock, busy[lock])
		default:
			busy[lock] = ""
		}
	}
	for _, c := range claims {
		if executed[c.Key()] != 1 {
			t.Errorf("%s was executed %d times", c.Key(), executed[c.Key()])
		}
	}
}

// work lives every claim, in turn, until each is done by somebody.
func (s *server) work(ctx context.Context, o order) (won int, err error) {
	f, err := os.OpenFile(o.Witness, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	testify := func(what string, l onerun.Lease, key string) error {
		_, err := f.WriteString(strings.Join([]string{what, string(l.Lock), key, fmt.Sprint(l.Token)}, " ") + "\n")
		return err
	}
	for left := o.Claims; len(left) > 0; {
		var later []onerun.Claim
		for _, c := range left {
			g, err := s.store.Claim(ctx, again(c))
			var ref *onerun.Refusal
			switch {
			case errors.As(err, &ref) && ref.Reason == onerun.RefusedSucceeded:
				continue
			case ref != nil && (ref.Reason == onerun.RefusedRunning || ref.Reason == onerun.RefusedLocked):
				later = append(later, c)
				continue
			case err != nil:
				return won, err
			}
			won++
			if err := testify("begin", g.Lease, c.Key()); err != nil {
				return won, err
			}
			if err := testify("end", g.Lease, c.Key()); err != nil {
				return won, err
			}
			if err := s.store.Finish(ctx, g.Lease, ended(onerun.Succeeded)); err != nil {
				return won, err
			}
		}
		left = later
	}
	return won, nil
}
