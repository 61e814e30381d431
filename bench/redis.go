package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	driver "github.com/redis/go-redis/v9"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/redisbed"
	"github.com/onerun-dev/onerun/store/redis"
)

// onRedis measures the store on Redis: a real server on this machine, which keeps nothing on the
// disk, so that it shows what the scripts cost; and one that waits for its disk before it
// answers, as a ledger's should.
func onRedis(rounds int) error {
	for _, c := range []struct {
		what string
		dirs []string
		args []string
	}{
		{"which keeps nothing on the disk", []string{"/dev/shm", ""}, nil},
		{"with appendfsync always", []string{""}, []string{"--appendonly", "yes", "--appendfsync", "always"}},
	} {
		bed := redisbed.New(c.dirs...)
		server, err := bed.Server(c.args...)
		if err == nil {
			fmt.Printf("# Claims and their ends on a Redis %s, to a floor of SET NX PX and compare-and-delete by the same driver: %d rounds in turns; ratio of neighbours, median (middle half)\n\n", c.what, rounds)
			err = redisCycles(server, rounds)
			fmt.Println()
		}
		bed.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func redisCycles(server *redisbed.Server, rounds int) error {
	ctx := context.Background()
	for _, workers := range []int{1, 8, 64} {
		floor := &redisFloor{
			db:   driver.NewClient(&driver.Options{Addr: "127.0.0.1:" + strconv.Itoa(server.Port), Password: redisbed.Password, PoolSize: workers, Protocol: 2}),
			free: driver.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`),
		}
		store, err := redis.Open(ctx, server.URL("prefix", fmt.Sprint("bench", workers), "pool_size", strconv.Itoa(workers)))
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
		rows := newRedisRows(floor.db)
		err = alone(ctx, workers, rounds, func(ctx context.Context, w, n int) error {
			return floor.cycle(ctx, fmt.Sprintf("job-%02d:p%d-none", w, n))
		}, func(ctx context.Context, w, n int) error {
			return rows.cycle(ctx, fmt.Sprintf("job-%02d:p%d", w, n))
		})
		if err := errors.Join(err, store.Close(), floor.db.Close()); err != nil {
			return err
		}
	}
	return nil
}

// redisFloor is the least that can hold a name on Redis and let it go: what the manual of SET
// shows. It keeps nothing of what was done, and gives no token.
type redisFloor struct {
	db   *driver.Client
	free *driver.Script
}

// cycle takes a name that nobody has, and lets it go.
func (f *redisFloor) cycle(ctx context.Context, key string) error {
	owner := onerun.NewID()
	err := f.db.SetArgs(ctx, key, owner, driver.SetArgs{Mode: "NX", TTL: onerun.DefaultTTL}).Err()
	if err != nil {
		return err
	}
	n, err := f.free.Run(ctx, f.db, []string{key}, owner).Int()
	if err == nil && n != 1 {
		err = errors.New("the floor lost a name that nobody else takes")
	}
	return err
}
