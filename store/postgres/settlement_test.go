package postgres_test

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/postgres"
)

// settlePages is the work of ExampleStore_Fence. It pauses when some pages are committed.
func settlePages(ctx context.Context, s *postgres.Store, url string, o *onerun.Owner, pause func(here string)) error {
	pool, err := pgxpool.New(ctx, appURL(url))
	if err != nil {
		return err
	}
	defer pool.Close()
	for {
		last, err := settlePage(ctx, s, pool, o)
		if err != nil || last == 0 {
			return err
		}
		if last == 8 {
			pause("settled up to 8")
		}
	}
}

// TestSettlementSurvivesKill: a worker is killed in the middle of a page's transaction. The next
// one goes on after the last page that was committed, and no order is settled twice or left out.
func TestSettlementSurvivesKill(t *testing.T) {
	t.Parallel()
	s, url := fresh(t)
	conn := direct(t, appURL(url))
	mustExec(t, conn, settlementTables)
	first := frozen(t, "pages", url, "settled up to 8")

	// It can't get at the last order, so that it is killed while it settles a page.
	mustExec(t, conn, "BEGIN")
	mustExec(t, conn, "SELECT FROM orders WHERE id = 10 FOR UPDATE")
	first.signal(t, syscall.SIGCONT)
	if _, err := first.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, url, "the worker to be in the middle of a page", `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE `+strconv.Itoa(int(conn.PgConn().PID()))+` = ANY (pg_blocking_pids(pid)))`)
	first.signal(t, syscall.SIGKILL)
	if err := first.cmd.Wait(); err == nil {
		t.Fatal("the worker ended by itself")
	}
	mustExec(t, conn, "ROLLBACK")

	job := frozenJob
	job.Wait = time.Minute
	attempt, upto := 0, 0
	err := onerun.NewRunner(s).Do(t.Context(), job, func(ctx context.Context, o *onerun.Owner) error {
		attempt = o.Run().Attempt
		if err := conn.QueryRow(ctx, "SELECT upto FROM settlement").Scan(&upto); err != nil {
			return err
		}
		return settlePages(ctx, s, url, o, func(string) {})
	})
	if err != nil || attempt != 2 || upto != 8 {
		t.Errorf("the next worker, attempt %d, went on after %d: %v", attempt, upto, err)
	}
	var settled string
	if err := conn.QueryRow(t.Context(), "SELECT string_agg(settled::text, '' ORDER BY id) FROM orders").Scan(&settled); err != nil {
		t.Fatal(err)
	}
	if settled != strings.Repeat("1", 10) {
		t.Errorf("how often each order was settled: %s", settled)
	}
}
