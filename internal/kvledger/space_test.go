package kvledger_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/kvledger"
)

// space is a Space in memory, with a clock that can be moved, and with faults.
type space struct {
	t testing.TB

	mu      sync.Mutex
	clock   time.Time // moves by advance, and a little whenever it is asked for
	version int64
	keys    map[string]entry
	order   []string // of the keys

	reads, commits int
	apart          func(key string)  // called before each key that is read: each at a moment of its own
	backward       bool              // the last one is read first
	ranged         func(from string) // called before each Range
	// Of each commit that would hold: whether a check fails all the same, and whether its
	// reply is lost after it was made.
	fault func(n int, t kvledger.Txn) (conflict, lost bool)
}

type entry struct {
	kvledger.Entry
	dies   time.Time // zero: never
	mortal bool
}

func newSpace(t testing.TB) *space { return &space{t: t, keys: map[string]entry{}, clock: time.Now()} }

func (s *space) Close() error { return nil }

func (s *space) now() time.Time { return s.clock }

func (s *space) Now(ctx context.Context) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(time.Microsecond)
	return s.now(), ctx.Err()
}

func (s *space) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = s.clock.Add(d)
}

// get is a key as it is now: those whose time has run out are gone.
func (s *space) get(key string) (kvledger.Entry, bool) {
	e, ok := s.keys[key]
	if ok && !e.dies.IsZero() && !s.now().Before(e.dies) {
		s.remove(key)
		ok = false
	}
	return e.Entry, ok
}

func (s *space) remove(key string) {
	delete(s.keys, key)
	if i, found := slices.BinarySearch(s.order, key); found {
		s.order = slices.Delete(s.order, i, i+1)
	}
}

var segment = regexp.MustCompile(`^[A-Za-z0-9_~%-][A-Za-z0-9._~%-]{0,159}$`)

// sound checks what the contract says of keys: another Space relies on that.
func (s *space) sound(key string) {
	for seg := range strings.SplitSeq(key, "/") {
		if !segment.MatchString(seg) || len(key) > 700 {
			s.t.Errorf("key %q of %d bytes: segment %q is none", key, len(key), seg)
		}
	}
}

func (s *space) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "space", Err: context.Cause(ctx)}
	}
	s.mu.Lock()
	return nil
}

func (s *space) Read(ctx context.Context, keys ...string) ([]kvledger.Entry, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.reads++
	if len(keys) > kvledger.MaxOps {
		s.t.Errorf("a read of %d keys", len(keys))
	}
	out := make([]kvledger.Entry, len(keys))
	for i := range keys {
		if s.backward {
			i = len(keys) - 1 - i
		}
		k := keys[i]
		if s.apart != nil {
			s.mu.Unlock()
			s.apart(k)
			s.mu.Lock()
		}
		s.sound(k)
		e, ok := s.get(k)
		if !ok {
			e = kvledger.Entry{Key: k}
		}
		out[i] = e
	}
	return out, nil
}

func (s *space) Range(ctx context.Context, from, to string, limit int) ([]kvledger.Entry, error) {
	if s.ranged != nil {
		s.ranged(from)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	s.reads++
	if limit < 1 || limit > kvledger.MaxRange {
		s.t.Errorf("a range of at most %d", limit)
	}
	i, _ := slices.BinarySearch(s.order, from)
	j, _ := slices.BinarySearch(s.order, to)
	var keys []string
	for _, k := range slices.Clone(s.order[i:max(i, j)]) {
		if _, ok := s.get(k); ok {
			keys = append(keys, k)
		}
	}
	var out []kvledger.Entry
	for _, k := range keys[:min(limit, len(keys))] {
		out = append(out, s.keys[k].Entry)
	}
	return out, nil
}

var errReply = &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "space", Err: errors.New("the reply is lost")}

func (s *space) Commit(ctx context.Context, t kvledger.Txn) (int64, bool, error) {
	if err := s.enter(ctx); err != nil {
		return 0, false, err
	}
	defer s.mu.Unlock()
	s.measure(t)
	for _, c := range t.Checks {
		if e, _ := s.get(c.Key); e.Version != c.Version {
			return 0, false, nil
		}
	}
	s.commits++
	lost := false
	if s.fault != nil && len(t.Checks) > 0 {
		var conflict bool
		if conflict, lost = s.fault(s.commits, t); conflict {
			return 0, false, nil
		}
	}
	s.version++
	for _, w := range t.Writes {
		if w.Delete {
			s.remove(w.Key)
			continue
		}
		e := entry{Entry: kvledger.Entry{Key: w.Key, Value: slices.Clone(w.Value), Version: s.version}, mortal: w.TTL > 0}
		if w.TTL > 0 {
			e.dies = s.now().Add(w.TTL)
		}
		if old, ok := s.keys[w.Key]; ok && old.mortal != e.mortal {
			s.t.Errorf("key %s was mortal: %t, and is now: %t", w.Key, old.mortal, e.mortal)
		}
		if i, found := slices.BinarySearch(s.order, w.Key); !found {
			s.order = slices.Insert(s.order, i, w.Key)
		}
		s.keys[w.Key] = e
	}
	if lost {
		return 0, false, errReply
	}
	return s.version, true, nil
}

// measure checks a transaction against the limits.
func (s *space) measure(t kvledger.Txn) {
	size, mortal, written := 0, 0, map[string]bool{}
	for _, w := range t.Writes {
		s.sound(w.Key)
		if size += len(w.Key) + len(w.Value); len(w.Value) > kvledger.MaxValue {
			s.t.Errorf("key %s has %d bytes", w.Key, len(w.Value))
		}
		if w.TTL > 0 {
			mortal++
		}
		if written[w.Key] {
			s.t.Errorf("key %s is written twice", w.Key)
		}
		written[w.Key] = true
	}
	if size > kvledger.MaxTxn || len(t.Checks) > kvledger.MaxOps || len(t.Writes) > kvledger.MaxOps || mortal > 1 {
		s.t.Errorf("a transaction of %d bytes, %d checks, %d writes, %d of them mortal", size, len(t.Checks), len(t.Writes), mortal)
	}
}

// open is a client of a space.
func open(s kvledger.Space) *kvledger.Ledger {
	return kvledger.New(s, kvledger.Options{Name: "a space in memory"})
}

func claim(job, partition string) onerun.Claim {
	return onerun.Claim{
		Namespace: "ns", Job: job, Partition: partition, Lock: onerun.JobLock(job), Owner: onerun.NewID(), RunID: onerun.NewRunID(time.Now()),
		Policy: onerun.Policy{TTL: time.Minute, OnCrash: onerun.CrashAuto},
	}
}

func granted(t testing.TB, s onerun.Store, c onerun.Claim) onerun.Grant {
	t.Helper()
	g, err := s.Claim(t.Context(), c)
	if err != nil {
		t.Fatal(fmt.Errorf("claim: %w", err))
	}
	return g
}
