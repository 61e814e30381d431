package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/onerun-dev/onerun"
)

// oneKey: of the processes that want the same key, one executes it.
func (v *verification) oneKey(ctx context.Context) (string, error) {
	return v.contend(ctx, "key", func(round int) (kind []string, mode string) {
		mode = workHold
		if round%2 == 1 { // who comes late finds that it succeeded
			mode = workOnce
		}
		return v.runs(fmt.Sprintf("round-%d", round)), mode
	})
}

// oneLock: of the processes that want the same lock, one has it.
func (v *verification) oneLock(ctx context.Context) (string, error) {
	return v.contend(ctx, "lock", func(int) ([]string, string) { return v.locks(v.ttl), workHold })
}

// contend lets the processes contend, round by round. A command that holds goes on until all
// others have been refused, so nobody comes when it is over.
func (v *verification) contend(ctx context.Context, what string, round func(int) (kind []string, mode string)) (string, error) {
	refused, winners, token := 0, map[int]bool{}, int64(0)
	for n := range v.rounds {
		v.progress(fmt.Sprintf("%d processes for one %s, round %d of %d", v.processes, what, n+1, v.rounds))
		kind, mode := round(n)
		label := fmt.Sprintf("%s-%d", what, n)
		starts, err := v.compete(ctx, kind, mode, label)
		if err != nil {
			return "", err
		}
		seen, err := v.settle(ctx, starts, mode, label)
		if err != nil {
			return "", err
		}
		in := seen.of(sawIn, label)
		for i, s := range starts {
			if s.code() == 0 {
				winners[i] = true
			} else {
				refused++
			}
		}
		switch overlap := seen.overlaps(); {
		case len(in) != 1:
			return "", disproved("round %d of %d processes for one %s: %d of them executed it%s", n+1, v.processes, what, len(in), v.suspicion())
		case overlap != "":
			return "", disproved("round %d: %s", n+1, overlap)
		case !(what == "key" && v.scopeKey) && in[0].token <= token: // every key has its own lock there
			return "", disproved("round %d: the token %d doesn't follow after %d", n+1, in[0].token, token)
		}
		token = in[0].token
	}
	return fmt.Sprintf("%d processes contended in %d rounds: the witness saw exactly one execution in each, by %d of them in turn, tokens growing; %d starts were refused",
		v.processes, v.rounds, len(winners), refused), nil
}

// compete starts the processes, each stopped as soon as it is there, and lets them go at once.
func (v *verification) compete(ctx context.Context, kind []string, mode, label string) (starts []*started, err error) {
	g, err := v.newGate()
	if err != nil {
		return nil, err
	}
	for i := range v.processes {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s, err := v.commandOf(i, kind, mode, label, g)
		if err == nil {
			err = v.launch(s, true)
		}
		if err != nil {
			return nil, err
		}
		starts = append(starts, s)
	}
	for _, s := range starts {
		s.signal(syscall.SIGCONT)
	}
	return starts, nil
}

// settle waits until each of the starts is refused or executed, lets the executed come to their
// end, and gives what the witness has then.
func (v *verification) settle(ctx context.Context, starts []*started, mode, label string) (testimony, error) {
	if mode != workOnce {
		if err := v.decided(ctx, starts, label); err != nil {
			return nil, err
		}
	}
	return v.finish(ctx, starts)
}

// decided waits until each of the starts is refused or executed.
func (v *verification) decided(ctx context.Context, starts []*started, label string) error {
	return v.until(ctx, startTime, "an answer to each of the starts", func() (bool, error) {
		seen, err := v.read()
		left := len(starts) - len(seen.of(sawIn, label))
		for _, s := range starts {
			if s.over() {
				left--
			}
		}
		return left <= 0, err
	})
}

// finish lets the executed come to their end, and gives what the witness has then.
func (v *verification) finish(ctx context.Context, starts []*started) (testimony, error) {
	for _, g := range v.gates {
		g.open()
	}
	v.gates = nil
	for _, s := range starts {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ended:
		case <-time.After(startTime):
			return nil, disproved("a start has not ended %s after its command", startTime)
		}
	}
	v.running = nil
	var trouble error
	for _, s := range starts {
		err := s.trouble()
		if errors.Is(err, onerun.ErrUnavailable) || errors.Is(err, onerun.ErrIO) { // which explains all else
			return nil, err
		}
		if trouble == nil {
			trouble = err
		}
	}
	if trouble != nil {
		return nil, trouble
	}
	return v.read()
}

// suspicion is what is likely to be the cause of two winners.
func (v *verification) suspicion() string {
	if v.program != v.self {
		return "; does " + v.program + " name the same store, namespace and lock directory each time?"
	}
	return "; they don't see one store or one lock directory: is one of them named by a relative path? see: onerun doctor"
}

// holding is a start whose command runs.
type holding struct {
	*started
	in sighting
}

// enter starts what is to hold the lock, and says whether it does: nil when it was refused.
func (v *verification) enter(ctx context.Context, mode, label string, ttl time.Duration, place int) (*holding, error) {
	g, err := v.newGate()
	if err != nil {
		return nil, err
	}
	s, err := v.commandOf(place, v.locks(ttl), mode, label, g)
	if err == nil {
		err = v.launch(s, false)
	}
	if err != nil {
		return nil, err
	}
	var h *holding
	err = v.until(ctx, startTime, "an answer to a start", func() (bool, error) {
		over := s.over() // before the look at what it did
		seen, err := v.read()
		if in := seen.of(sawIn, label); len(in) > 0 {
			h = &holding{s, in[0]}
		}
		return h != nil || over, err
	})
	if err == nil && h == nil {
		v.forget(s, g)
		if err = s.trouble(); err == nil && s.code() == 0 {
			err = disproved("a start ended with status 0, and the witness saw nothing of its command")
		}
	}
	return h, err
}

// forget takes a start that has ended out of the books.
func (v *verification) forget(s *started, g gate) {
	g.open()
	v.gates = v.gates[:len(v.gates)-1]
	for i, other := range v.running {
		if other == s {
			v.running = append(v.running[:i], v.running[i+1:]...)
			return
		}
	}
}

// remote is the store itself, without this host's lock files before it: what another host asks.
func (v *verification) remote() onerun.Store {
	if s, ok := v.store.(interface{ Unwrap() onerun.Store }); ok {
		return s.Unwrap()
	}
	return v.store
}
