package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/pgbed"
	"github.com/onerun-dev/onerun/store/postgres"
)

// slice is for how long one side works before it is the other's turn.
const slice = 500 * time.Millisecond

// onPostgres measures the store on PostgreSQL: a real server on this machine, its data on a
// disk, and its settings as it comes, so that every commit waits for that disk.
func onPostgres(rounds, runs int) error {
	ctx := context.Background()
	bed := pgbed.New("")
	defer bed.Close()
	server, err := bed.Server("-c", "max_connections=200")
	if err != nil {
		return err
	}
	if err := cycles(ctx, server, rounds); err != nil {
		return err
	}
	if err := losers(ctx, server, rounds); err != nil {
		return err
	}
	if err := takeovers(ctx, server, rounds); err != nil {
		return err
	}
	if runs == 0 {
		return nil
	}
	return onLedgers(ctx, server, max(rounds/2, 3), runs)
}

// opened opens a store with n connections in a database of its own.
func opened(ctx context.Context, server *pgbed.Server, database string, n int) (*postgres.Store, error) {
	if err := create(ctx, server, database); err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, server.URL(database, "pool_max_conns", fmt.Sprint(n)))
	if err == nil {
		_, _, err = store.Migrate(ctx)
	}
	return store, err
}

func create(ctx context.Context, server *pgbed.Server, database string) error {
	return execute(ctx, server, "postgres", "CREATE DATABASE "+database)
}

// execute executes one statement beside all that is measured.
func execute(ctx context.Context, server *pgbed.Server, database, query string, args ...any) error {
	conn, err := pgx.Connect(ctx, server.URL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err = conn.Exec(ctx, query, args...); err != nil {
		err = fmt.Errorf("%s: %w", query, err)
	}
	return err
}

// side is one of the two that take turns: what worker w does as its n-th piece of work.
type side func(ctx context.Context, w, n int) error

// turns lets two sides work in turn, and gives how long a piece of work took each of them in
// each round, with some workers at once. Every second round begins with the other side.
func turns(ctx context.Context, workers, rounds int, sides [2]side) (times [2][]time.Duration, err error) {
	var n [2]atomic.Int64
	for i := -2; i < rounds; i++ { // the first warm the caches
		for j := range sides {
			j = (j + i&1) % 2
			took, err := work(workers, func(w int) error { return sides[j](ctx, w, int(n[j].Add(1))) })
			if err != nil {
				return times, err
			}
			if i >= 0 {
				times[j] = append(times[j], took)
			}
		}
	}
	return times, nil
}

// work lets workers do for one slice what they do, and says how long one piece of it took.
func work(workers int, do func(w int) error) (time.Duration, error) {
	var done atomic.Int64
	errs := make([]error, workers)
	var all sync.WaitGroup
	begin := time.Now()
	for w := range workers {
		all.Go(func() {
			for errs[w] == nil && time.Since(begin) < slice {
				errs[w] = do(w)
				done.Add(1)
			}
		})
	}
	all.Wait()
	return time.Since(begin) / time.Duration(done.Load()), errors.Join(errs...)
}

// claimOf is the claim of a date of a worker's own job.
func claimOf(w, n int) onerun.Claim {
	job := fmt.Sprintf("job-%02d", w)
	return onerun.Claim{
		Namespace: onerun.DefaultNamespace, Job: job, Partition: fmt.Sprint("p", n), Lock: onerun.JobLock(job), Owner: onerun.NewID(),
		RunID: onerun.NewRunID(time.Now()), Policy: onerun.Policy{TTL: onerun.DefaultTTL, OnCrash: onerun.CrashAuto},
	}
}

// cycles holds a claim and its end against the floor, for some numbers of workers, each of
// which has a job of its own.
func cycles(ctx context.Context, server *pgbed.Server, rounds int) error {
	fmt.Printf("# Claims and their ends on PostgreSQL, to a floor of two prepared statements: %d rounds in turns; ratio of neighbours, median (middle half)\n\n", rounds)
	for _, workers := range []int{1, 8, 32} {
		floor, err := newFloor(ctx, server, fmt.Sprint("floor", workers), workers)
		if err != nil {
			return err
		}
		store, err := opened(ctx, server, fmt.Sprint("ours", workers), workers)
		if err != nil {
			return err
		}
		for _, scope := range []string{"job", "key"} {
			ours := func(ctx context.Context, w, n int) error {
				c := claimOf(w, n)
				if scope == "key" {
					c.Partition += "-k"
					c.Lock = onerun.KeyLock(c.Key())
				}
				g, err := store.Claim(ctx, c)
				if err != nil {
					return err
				}
				return store.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded})
			}
			theirs := func(ctx context.Context, w, n int) error {
				return floor.cycle(ctx, fmt.Sprintf("job-%02d:p%d-%s", w, n, scope))
			}
			times, err := turns(ctx, workers, rounds, [2]side{theirs, ours})
			if err != nil {
				return err
			}
			fmt.Printf("%2d workers, --scope %-20s %-18s %s   goal 0.7\n", workers, scope, "/ floor", ratio(times[0], times[1]))
		}
		ledger, err := pgxpool.New(ctx, server.URL(fmt.Sprint("ours", workers), "pool_max_conns", fmt.Sprint(workers)))
		if err != nil {
			return err
		}
		err = alone(ctx, workers, rounds, func(ctx context.Context, w, n int) error {
			return floor.cycle(ctx, fmt.Sprintf("job-%02d:p%d-none", w, n))
		}, func(ctx context.Context, w, n int) error {
			return pgRows(ctx, ledger, fmt.Sprintf("job-%02d:p%d-rows", w, n))
		})
		ledger.Close()
		floor.pool.Close()
		if err := errors.Join(err, store.Close()); err != nil {
			return err
		}
	}
	return nil
}

// losers holds claims of a key that somebody runs against the floor's, and counts what they
// cost.
func losers(ctx context.Context, server *pgbed.Server, rounds int) error {
	const workers = 32
	floor, err := newFloor(ctx, server, "floorlosers", workers)
	if err != nil {
		return err
	}
	store, err := opened(ctx, server, "losers", workers)
	if err != nil {
		return err
	}
	if _, err := store.Claim(ctx, claimOf(0, 0)); err != nil {
		return err
	}
	if _, err := floor.claim(ctx, "job-00:p0", onerun.NewID()); err != nil {
		return err
	}
	before, err := transactions(ctx, server, "losers")
	if err != nil {
		return err
	}
	var refused atomic.Int64
	ours := func(ctx context.Context, _, _ int) error {
		_, err := store.Claim(ctx, claimOf(0, 0))
		var ref *onerun.Refusal
		if !errors.As(err, &ref) {
			return fmt.Errorf("a second claim of a key that runs: %w", err)
		}
		refused.Add(1)
		return nil
	}
	theirs := func(ctx context.Context, _, _ int) error {
		won, err := floor.claim(ctx, "job-00:p0", onerun.NewID())
		if err == nil && won {
			err = errors.New("the floor's second claim of a key was won")
		}
		return err
	}
	times, err := turns(ctx, workers, rounds, [2]side{theirs, ours})
	if err != nil {
		return err
	}
	floor.pool.Close()
	if err := store.Close(); err != nil {
		return err
	}
	after, err := transactions(ctx, server, "losers")
	if err != nil {
		return err
	}
	fmt.Printf("\n# %d workers that all claim one key, which runs\n\n", workers)
	fmt.Printf("%-38s %-18s %s\n", "refused claims, each recorded", "/ floor's, which aren't", ratio(times[0], times[1]))
	fmt.Printf("transactions for each                  %.2f   goal 1\n", float64(after-before)/float64(refused.Load()))
	return nil
}

// transactions is how many transactions a database has seen of sessions that are over.
func transactions(ctx context.Context, server *pgbed.Server, database string) (int64, error) {
	return number(ctx, server, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1", database)
}

// number asks for one beside all that is measured.
func number(ctx context.Context, server *pgbed.Server, query string, args ...any) (n int64, err error) {
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, query, args...).Scan(&n)
	return n, err
}

// takeovers measures a takeover by proof, from the claim that meets the dead owner to the
// grant; the proof itself, which is the host's, is not in it.
func takeovers(ctx context.Context, server *pgbed.Server, rounds int) error {
	store, err := opened(ctx, server, "takeovers", 1)
	if err != nil {
		return err
	}
	g, err := store.Claim(ctx, claimOf(0, 0))
	if err != nil {
		return err
	}
	var took []time.Duration
	for n := range 10 * rounds {
		c := claimOf(0, n+1)
		begin := time.Now()
		var ref *onerun.Refusal
		if _, err := store.Claim(ctx, c); !errors.As(err, &ref) {
			return fmt.Errorf("a claim beside an owner: %w", err)
		}
		next, err := store.ClaimKnowing(ctx, c, onerun.HostKnowledge{Dead: []onerun.DeadOwner{{Owner: g.Lease.Owner}}})
		if err != nil {
			return err
		}
		took = append(took, time.Since(begin))
		if len(next.TakenOver) != 1 {
			return errors.New("a takeover took nothing over")
		}
		g = next
	}
	slices.Sort(took)
	ms := func(i int) float64 { return float64(took[i].Microseconds()) / 1000 }
	fmt.Printf("\n# Takeover by proof, as far as the store has to do with it: two round trips, %d times\n\n", len(took))
	fmt.Printf("%.1f ms in the median, %.1f ms in 99 of 100, %.1f ms at the worst   goal 100\n", ms(len(took)/2), ms(len(took)*99/100), ms(len(took)-1))
	return store.Close()
}
