package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/zkbed"
	"github.com/onerun-dev/onerun/store/zookeeper"
)

// onZooKeeper measures the store on ZooKeeper: a real server alone on this machine, its data on a disk, and every write
// waiting for that disk, as it comes.
func onZooKeeper(rounds int) error {
	ctx := context.Background()
	bed := zkbed.New("")
	defer bed.Close()
	server, err := bed.Server("forceSync=yes", "tickTime=2000")
	if err != nil {
		return err
	}
	z, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer z.Close()
	for _, dir := range []string{"/floor", "/recipe"} {
		if _, err := z.Create(dir, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
			return err
		}
	}
	fmt.Printf("# Claims and their ends on ZooKeeper, %d rounds in turns; ratio of neighbours, median (middle half)\n", rounds)
	fmt.Printf("# The floor: an ephemeral node that is made and deleted, by the same driver on one connection\n\n")
	for _, workers := range []int{1, 8, 64} {
		if err := zkCycles(ctx, server, z, workers, rounds); err != nil {
			return err
		}
	}
	return nil
}

// zkCycles holds a claim and its end against the floor, and the driver's own lock too, for some workers, each of which has a job, or a
// node, of its own.
func zkCycles(ctx context.Context, server *zkbed.Server, z *zk.Conn, workers, rounds int) error {
	store, err := zookeeper.Open(ctx, fmt.Sprintf("zookeeper://%s/onerun%d", server.Addr(), workers))
	if err != nil {
		return err
	}
	floor := func(_ context.Context, w, _ int) error {
		name, err := z.Create(fmt.Sprintf("/floor/w%02d", w), nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		if err == nil {
			err = z.Delete(name, -1)
		}
		return err
	}
	recipe := func(_ context.Context, w, _ int) error {
		lock := zk.NewLock(z, fmt.Sprintf("/recipe/w%02d", w), zk.WorldACL(zk.PermAll))
		err := lock.Lock()
		if err == nil {
			err = lock.Unlock()
		}
		return err
	}
	var dates atomic.Int64
	ours := func(ctx context.Context, w, _ int) error {
		g, err := store.Claim(ctx, claimOf(w, int(dates.Add(1))))
		if err != nil {
			return err
		}
		return store.Finish(ctx, g.Lease, onerun.Outcome{Status: onerun.Succeeded})
	}
	for _, other := range []struct {
		name, goal string
		side       side
	}{{"/ floor", "goal 0.7", floor}, {"/ zk.Lock", "", recipe}} {
		times, err := turns(ctx, workers, rounds, [2]side{other.side, ours})
		if err != nil {
			return err
		}
		fmt.Printf("%2d workers %-27s %-18s %s   %s\n", workers, "", other.name, ratio(times[0], times[1]), other.goal)
	}
	dir := fmt.Sprintf("/rows%d", workers)
	if err := zkLocks(z, dir, workers); err != nil {
		return err
	}
	if err := alone(ctx, workers, rounds, floor, func(_ context.Context, w, _ int) error { return zkRows(z, dir, w) }); err != nil {
		return err
	}
	return store.Close()
}
