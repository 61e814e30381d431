// Package fuzzbound holds what a fuzz target calls to what an input of its size may cost: whatever somebody else has
// written, reading it ends in a moment and in little memory. Go's fuzzing by itself finds crashes alone.
package fuzzbound

import (
	"runtime"
	"runtime/metrics"
	"syscall"
	"time"
)

const (
	// most is processor time, so that a busy machine fails nothing, and many times what any input takes under the race
	// detector: what goes over it hangs.
	most = 10 * time.Second
	// Bytes that may be allocated, all in all, freed ones included.
	atLeast = 16 << 20
	perByte = 2 << 10
)

// TB is what is needed of a test: a package that is no test doesn't import package testing.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Run calls f, which reads an input of that many bytes, and fails the test if that takes too long or too much memory.
func Run(t TB, size int, f func()) {
	t.Helper()
	bytes, began := allocated(), spent(t)
	f()
	if took := spent(t) - began; took > most {
		t.Errorf("an input of %d bytes takes %s of processor time", size, took)
	}
	if n := allocated() - bytes; n > atLeast+perByte*uint64(size) {
		t.Errorf("an input of %d bytes takes %d MiB of memory", size, n>>20)
	}
}

// allocated is what this process has allocated so far.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	return s[0].Value.Uint64()
}

// spent is the processor time that this process has taken so far.
func spent(t TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Errorf("processor time: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
