package kvledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/onerun-dev/onerun"
)

// tx is one decision: what was read for it, and what it changes. Its commit holds only if
// nothing that was read has changed.
type tx struct {
	ctx    context.Context
	l      *Ledger
	now    time.Time
	seen   map[string]Entry
	trips  int // round trips that were made to read
	writes map[string]Write
	listed map[string][]string // of a run that is written: its keys of listings among the writes
	failed error               // the first record that could not be written down
}

// errAgain: what was read has changed before it was decided on.
var errAgain = errors.New("again")

// attempts is how often a decision is made anew because others were faster. Each time somebody
// was: so many in a row don't happen by chance.
const attempts = 100

// decide runs f on what is there until its commit holds. warm is what this client knows to be in
// the store, as far as nobody else has changed it.
func (l *Ledger) decide(ctx context.Context, what string, warm map[string]Entry, f func(t *tx) error) error {
	if err := ctx.Err(); err != nil {
		return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: what, Err: context.Cause(ctx)}
	}
	if err := l.begin(ctx); err != nil {
		return err
	}
	return l.retry(ctx, what, warm, f)
}

func (l *Ledger) retry(ctx context.Context, what string, warm map[string]Entry, f func(t *tx) error) error {
	for i := range attempts {
		t := &tx{ctx: ctx, l: l, seen: map[string]Entry{}, writes: map[string]Write{}, listed: map[string][]string{}}
		if i == 0 {
			for k, e := range warm {
				t.seen[k] = e
			}
		}
		err := f(t)
		if !errors.Is(err, errAgain) {
			return err
		}
		if err := pause(ctx, i); err != nil {
			return &onerun.StoreError{Kind: onerun.ErrUnavailable, What: what, Err: err}
		}
	}
	return &onerun.StoreError{
		Kind: onerun.ErrUnavailable, What: what, Do: "try again",
		Err: fmt.Errorf("others changed the same keys %d times in a row while this was decided", attempts),
	}
}

// pause waits before the next try, for a random time that grows, so that those who contend
// don't meet again.
func pause(ctx context.Context, tries int) error {
	if tries == 0 {
		return nil
	}
	most := min(time.Millisecond<<min(tries, 6), 50*time.Millisecond)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// clock asks for the time, after what it has to be later than was read.
func (t *tx) clock() (err error) {
	now, err := t.l.space.Now(t.ctx)
	t.now = now.UTC().Truncate(time.Microsecond)
	return err
}

// read brings keys in, those that aren't yet, in one round trip.
func (t *tx) read(keys ...string) error {
	var missing []string
	for _, k := range keys {
		if _, has := t.seen[k]; !has && !slices.Contains(missing, k) {
			missing = append(missing, k)
		}
	}
	for some := range slices.Chunk(missing, MaxOps) {
		t.trips++
		entries, err := t.l.space.Read(t.ctx, some...)
		if err != nil {
			return err
		}
		for _, e := range entries {
			t.seen[e.Key] = e
		}
	}
	return nil
}

// load gives the record of a key: as this transaction has changed it, else as it was read; nil:
// there is none.
func load[T any](t *tx, key string) (*T, error) {
	if w, ok := t.writes[key]; ok {
		if w.Delete {
			return nil, nil
		}
		return decode[T](key, w.Value)
	}
	if err := t.read(key); err != nil {
		return nil, err
	}
	if e := t.seen[key]; e.Version != 0 {
		return decode[T](key, e.Value)
	}
	return nil, nil
}

func decode[T any](key string, value []byte) (*T, error) {
	v := new(T)
	err := json.Unmarshal(value, v)
	if c, ok := any(v).(interface{ sound() bool }); err == nil && ok && !c.sound() {
		err = errors.New("it is JSON, and no record of this kind")
	}
	if err != nil {
		return nil, &onerun.StoreError{Kind: onerun.ErrIO, What: "read the record", Path: key, Err: err, Do: "somebody else has written it: look at it, and restore it from a backup"}
	}
	return v, nil
}

// put writes a record down. Its errors come out at the commit.
func (t *tx) put(key string, record any) { t.write(Write{Key: key}, record, MaxValue) }

func (t *tx) putMortal(key string, record any, ttl time.Duration) {
	t.write(Write{Key: key, TTL: ttl}, record, MaxValue)
}

func (t *tx) write(w Write, record any, most int) {
	key := w.Key
	b, err := json.Marshal(record)
	switch {
	case err != nil:
		err = &onerun.StoreError{Kind: onerun.ErrInternal, What: "write the record", Path: key, Err: err}
	case len(b) > most:
		err = fmt.Errorf("%w: what is to be kept takes %d KiB, and a record of this store has room for %d: use fewer or shorter labels and texts", onerun.ErrUsage, len(b)>>10, most>>10)
	}
	if t.failed == nil {
		t.failed = err
	}
	w.Value = b
	t.writes[key] = w
}

func (t *tx) putText(key, text string) { t.writes[key] = Write{Key: key, Value: []byte(text)} }

func (t *tx) delete(key string) { t.writes[key] = Write{Key: key, Delete: true} }

// commit makes the changes, if all that was read is as it was; else the result is errAgain. It
// gives what the store has now of the keys that were written or read, if the store says so.
func (t *tx) commit(step string) (now map[string]Entry, err error) {
	if t.failed != nil {
		return nil, t.failed
	}
	var txn Txn
	for k, e := range t.seen {
		txn.Checks = append(txn.Checks, Check{Key: k, Version: e.Version})
	}
	for k, w := range t.writes {
		if old, read := t.seen[k]; w.Delete && read && old.Version == 0 {
			continue // it isn't there
		}
		txn.Writes = append(txn.Writes, w)
	}
	slices.SortFunc(txn.Checks, func(a, b Check) int { return compare(a.Key, b.Key) })
	slices.SortFunc(txn.Writes, func(a, b Write) int { return compare(a.Key, b.Key) })
	if len(txn.Checks) > MaxOps || len(txn.Writes) > MaxOps {
		return nil, &onerun.StoreError{Kind: onerun.ErrInternal, What: step, Err: fmt.Errorf("a transaction of %d checks and %d writes is too large", len(txn.Checks), len(txn.Writes))}
	}
	t.l.hook(step)
	version, ok, err := t.l.space.Commit(t.ctx, txn)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errAgain
	case version == 0:
		return nil, nil
	}
	now = map[string]Entry{}
	for k, e := range t.seen {
		now[k] = e
	}
	for _, w := range txn.Writes {
		if w.Delete {
			now[w.Key] = Entry{Key: w.Key}
		} else {
			now[w.Key] = Entry{Key: w.Key, Value: w.Value, Version: version}
		}
	}
	return now, nil
}

// sure reports whether all that was read was so at one moment: it was read at once, or is the
// same when it is read at once now.
func (t *tx) sure() error {
	if t.trips < 2 {
		return nil
	}
	keys := make([]string, 0, len(t.seen))
	for k := range t.seen {
		keys = append(keys, k)
	}
	entries, err := t.l.space.Read(t.ctx, keys...)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Version != t.seen[e.Key].Version {
			return errAgain
		}
	}
	return nil
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
