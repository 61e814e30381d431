package main_test

import (
	"math/rand/v2"
	"syscall"
	"time"
)

// fault is what can happen to machines.
type fault struct {
	name   string
	weight int
	strike func(w *world, h *island, r *rand.Rand) bool // it is told whether anything happened
}

// short is how long a fault lasts: now and then for longer than a lease.
func (w *world) short(r *rand.Rand) time.Duration {
	if r.IntN(4) == 0 {
		return w.ttl * 8 / 5
	}
	return time.Duration(100+r.IntN(900)) * time.Millisecond
}

// nemesis is all that happens.
var nemesis = []fault{
	{"network cut", 12, (*world).cutNetwork},
	{"replies held back", 8, func(w *world, h *island, r *rand.Rand) bool {
		return w.inNetwork(h, w.short(r), func() { h.net.Pass(true, false) }, func() { h.net.Pass(true, true) })
	}},
	{"replies dropped", 8, func(w *world, h *island, r *rand.Rand) bool {
		return w.inNetwork(h, time.Duration(r.IntN(500))*time.Millisecond, func() { h.net.Pass(true, false) }, func() { h.net.Break(); h.net.Pass(true, true) })
	}},
	{"network slow", 6, func(w *world, h *island, r *rand.Rand) bool {
		if h.net == nil {
			return false
		}
		for range 5 + r.IntN(20) {
			w.during(time.Duration(50+r.IntN(100))*time.Millisecond, func() { h.net.Pass(false, false) }, func() { h.net.Pass(true, true) })
			time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
		}
		return true
	}},
	{"connections forgotten", 8, func(w *world, h *island, _ *rand.Rand) bool {
		return w.inNetwork(h, 0, h.net.Break, func() {})
	}},
	{"wrapper frozen", 12, (*world).freezeWrapper},
	{"wrapper killed", 14, (*world).killWrapper},
	{"guard frozen", 5, func(w *world, h *island, r *rand.Rand) bool {
		return w.frozen(h, (*start).guard, w.short(r))
	}},
	{"guard killed", 9, func(w *world, h *island, _ *rand.Rand) bool { return hit(h, (*start).guard) }},
	{"job frozen", 4, func(w *world, h *island, r *rand.Rand) bool {
		return w.frozen(h, (*start).job, w.short(r))
	}},
	{"job killed", 9, func(w *world, h *island, _ *rand.Rand) bool { return hit(h, (*start).job) }},
	{"server frozen", 4, func(w *world, _ *island, r *rand.Rand) bool {
		s, ok := w.server.(signaled)
		if ok {
			w.during(w.short(r), func() { w.toServer(s, syscall.SIGSTOP) }, func() { w.toServer(s, syscall.SIGCONT) })
		}
		return ok
	}},
	{"server killed", 6, (*world).killServer},
	{"server's clock stepped", 10, func(w *world, _ *island, r *rand.Rand) bool { return w.clock.step(w, r) }},
	{"lock files deleted", 6, func(w *world, h *island, r *rand.Rand) bool { return w.spoil(h, r, remove) }},
	{"lock files written over", 6, func(w *world, h *island, r *rand.Rand) bool { return w.spoil(h, r, scribble) }},
	{"disk full", 8, (*world).fillDisk},
}

// harm does what happens to machines.
func (w *world) harm(end time.Time, r *rand.Rand) {
	faults, all := w.faults, 0
	if faults == nil {
		faults = nemesis
	}
	for _, f := range faults {
		all += f.weight
	}
	for time.Now().Before(end) {
		time.Sleep(time.Duration(r.Int64N(int64(w.ttl / 5))))
		h := w.hosts[r.IntN(len(w.hosts))]
		if r.IntN(4) > 0 { // rather one that works
			for _, other := range w.hosts {
				if s := other.victim(); s != nil && s.guard() != 0 {
					h = other
				}
			}
		}
		n := r.IntN(all)
		for _, f := range faults {
			if n -= f.weight; n < 0 {
				if f.strike(w, h, r) {
					w.count(w.report.Faults, f.name)
				}
				break
			}
		}
	}
}

func (w *world) count(in map[string]int, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in[what]++
}

func (w *world) during(d time.Duration, do, undo func()) {
	do()
	time.Sleep(d)
	undo()
}

func (w *world) inNetwork(h *island, d time.Duration, do, undo func()) bool {
	if h.net != nil {
		w.during(d, do, undo)
	}
	return h.net != nil
}

func (w *world) cutNetwork(h *island, r *rand.Rand) bool {
	return w.inNetwork(h, w.short(r), func() { h.net.Pass(false, false) }, func() { h.net.Pass(true, true) })
}

// freezeWrapper leaves out one that stands alone with its job, which is among the exceptions.
func (w *world) freezeWrapper(h *island, r *rand.Rand) bool {
	s := h.victim()
	if s == nil || s.guard() == 0 {
		return false
	}
	w.during(w.short(r), func() { s.signal(syscall.SIGSTOP) }, func() { s.signal(syscall.SIGCONT) })
	return true
}

// killWrapper leaves out one that stands alone with its job. Whatever begins at the very moment is
// an exception, and remembered.
func (w *world) killWrapper(h *island, _ *rand.Rand) bool {
	s := h.victim()
	if s == nil {
		return false
	}
	guard := s.guard()
	if guard == 0 && len(s.children()) > 0 {
		return false
	}
	s.orphaned = guard == 0
	s.signal(syscall.SIGKILL)
	return true
}

// hit kills a child of whoever works on a host.
func hit(h *island, which func(*start) int) bool {
	s := h.victim()
	if s == nil {
		return false
	}
	pid := which(s)
	return pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil
}

// frozen lets a child stand still for a while, or until its parent has ended.
func (w *world) frozen(h *island, which func(*start) int, d time.Duration) bool {
	s := h.victim()
	if s == nil {
		return false
	}
	pid := which(s)
	if pid == 0 || syscall.Kill(pid, syscall.SIGSTOP) != nil {
		return false
	}
	select {
	case <-s.ended:
	case <-time.After(d):
	}
	_ = syscall.Kill(pid, syscall.SIGCONT) // it may be gone
	return true
}

// signaled is a server that is one process, which can be told to stand still.
type signaled interface {
	Signal(sig syscall.Signal) error
}

func (w *world) toServer(s signaled, sig syscall.Signal) {
	if err := s.Signal(sig); err != nil {
		w.violate("machine", "%s to the server: %v", sig, err)
	}
}

func (w *world) killServer(_ *island, r *rand.Rand) bool {
	if w.server == nil {
		return false
	}
	sig := syscall.SIGKILL
	if _, one := w.server.(signaled); !one {
		sig = syscall.SIGQUIT // to PostgreSQL, which is many processes: at once, too
	}
	w.server.Stop(sig)
	time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
	if err := w.server.Start(); err != nil {
		w.violate("machine", "start the server again: %v", err)
	}
	return true
}
