package storetest_test

import (
	"context"

	"github.com/onerun-dev/onerun"
)

func stopBugs() []bug {
	return []bug{
		{name: "the owner isn't told to stop", caught: "stop/the owner hears who and why", disguise: func(s onerun.Store) onerun.Store { return deaf{s} }},
		{name: "anything may be stopped", caught: "stop/only what runs, and is as expected", disguise: func(s onerun.Store) onerun.Store { return stopsAll{s} }},
		{name: "the dead may be stopped", caught: "stop/nobody who is dead", disguise: func(s onerun.Store) onerun.Store { return stopsAll{s} }},
		{name: "a request outlives its owner", caught: "stop/not the next owner", disguise: func(s onerun.Store) onerun.Store { return &stopsForEver{Store: s} }},
	}
}

type deaf struct{ onerun.Store }

func (d deaf) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	b, err := d.Store.Heartbeat(ctx, l)
	b.Stop = ""
	return b, err
}

type stopsAll struct{ onerun.Store }

func (stopsAll) Stop(context.Context, onerun.StopRequest) error { return nil }

type stopsForEver struct {
	onerun.Store
	stopped bool
}

func (s *stopsForEver) Stop(ctx context.Context, q onerun.StopRequest) error {
	s.stopped = true
	return s.Store.Stop(ctx, q)
}

func (s *stopsForEver) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	b, err := s.Store.Heartbeat(ctx, l)
	if s.stopped {
		b.Stop = "somebody"
	}
	return b, err
}
