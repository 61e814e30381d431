package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/mysql"
)

const migrateEnv = "ONERUN_MYSQL_MIGRATE"

func migrateIfChild() {
	url := os.Getenv(migrateEnv)
	if url == "" {
		return
	}
	s, err := mysql.Open(context.Background(), url)
	if err == nil {
		_, err = s.Claim(context.Background(), claimOf("settle", "2026-09-15"))
	}
	var ref *onerun.Refusal
	if err != nil && !errors.As(err, &ref) {
		fmt.Println(err)
		os.Exit(1)
	}
	if err == nil {
		fmt.Println("granted")
	}
	os.Exit(0)
}

// TestFirstUse: of many processes that use a database for the first time at once, one makes the
// schema, and one is granted what all claim.
func TestFirstUse(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	url := server.URL(newDatabase(t, server))
	const n = 8
	outs, errs := make([]string, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), migrateEnv+"="+url)
			out, err := cmd.CombinedOutput()
			outs[i], errs[i] = string(out), err
		})
	}
	all.Wait()
	granted := 0
	for i := range n {
		if errs[i] != nil {
			t.Errorf("process %d: %v: %s", i, errs[i], outs[i])
		}
		granted += strings.Count(outs[i], "granted")
	}
	if granted != 1 {
		t.Errorf("granted %d times", granted)
	}
}

// TestMigrationThatDied: one that died in the middle is gone on with.
func TestMigrationThatDied(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	mustExec(t, direct(t, url), "DROP TABLE onerun_item; DROP VIEW batch_job_run; DELETE FROM onerun_schema")
	other := open(t, url)
	if from, to, err := other.Migrate(soon(t)); err != nil || from != 0 || to != 2 {
		t.Errorf("migrated from %d to %d: %v", from, to, err)
	}
	if _, err := other.Items(soon(t), onerun.ItemQuery{Namespace: onerun.DefaultNamespace}); err != nil {
		t.Errorf("list items: %v", err)
	}
	succeed(t, other, g)
}

// TestNewerSchema: a schema that a newer program has made is refused on one line, and an owner that
// has begun before can still end.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	g := granted(t, s, claimOf("settle", "2026-09-15"))
	mustExec(t, direct(t, url), "UPDATE onerun_schema SET version = 99")
	newcomer := open(t, url)
	for what, ask := range map[string]func() error{
		"claim":   func() error { _, err := newcomer.Claim(soon(t), claimOf("settle", "2026-09-16")); return err },
		"list":    func() error { _, err := newcomer.Runs(soon(t), onerun.Query{Namespace: "x"}); return err },
		"migrate": func() error { _, _, err := newcomer.Migrate(soon(t)); return err },
	} {
		err := ask()
		if !errors.Is(err, onerun.ErrConfig) || !strings.Contains(err.Error(), "version 99") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := s.Heartbeat(soon(t), g.Lease); err != nil {
		t.Errorf("heartbeat: %v", err)
	}
	succeed(t, s, g)
}
