package zookeeper

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/kvledger"
)

func put(key, value string) kvledger.Write { return kvledger.Write{Key: key, Value: []byte(value)} }

// commits makes a transaction that has to hold.
func commits(t testing.TB, s *space, txn kvledger.Txn) int64 {
	t.Helper()
	v, ok, err := s.Commit(soon(t), txn)
	if err != nil || !ok {
		t.Fatalf("commit: %t, %v", ok, err)
	}
	return v
}

func fails(t testing.TB, s *space, txn kvledger.Txn) {
	t.Helper()
	if _, ok, err := s.Commit(soon(t), txn); err != nil || ok {
		t.Fatalf("commit that must not hold: %t, %v", ok, err)
	}
}

func reads(t testing.TB, s *space, key string) kvledger.Entry {
	t.Helper()
	e, err := s.Read(soon(t), key)
	if err != nil {
		t.Fatal(err)
	}
	return e[0]
}

func checks(e kvledger.Entry) []kvledger.Check {
	return []kvledger.Check{{Key: e.Key, Version: e.Version}}
}

func TestCommitComparesWhatWasRead(t *testing.T) {
	t.Parallel()
	url := freshURL(sharedServer(t).Addr())
	a, b := openSpace(t, url), openSpace(t, url)
	const key = "key/default/daily/2026-09-15"
	none := reads(t, a, key)
	v := commits(t, a, kvledger.Txn{Checks: checks(none), Writes: []kvledger.Write{put(key, "1")}})
	fails(t, b, kvledger.Txn{Checks: checks(none), Writes: []kvledger.Write{put(key, "2")}})
	one := reads(t, b, key)
	if one.Version != v || string(one.Value) != "1" {
		t.Fatalf("read %+v after a commit of version %d", one, v)
	}
	commits(t, b, kvledger.Txn{Checks: checks(one), Writes: []kvledger.Write{put(key, "2"), put("run/x", "r")}})
	fails(t, a, kvledger.Txn{Checks: checks(one), Writes: []kvledger.Write{put(key, "3")}})
	// What is only checked counts as well.
	x := reads(t, a, "run/x")
	commits(t, b, kvledger.Txn{Writes: []kvledger.Write{{Key: "run/x", Delete: true}}})
	fails(t, a, kvledger.Txn{Checks: checks(x), Writes: []kvledger.Write{put("run/y", "r")}})
	if gone := reads(t, a, "run/x"); gone.Version != 0 || gone.Value != nil {
		t.Fatalf("a deleted key: %+v", gone)
	}
	absent := reads(t, a, "run/z")
	commits(t, b, kvledger.Txn{Writes: []kvledger.Write{put("run/z", "here")}})
	fails(t, a, kvledger.Txn{Checks: checks(absent), Writes: []kvledger.Write{put("run/y", "r")}})
	commits(t, a, kvledger.Txn{Checks: checks(reads(t, a, "run/none")), Writes: []kvledger.Write{put("run/y", "r")}})
}

// TestNoCommitMeetsANodeThatWasMadeAnew: a node that was removed and made again begins with version 0 again, and a check
// can name nothing but that.
func TestNoCommitMeetsANodeThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	url := freshURL(sharedServer(t).Addr())
	a, b := openSpace(t, url), openSpace(t, url)
	const key = "run/0193f0a1-b2c3-7000-8000-000000000001"
	commits(t, b, kvledger.Txn{Writes: []kvledger.Write{put(key, "first")}})
	old := reads(t, a, key)
	commits(t, b, kvledger.Txn{Writes: []kvledger.Write{{Key: key, Delete: true}}})
	sweepAll(t, b)
	if there, _, err := direct(t, sharedServer(t).Addr()).Exists(b.nodePath(key)); err != nil || there {
		t.Fatalf("the node after a sweep: %t, %v", there, err)
	}
	commits(t, b, kvledger.Txn{Writes: []kvledger.Write{put(key, "second")}})
	fails(t, a, kvledger.Txn{Checks: checks(old), Writes: []kvledger.Write{put(key, "third")}})
	if e := reads(t, b, key); string(e.Value) != "second" {
		t.Fatalf("read %q", e.Value)
	}
}

// sweepAll sweeps until nothing is left behind.
func sweepAll(t testing.TB, s *space) {
	t.Helper()
	z := direct(t, s.servers[0])
	for ctx := soon(t); ; {
		left := 0
		for i := range goneShards {
			of := fmt.Sprintf("%x", i)
			if _, err := s.sweepShard(ctx, of); err != nil {
				t.Fatal(err)
			}
			notes, _, err := z.Children(s.at("gone", of))
			if err != nil {
				t.Fatal(err)
			}
			left += len(notes)
		}
		if left == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("there is always something left")
		case <-time.After(50 * time.Millisecond): // by the server's clock, a moment has to pass
		}
	}
}

func TestMortalKeysGoByTheServersClock(t *testing.T) {
	t.Parallel()
	url := freshURL(sharedServer(t).Addr())
	a, b := openSpace(t, url), openSpace(t, url)
	const key = "life/default/job%2Fdaily"
	mortal := kvledger.Write{Key: key, Value: []byte("me"), TTL: 2 * time.Second}
	begun := time.Now()
	commits(t, a, kvledger.Txn{Checks: checks(reads(t, a, key)), Writes: []kvledger.Write{mortal}})
	first := reads(t, b, key)
	if first.Version == 0 {
		t.Fatal("it is gone at once")
	}
	for ctx := soon(t); reads(t, b, key).Version != 0; {
		if ctx.Err() != nil {
			t.Fatal("it stays for ever")
		}
	}
	if d := time.Since(begun); d < 2*time.Second {
		t.Fatalf("gone after %s", d)
	}
	commits(t, b, kvledger.Txn{Checks: checks(reads(t, b, key)), Writes: []kvledger.Write{mortal}})
	fails(t, a, kvledger.Txn{Checks: checks(first), Writes: []kvledger.Write{mortal}})
	if reads(t, a, key).Version == 0 {
		t.Fatal("put again, it isn't there")
	}
}

func TestRangeIsInTheOrderOfKeys(t *testing.T) {
	t.Parallel()
	url := freshURL(sharedServer(t).Addr())
	s := openSpace(t, url)
	var keys []string
	for _, ns := range []string{"default", "def", "def-ault", "def.x"} {
		for i := range 7 {
			at := fmt.Sprintf("%017d", 1764540123456789+int64(i)*[]int64{1, 1000, 2_000_000, 40_000_000_000}[i%4])
			keys = append(keys, "time/"+ns+"/"+at+"/0193f0a1-b2c3-7000-8000-00000000000"+fmt.Sprint(i))
		}
		keys = append(keys, "held/"+ns+"/job%2Fa", "held/"+ns+"/job%2Fa-b", "lock/"+ns+"/job%2Fb", "lock/"+ns+"/job%2Fa", "lock/"+ns+"/key%2Fa%3A1")
	}
	keys = append(keys, "other/a", "other/a/b", "other/a-b", "other/a%/c", "other/abcdefghijklm", "other/abcdefghijkl", "other/abcd", "other/abcd.")
	for some := range slices.Chunk(keys, 20) {
		var txn kvledger.Txn
		for _, k := range some {
			txn.Writes = append(txn.Writes, put(k, k))
		}
		commits(t, s, txn)
	}
	slices.Sort(keys)
	for _, c := range []struct{ from, to string }{
		{"", "~"},
		{"time/default/", "time/default0"},
		{"time/def/", "time/def0"},
		{"time/", "time0"},
		{keys[len(keys)-10], "~"},
		{"time/default/01764540123", "time/default/01764540163456790"},
		{"lock/default/", "lock/default0"},
		{"held/def/job%2Fa", "held/def/job%2Fa-b"},
		{"other/a", "other/abcd."},
		{"nothing/", "nothing0"},
		{keys[3] + "\x00", "time0"},
	} {
		var want []string
		for _, k := range keys {
			if c.from <= k && k < c.to {
				want = append(want, k)
			}
		}
		for _, limit := range []int{1, 3, kvledger.MaxRange} {
			expected := want[:min(limit, len(want))]
			got, err := s.Range(soon(t), c.from, c.to, limit)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, e := range got {
				found = append(found, e.Key)
				if string(e.Value) != e.Key || e.Version == 0 {
					t.Errorf("entry %+v", e)
				}
			}
			if !slices.Equal(found, expected) {
				t.Errorf("from %q to %q, limit %d:\n got %q\nwant %q", c.from, c.to, limit, found, expected)
			}
		}
	}
}
