package filelock

import (
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
)

// BenchmarkCycle is what a lock costs a job, from the wish to start to the end.
func BenchmarkCycle(b *testing.B) {
	for _, m := range modes {
		b.Run(m.name, func(b *testing.B) { cycle(b, mustOpen(b, lockDir(b), Options{NoFlock: m.noFlock}), request(m.mode)) })
	}
	b.Run("flock, key", func(b *testing.B) {
		r := request(onerun.LockFlock)
		r.Lock = onerun.KeyLock("j:2026-09-15")
		cycle(b, mustOpen(b, lockDir(b), Options{}), r)
	})
}

func cycle(b *testing.B, d *Dir, r Request) {
	b.ReportAllocs()
	for b.Loop() {
		l, held, err := d.Acquire(b.Context(), r)
		if l == nil {
			b.Fatalf("held %+v, error %v", held, err)
		}
		code := 0
		for _, err := range []error{
			l.Write(Note{RunID: "0199466f-1c00-7000-8000-000000000000", Attempt: 1, Token: 1}),
			l.SetForking(),
			l.SetGroup(1000, 1000),
			l.SetOutcome(Outcome{Status: onerun.Succeeded, ExitCode: &code, FinishedAt: time.Now()}),
			l.Clear(),
			l.Release(),
		} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkOpen is what comes before, once in a process.
func BenchmarkOpen(b *testing.B) {
	dir := lockDir(b)
	for b.Loop() {
		d, err := Open(dir, Options{AllowNetwork: true})
		if err != nil {
			b.Fatal(err)
		}
		_ = d.Close()
	}
}

func BenchmarkRefused(b *testing.B) {
	d := mustOpen(b, lockDir(b), Options{})
	l := mustAcquire(b, d, request(onerun.LockFlock))
	if err := l.Write(Note{RunID: "run"}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		mustHeld(b, d, request(onerun.LockFlock))
	}
}

func BenchmarkLook(b *testing.B) {
	d := mustOpen(b, lockDir(b), Options{})
	l := mustAcquire(b, d, request(onerun.LockFlock))
	if err := l.Write(Note{RunID: "run"}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if s, err := d.Look("default", "job/j"); err != nil || !s.Held {
			b.Fatalf("%+v, error %v", s, err)
		}
	}
}
