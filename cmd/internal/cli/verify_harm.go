package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
)

// leastRefused is how many starts are tried beside a holder that has to keep them out.
const leastRefused = 3

// wrapperKilled: when the wrapper is killed, its guard ends the job; then the next start takes over.
func (v *verification) wrapperKilled(ctx context.Context) (string, error) {
	h, wrapper, _, err := v.victim(ctx, "wrapper", v.ttl)
	if err != nil {
		return "", err
	}
	killed := sinceBoot()
	_ = unix.Kill(wrapper.PID, unix.SIGKILL)
	next, refused, err := v.successor(ctx, "wrapper", v.ttl, nil)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the wrapper was killed (SIGKILL): its command and that one's child were last seen %s later, "+
		"and the next start took over %s after the kill%s; %s refused before that",
		span(max(0, v.lastOf(h.label)-killed)), span(next.in.at-killed), v.bySooner(next.in.at-killed), starts(refused)), nil
}

// bothKilled: when the guard is killed too, what survives of the job keeps the next start out.
func (v *verification) bothKilled(ctx context.Context) (string, error) {
	h, wrapper, guard, err := v.victim(ctx, "both", v.ttl)
	if err != nil {
		return "", err
	}
	killed := sinceBoot()
	_ = unix.Kill(guard, unix.SIGKILL) // first: it would end the job
	_ = unix.Kill(wrapper.PID, unix.SIGKILL)
	released := killed
	next, refused, err := v.successor(ctx, "both", v.ttl, func(refused int) {
		if refused == leastRefused { // what survives goes on until it is let go
			released = sinceBoot()
			v.letGo(h)
		}
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("wrapper and guard were killed (SIGKILL): %s refused while a process of the command was left, and the next one took over %s after the last was told to end%s",
		starts(refused), span(next.in.at-released), v.bySooner(next.in.at-killed)), nil
}

// holderFrozen: a holder that is frozen beyond its lease is ended in time; without leases it
// holds the lock for as long as it is there.
func (v *verification) holderFrozen(ctx context.Context) (string, error) {
	h, wrapper, _, err := v.victim(ctx, "frozen", v.frozenTTL)
	if err != nil {
		return "", err
	}
	if !v.embedded {
		if err := v.alive(ctx, h); err != nil {
			return "", err
		}
	}
	frozen := sinceBoot()
	_ = unix.Kill(wrapper.PID, unix.SIGSTOP)
	if v.embedded {
		return v.frozenForEver(ctx, h, wrapper)
	}
	next, refused, err := v.successor(ctx, "frozen", v.frozenTTL, nil)
	if err != nil {
		return "", err
	}
	v.old = &h.in
	gone := v.lastOf(h.label)
	if gone >= frozen+v.frozenTTL {
		return "", disproved("the wrapper was frozen (SIGSTOP), with a lease of %s, and its command still ran %s later", span(v.frozenTTL), span(gone-frozen))
	}
	return fmt.Sprintf("the wrapper was frozen (SIGSTOP) with a lease of %s: its guard had ended the command, which ignores SIGTERM, %s later, "+
		"and the next start was let in after %s; %s refused before that",
		span(v.frozenTTL), span(gone-frozen), span(next.in.at-frozen), starts(refused)), nil
}

// frozenForEver is holderFrozen where the lock ends with its holder.
func (v *verification) frozenForEver(ctx context.Context, h *holding, wrapper procfs.Identity) (string, error) {
	defer func() { _ = unix.Kill(wrapper.PID, unix.SIGCONT) }()
	began, refused := sinceBoot(), 0
	for refused < leastRefused || sinceBoot()-began < v.frozenTTL {
		next, err := v.enter(ctx, workOnce, fmt.Sprintf("beside-frozen-%d", refused), v.frozenTTL, 1)
		if err != nil {
			return "", err
		}
		if next != nil {
			return "", disproved("the wrapper was frozen (SIGSTOP), and another start was let in %s later, beside its command", span(next.in.at-began))
		}
		refused++
		if err := v.pause(ctx, 20*time.Millisecond); err != nil {
			return "", err
		}
	}
	last := v.lastOf(h.label)
	_ = unix.Kill(wrapper.PID, unix.SIGCONT)
	v.letGo(h)
	if err := v.ends(ctx, h.started); err != nil {
		return "", err
	}
	if code := h.code(); code != 0 || last <= began {
		return "", disproved("the wrapper was frozen (SIGSTOP) for %s: its command went on for %s of that, and it ended with status %d", span(sinceBoot()-began), span(max(0, last-began)), code)
	}
	return fmt.Sprintf("this store has no leases: while the wrapper was frozen (SIGSTOP), its command went on and the lock was held (%s refused in %s); "+
		"it went on to its end afterwards. --timeout bounds that",
		starts(refused), span(v.frozenTTL)), nil
}

// oldTokenRefused: the store takes nothing any more from a holder that was replaced.
func (v *verification) oldTokenRefused(ctx context.Context) (string, error) {
	if v.old == nil {
		return "", nil
	}
	err := v.heartbeat(ctx, *v.old, v.frozenTTL)
	switch {
	case errors.Is(err, onerun.ErrLost):
		return fmt.Sprintf("asked with the token of the holder that was frozen (%d), which it took before, the store says that it is lost", v.old.token), nil
	case err != nil:
		return "", err
	}
	return "", disproved("the store still takes the token %d of the holder that was frozen and replaced", v.old.token)
}

// alive: the store takes the token of a holder while it is one, so that its refusal later says something.
func (v *verification) alive(ctx context.Context, h *holding) error {
	err := v.heartbeat(ctx, h.in, v.frozenTTL)
	if errors.Is(err, onerun.ErrLost) {
		return disproved("the store doesn't take the token %d of a start that holds the lock: it is another store than that of the start", h.in.token)
	}
	return err
}

func (v *verification) heartbeat(ctx context.Context, s sighting, ttl time.Duration) error {
	ctx, cancel := v.env.bound(ctx)
	defer cancel()
	_, err := v.remote().Heartbeat(ctx, onerun.Lease{Namespace: v.env.Namespace, Lock: onerun.NamedLock(v.name), Owner: s.owner, Token: s.token, TTL: ttl})
	return err
}

// victim is a holder to do harm to, with its wrapper and its guard. It keeps others out.
func (v *verification) victim(ctx context.Context, label string, ttl time.Duration) (h *holding, wrapper procfs.Identity, guard int, err error) {
	v.progress("a holder is started (" + label + ")")
	if h, err = v.enter(ctx, workChild, label, ttl, 0); err != nil {
		return nil, wrapper, 0, err
	}
	if h == nil {
		return nil, wrapper, 0, disproved("a start for a lock that nobody holds was refused")
	}
	err = v.until(ctx, startTime, "the guard of a start, and the child of its command", func() (bool, error) {
		seen, err := v.read()
		wrapper, guard = h.wrapper()
		return guard != 0 && len(seen.of(sawIn, label+"/child")) > 0, err
	})
	if err != nil {
		return nil, wrapper, 0, err
	}
	next, err := v.enter(ctx, workOnce, "beside-"+label, ttl, 1)
	if err == nil && next != nil {
		err = disproved("a second start was let in while the first held the lock%s", v.suspicion())
	}
	return h, wrapper, guard, err
}

// successor starts again and again, until one is let in: it takes over what label left behind.
func (v *verification) successor(ctx context.Context, label string, ttl time.Duration, after func(refused int)) (next *holding, refused int, err error) {
	refused = 1 // beside the victim, while that was well
	for end := time.Now().Add(ttl + 30*time.Second); ; {
		v.progress(fmt.Sprintf("the next start after it (%s), %d refused", label, refused))
		if next, err = v.enter(ctx, workOnce, fmt.Sprintf("after-%s-%d", label, refused), ttl, 1); err != nil {
			return nil, refused, err
		}
		if next != nil {
			break
		}
		if time.Now().After(end) {
			return nil, refused, disproved("nobody could take over: %s refused in %s", starts(refused), span(ttl+30*time.Second))
		}
		refused++
		if after != nil {
			after(refused)
		}
		if err = v.pause(ctx, 20*time.Millisecond); err != nil {
			return nil, refused, err
		}
	}
	v.letGo(next)
	if err = v.ends(ctx, next.started); err != nil {
		return nil, refused, err
	}
	seen, err := v.read()
	if err != nil {
		return nil, refused, err
	}
	return next, refused, seen.follows(next.in, label)
}

// letGo lets a holder's command come to its end.
func (v *verification) letGo(h *holding) {
	for _, g := range v.gates {
		if g.read == h.cmd.Stdin {
			g.open()
		}
	}
}

// ends waits for the end of a start.
func (v *verification) ends(ctx context.Context, s *started) error {
	return v.until(ctx, startTime, "the end of a start whose command has ended", func() (bool, error) { return s.over(), nil })
}

// lastOf is when something of a label was last seen.
func (v *verification) lastOf(label string) time.Duration {
	seen, _ := v.read() // it could be read a moment ago
	return seen.last(label)
}

// bySooner says that a takeover didn't wait for a lease.
func (v *verification) bySooner(took time.Duration) string {
	switch {
	case v.embedded:
		return ""
	case took < v.ttl:
		return fmt.Sprintf(", by proof on this host, without waiting for the lease of %s", span(v.ttl))
	}
	return fmt.Sprintf(", when the lease of %s was over", span(v.ttl))
}

func starts(n int) string {
	if n == 1 {
		return "1 start was"
	}
	return fmt.Sprintf("%d starts were", n)
}
