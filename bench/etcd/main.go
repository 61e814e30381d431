// Command etcd holds the store on etcd against a floor, and against the lock of etcd's own client.
// Run it with
//
//	go run ./bench/etcd
//
// It is a program of its own, so that no other measurement starts with gRPC in it. Absolute times
// say little on a shared machine, so none is printed: the sides take turns, and each round gives
// one ratio of neighbours in time. Quote the medians.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/etcdbed"
	"github.com/onerun-dev/onerun/store/etcd"
)

// slice is for how long one side works before it is another's turn.
const slice = 500 * time.Millisecond

func main() {
	rounds := flag.Int("rounds", 20, "rounds of each comparison")
	history := flag.Int("history", 0, "sessions on one name before claims are measured once more; 0 leaves that part out")
	flag.Parse()
	if err := bench(context.Background(), *rounds, *history); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// side is one of those that take turns: what worker w does as its n-th piece of work.
type side struct {
	name string
	do   func(ctx context.Context, w, n int) error
}

func bench(ctx context.Context, rounds, history int) error {
	bed := etcdbed.New("")
	defer bed.Close()
	server, err := bed.Server()
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + server.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	store, err := etcd.Open(ctx, server.URL("ours"))
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	fmt.Printf("# Claims and their ends on etcd, to a floor of one create and one delete transaction: %d rounds in turns; ratio of neighbours, median (middle half)\n\n", rounds)
	for _, workers := range []int{1, 8, 64} {
		if err := compare(ctx, client, store, workers, rounds); err != nil {
			return err
		}
	}
	if history > 0 {
		return grow(ctx, client, store, rounds, history)
	}
	return nil
}

func compare(ctx context.Context, client *clientv3.Client, store *etcd.Store, workers, rounds int) error {
	mutexes, end, err := sessions(client, workers)
	if err != nil {
		return err
	}
	defer end()
	floor := side{"floor", floorOf(client)}
	others := []side{
		{"claim + finish, a key", cycle(store, claimOf)},
		{"claim + finish, the lock alone", cycle(store, lockOf)},
		{"the ledger's rows alone", rowsOf(client)},
		{"etcd's Mutex, its session reused", func(ctx context.Context, w, _ int) error {
			if err := mutexes[w].Lock(ctx); err != nil {
				return err
			}
			return mutexes[w].Unlock(ctx)
		}},
	}
	for _, other := range others {
		times, err := turns(ctx, workers, rounds, [2]side{floor, other})
		if err != nil {
			return err
		}
		goal := ""
		if strings.HasPrefix(other.name, "claim") {
			goal = "goal 0.7"
		}
		fmt.Printf("%2d workers, %-34s / floor  %s   %s\n", workers, other.name, ratio(times[0], times[1]), goal)
	}
	return nil
}

// sessions are mutexes of etcd's own client, each with its session.
func sessions(client *clientv3.Client, n int) (all []*concurrency.Mutex, end func(), err error) {
	var open []*concurrency.Session
	end = func() {
		for _, s := range open {
			_ = s.Close()
		}
	}
	for w := range n {
		s, err := concurrency.NewSession(client)
		if err != nil {
			end()
			return nil, nil, err
		}
		open = append(open, s)
		all = append(all, concurrency.NewMutex(s, fmt.Sprintf("mutex/%02d", w)))
	}
	return all, end, nil
}

// floorOf is the least that excludes: a key that is made if it isn't there, and taken away.
func floorOf(client *clientv3.Client) func(ctx context.Context, w, n int) error {
	return func(ctx context.Context, w, _ int) error {
		key := fmt.Sprintf("floor/%02d", w)
		r, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key, "owner")).Commit()
		if err != nil {
			return err
		}
		if !r.Succeeded {
			return errors.New("the floor's key is there already")
		}
		_, err = client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", r.Header.Revision)).Then(clientv3.OpDelete(key)).Commit()
		return err
	}
}

// rowsOf writes what a claim and its end leave in the store, in one transaction each, and decides nothing: no lease is asked
// for and nothing compared. It is what the ledger alone costs on the server.
func rowsOf(client *clientv3.Client) func(ctx context.Context, w, n int) error {
	return func(ctx context.Context, w, _ int) error {
		id := onerun.NewID()
		put := func(key string, bytes int) clientv3.Op {
			return clientv3.OpPut("rows/"+key, strings.Repeat("x", bytes))
		}
		lock := fmt.Sprintf("lock/%02d", w)
		held, life := fmt.Sprintf("held/%02d", w), fmt.Sprintf("life/%02d", w)
		_, err := client.Txn(ctx).Then(put("key/"+id, 40), put("run/"+id, 1000), put("time/"+id, 36), put("hist/"+id, 36), put(lock, 400), put(held, 10), put(life, 80)).Commit()
		if err != nil {
			return err
		}
		_, err = client.Txn(ctx).Then(put("run/"+id, 1000), put("done/"+id, 36), put(lock, 300), clientv3.OpDelete("rows/"+held), clientv3.OpDelete("rows/"+life)).Commit()
		return err
	}
}

func cycle(store *etcd.Store, claim func(w, n int) onerun.Claim) func(ctx context.Context, w, n int) error {
	return func(ctx context.Context, w, n int) error {
		g, err := store.Claim(ctx, claim(w, n))
		if err != nil {
			return err
		}
		return store.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded})
	}
}

// claimOf is the claim of a date of a worker's own job, lockOf that of its lock alone.
func claimOf(w, n int) onerun.Claim {
	c := lockOf(w, n)
	c.Job, c.Partition, c.RunID = fmt.Sprintf("job-%02d", w), fmt.Sprintf("p%d-%s", n, c.Owner[:8]), onerun.NewRunID(time.Now())
	c.Lock = onerun.JobLock(c.Job)
	return c
}

func lockOf(w, _ int) onerun.Claim {
	return onerun.Claim{
		Namespace: onerun.DefaultNamespace, Lock: onerun.NamedLock(fmt.Sprintf("name-%02d", w)), Owner: onerun.NewID(),
		Policy: onerun.Policy{TTL: onerun.DefaultTTL, OnCrash: onerun.CrashAuto},
	}
}

// grow holds claims of a name that was taken many times against those of a fresh one.
func grow(ctx context.Context, client *clientv3.Client, store *etcd.Store, rounds, history int) error {
	old := cycle(store, func(int, int) onerun.Claim { return lockOf(98, 0) })
	for n := range history {
		if err := old(ctx, 0, n); err != nil {
			return err
		}
	}
	times, err := turns(ctx, 1, rounds, [2]side{{"fresh", cycle(store, func(int, int) onerun.Claim { return lockOf(99, 0) })}, {"old", old}})
	if err != nil {
		return err
	}
	leases, err := client.Leases(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n# One name after %d sessions\n\nclaim + finish, to those of a fresh name   %s   goal 0.9; leases on the server: %d\n", history, ratio(times[0], times[1]), len(leases.Leases))
	return nil
}

// turns lets two sides work in turn, and gives how long a piece of work took each of them in
// each round, with some workers at once. Every second round begins with the other side.
func turns(ctx context.Context, workers, rounds int, sides [2]side) (times [2][]time.Duration, err error) {
	var n [2]atomic.Int64
	for i := -2; i < rounds; i++ { // the first warm the caches
		for j := range sides {
			j = (j + i&1) % 2
			took, err := work(workers, func(w int) error { return sides[j].do(ctx, w, int(n[j].Add(1))) })
			if err != nil {
				return times, fmt.Errorf("%s: %w", sides[j].name, err)
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

// ratio is how many times as fast b is as a: the median of all rounds, and their middle half.
func ratio(a, b []time.Duration) string {
	r := make([]float64, len(a))
	for i := range a {
		r[i] = float64(a[i]) / float64(b[i])
	}
	slices.Sort(r)
	return fmt.Sprintf("%.2f (%.2f to %.2f)", r[len(r)/2], r[len(r)/4], r[len(r)*3/4])
}
