package main_test

import (
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/cutnet"
)

// TestThreeHosts: on each store three hosts start the same keyed jobs again and again, several at a
// time, while a nemesis harms their processes, networks, disks, lock files and server, and the
// server's clock, and operators press what they have. What follows is checked by what the jobs
// themselves have written, by the fence's tables, by the ledger, and by a search for an order of all
// that the starts and the operators were told that the rules allow.
//
// Each host has lock files of its own and its own way to the server, so none can prove anything
// about another's processes; on the embedded store they are three users of one machine. Of the
// exceptions of docs/guarantees.md only one is let happen, and told apart: a wrapper that is killed
// as its job begins.
//
// TORTURE_SECONDS says for how long, TORTURE_SEED repeats the choices of a run, not its moments.
// TORTURE_REPORT names a file that gets a line of JSON of each store.
func TestThreeHosts(t *testing.T) {
	t.Parallel()
	for name := range tortured {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seconds, seed := setting(t, "TORTURE_SECONDS", 22), setting(t, "TORTURE_SEED", time.Now().UnixNano()%1_000_000)
			t.Logf("TORTURE_SEED=%d TORTURE_SECONDS=%d", seed, seconds)
			p := plan{store: name, bin: bin, lasts: time.Duration(seconds) * time.Second, seed: seed, ttl: 5 * time.Second, pause: 1500 * time.Millisecond}
			least := 1
			if seconds >= 60 { // and nothing else is tested meanwhile
				p.pause, least = 500*time.Millisecond, 10
				if name == "sqlite" { // which answers at once
					p.pause /= 2
				}
			}
			r := tear(t, p)
			for _, v := range r.Violations {
				t.Error(v)
			}
			if r.Executions < least {
				t.Errorf("%d executions: too few to say anything", r.Executions)
			}
			if t.Failed() {
				t.Logf("again: TORTURE_SEED=%d TORTURE_SECONDS=%d go test -run 'TestThreeHosts/%s$' ./cmd/onerun-full", seed, seconds, name)
			}
			r.write(t)
		})
	}
}

// tortured start a server (nil: the store has none) and give the URL of a store on it.
var tortured = map[string]func(t *testing.T) (daemon, string, error){
	"sqlite": func(t *testing.T) (daemon, string, error) {
		return nil, "sqlite:" + filepath.Join(t.TempDir(), "store"), nil
	},
	"postgres": func(t *testing.T) (daemon, string, error) {
		s := server(t)
		return s, s.URL("postgres", "schema", "one"), nil
	},
	"mysql": otherStores["mysql"], "redis": otherStores["redis"], "etcd": otherStores["etcd"], "zookeeper": otherStores["zookeeper"],
}

// plan is one run of the torture.
type plan struct {
	store  string
	bin    string // where the programs are
	lasts  time.Duration
	seed   int64
	ttl    time.Duration
	pause  time.Duration // between two starts of a lane, at most
	faults []fault       // nil: all
}

func tear(t *testing.T, p plan) *report {
	t.Helper()
	w := newWorld(t, p)
	end := time.Now().Add(p.lasts)
	var all sync.WaitGroup
	for i, h := range w.hosts {
		for lane := range 3 {
			all.Go(func() { w.live(h, lane, end, w.dice(10*i+lane)) })
		}
	}
	all.Go(func() { w.harm(end, w.dice(99)) })
	if p.faults == nil {
		all.Go(func() { w.operate(end, w.dice(98)) })
	}
	all.Wait()
	if w.heal() {
		w.check()
	}
	return w.tell()
}

func setting(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// world is the server, and the hosts around it.
type world struct {
	plan
	t       *testing.T
	begun   time.Time
	server  daemon     // nil: the store is embedded
	clock   *fakeClock // of the server; nil: it can't be stepped
	hosts   []*island
	witness string
	tables  *tables // of the commits behind a fence; nil: the store has none

	mu     sync.Mutex
	done   map[int64]bool // keys that nobody will start again by himself
	key    int64          // the first that isn't
	starts []*start       // that have ended
	acts   []act          // of operators
	report report
}

// island is a host with its network.
type island struct {
	*host
	n     int
	net   *cutnet.Proxy // nil: the store is embedded
	small *smallDisk    // that its lock files are on; nil: they are where the rest is

	mu      sync.Mutex
	now     []*start // that run
	spoiled []int64  // when its lock files were deleted or written over
}

func (w *world) dice(n int) *rand.Rand { return rand.New(rand.NewPCG(uint64(w.seed), uint64(n))) }

func newWorld(t *testing.T, p plan) *world {
	t.Helper()
	w := &world{plan: p, t: t, witness: filepath.Join(t.TempDir(), "witness"), done: map[int64]bool{}}
	w.report = report{Store: p.store, Seed: p.seed, Faults: map[string]int{}, Operators: map[string]int{}, Reasons: map[string]int{}}
	s, at, err := tortured[p.store](t)
	if err != nil {
		t.Fatal(err)
	}
	w.server, w.clock = s, stepped(t, s)
	if err := os.WriteFile(w.witness, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w.tables, err = openTables(at); err == nil {
		err = w.tables.create()
	}
	if err != nil {
		t.Fatal(err)
	}
	store, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		w.hosts = append(w.hosts, w.newIsland(i, *store))
	}
	w.begun = time.Now()
	return w
}

func (w *world) newIsland(i int, way url.URL) *island {
	w.t.Helper()
	h := &island{n: i}
	switch {
	case w.server == nil && i > 0: // on the same machine
		h.host, h.small = w.hosts[0].host, w.hosts[0].small
		return h
	case w.server != nil:
		var err error
		if h.net, err = cutnet.New(way.Host); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(h.net.Close)
		way.Host = h.net.Addr()
	}
	h.host = newHost(w.t, way.String())
	h.env = append(h.env, "PATH="+w.bin+":/usr/local/bin:/usr/bin:/bin", workerURL+"="+way.String(), workerWitness+"="+w.witness)
	if w.server == nil || i == 2 {
		h.small = newSmallDisk(w.t, h.path("locks"))
	}
	return h
}

// next is the first key that isn't known to be settled.
func (w *world) next() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.key
}

func (w *world) settled(key int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.done[key] = true; w.done[w.key]; {
		delete(w.done, w.key)
		w.key++
	}
}
