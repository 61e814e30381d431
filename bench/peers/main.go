// Command peers holds the store on Redis, and two libraries that lock by Redis, against the least
// that can do so, in one run on one server. It is a module of its own, so that nothing else
// links them. Run it with
//
//	cd bench/peers && go run .
//
// What they do is not the same: a lock of these libraries is gone when it is let go, while a
// claim keeps what became of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/redisbed"
	"github.com/onerun-dev/onerun/store/redis"
)

// slice is for how long one of them works before it is the next one's turn.
const slice = 500 * time.Millisecond

func main() {
	rounds := flag.Int("rounds", 10, "rounds of each comparison")
	flag.Parse()
	if err := compare(*rounds); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// contender takes a name that nobody has and lets it go; n is a number that nobody had.
type contender struct {
	name  string
	cycle func(ctx context.Context, n int64) error
}

func compare(rounds int) error {
	bed := redisbed.New("/dev/shm", "")
	defer bed.Close()
	server, err := bed.Server()
	if err != nil {
		return err
	}
	fmt.Printf("# A lock taken and let go on a Redis which keeps nothing on the disk: %d rounds in turns; ratio to the floor next to it, median\n\n", rounds)
	for _, workers := range []int{1, 8, 64} {
		if err := turns(server, workers, rounds); err != nil {
			return err
		}
	}
	return nil
}

func contenders(server *redisbed.Server, workers int) ([]contender, func() error, error) {
	db := driver.NewClient(&driver.Options{Addr: "127.0.0.1:" + strconv.Itoa(server.Port), Password: redisbed.Password, PoolSize: workers, Protocol: 2})
	store, err := redis.Open(context.Background(), server.URL("prefix", fmt.Sprint("peers", workers), "pool_size", strconv.Itoa(workers)))
	if err != nil {
		return nil, nil, err
	}
	free := driver.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	bsm, sync := redislock.New(db), redsync.New(goredis.NewPool(db))
	name := func(what string, n int64) string { return fmt.Sprintf("%s:%d:%d", what, workers, n) }
	return []contender{
		{"floor: SET NX PX, compare and delete", func(ctx context.Context, n int64) error {
			key, owner := name("floor", n), onerun.NewID()
			if err := db.SetArgs(ctx, key, owner, driver.SetArgs{Mode: "NX", TTL: time.Minute}).Err(); err != nil {
				return err
			}
			return free.Run(ctx, db, []string{key}, owner).Err()
		}},
		{"bsm/redislock", func(ctx context.Context, n int64) error {
			l, err := bsm.Obtain(ctx, name("bsm", n), time.Minute, nil)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		}},
		{"go-redsync/redsync, one server", func(ctx context.Context, n int64) error {
			m := sync.NewMutex(name("redsync", n), redsync.WithExpiry(time.Minute), redsync.WithTries(1))
			if err := m.LockContext(ctx); err != nil {
				return err
			}
			_, err := m.UnlockContext(ctx)
			return err
		}},
		{"store/redis: a claim and its end", func(ctx context.Context, n int64) error {
			job := fmt.Sprintf("job-%d", n%int64(workers))
			c := onerun.Claim{
				Namespace: onerun.DefaultNamespace, Job: job, Partition: name("p", n), Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()),
				Policy: onerun.Policy{TTL: time.Minute, OnCrash: onerun.CrashAuto},
			}
			c.Lock = onerun.KeyLock(c.Key())
			g, err := store.Claim(ctx, c)
			if err != nil {
				return err
			}
			return store.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded})
		}},
	}, func() error { return errors.Join(store.Close(), db.Close()) }, nil
}

func turns(server *redisbed.Server, workers, rounds int) error {
	all, end, err := contenders(server, workers)
	if err != nil {
		return err
	}
	ratios := make([][]float64, len(all))
	var n atomic.Int64
	for i := -1; i < rounds; i++ { // the first warms the caches
		var floor float64
		for j, c := range all {
			rate, err := work(workers, func() error { return c.cycle(context.Background(), n.Add(1)) })
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if j == 0 {
				floor = rate
			}
			if i >= 0 {
				ratios[j] = append(ratios[j], rate/floor)
			}
		}
	}
	for j, c := range all {
		slices.Sort(ratios[j])
		fmt.Printf("%2d workers  %-38s %5.2f\n", workers, c.name, ratios[j][len(ratios[j])/2])
	}
	return end()
}

// work lets workers do for one slice what they do, and says how often in a second.
func work(workers int, do func() error) (float64, error) {
	var done atomic.Int64
	errs := make([]error, workers)
	var all sync.WaitGroup
	begin := time.Now()
	for w := range workers {
		all.Go(func() {
			for errs[w] == nil && time.Since(begin) < slice {
				errs[w] = do()
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds(), errors.Join(errs...)
}
