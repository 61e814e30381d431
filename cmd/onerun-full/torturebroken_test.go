package main_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// breakage is a protection that is taken out of the program's source.
type breakage struct {
	file   string      // from the module's root
	change [][2]string // what stands there exactly once, and what takes its place
	fault  fault
	ttl    time.Duration
	finds  string // the kind of violation that it has to lead to
	quick  bool   // it is found at once
}

var (
	onlyKills = fault{"wrapper killed", 1, (*world).killWrapper}
	onlyCuts  = fault{"network cut", 1, func(w *world, h *island, _ *rand.Rand) bool {
		return w.inNetwork(h, w.ttl*8/5, func() { h.net.Pass(false, false) }, func() { h.net.Pass(true, true) })
	}}
)

// breakages are what the torture has to find, lest its silence mean nothing.
var breakages = map[string]breakage{
	"lock": { // a claim doesn't ask whether somebody has the lock
		file:   "store/redis/lua/claim.lua",
		change: [][2]string{{"if not reason and (l.owner ~= '' or held) then", "if not reason and held then"}},
		fault:  onlyKills, ttl: 5 * time.Second, finds: "overlap", quick: true,
	},
	"once": { // a success is executed again
		file:   "store/redis/lua/claim.lua",
		change: [][2]string{{"if r.status == 'SUCCEEDED' then reason = 'succeeded' elseif", "if r.status == 'SUCCEEDED' then reason = nil elseif"}},
		fault:  onlyKills, ttl: 5 * time.Second, finds: "again",
	},
	"lease": { // neither the wrapper nor the guard ends a job whose lease is over
		file: "lease.go",
		change: [][2]string{
			{"return ttl - LeaseMargin(ttl) - LeaseGrace(ttl, grace)", "return 10 * ttl"},
			{"return ttl - LeaseMargin(ttl) }", "return 10 * ttl }"},
		},
		fault: onlyCuts, ttl: 2 * time.Second, finds: "overlap",
	},
	"spool": { // an end that can't be delivered isn't kept: neither in the lock file, nor with its run beside it
		file: "store/hostlock/finish.go",
		change: [][2]string{
			{"if err := h.Lock.SetOutcome(filelock.NewOutcome(out)); err != nil { // matters", "if err := error(nil); err != nil { _ = filelock.NewOutcome // matters"},
			{"	s.keep(h, out)\n	}\n	return errors.Join(err, noted)", "	}\n	return errors.Join(err, noted)"},
		},
		fault: onlyCuts, ttl: 2 * time.Second, finds: "lost outcome",
	},
}

// TestBrokenBuilds: the torture of a build with one protection removed finds what that was for. The
// quickest to be found is among all tests; the others are when TORTURE_SECONDS is set.
func TestBrokenBuilds(t *testing.T) {
	t.Parallel()
	for name, b := range breakages {
		if !b.quick && os.Getenv("TORTURE_SECONDS") == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := b.build(t)
			seed := setting(t, "TORTURE_SEED", time.Now().UnixNano()%1_000_000)
			lasts := 10 * time.Second
			if b.quick {
				lasts /= 2
			}
			var seen []string
			for round := range int64(8) {
				r := tear(t, plan{
					store: "redis", bin: dir, lasts: lasts, seed: seed + round, ttl: b.ttl, pause: 500 * time.Millisecond, faults: []fault{b.fault},
				})
				if r.has(b.finds) {
					t.Logf("found in round %d of seed %d: %.600s", round+1, seed, strings.Join(r.Violations, "\n"))
					return
				}
				seen = append(seen, r.Violations...)
			}
			t.Errorf("TORTURE_SEED=%d: no %s was found in a build without its protection, only: %.3000q", seed, b.finds, seen)
		})
	}
}

// build makes the programs, with the change in the one that does the work.
func (b breakage) build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	path, err := filepath.Abs(filepath.Join("../..", b.file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := string(text)
	for _, c := range b.change {
		if n := strings.Count(broken, c[0]); n != 1 {
			t.Fatalf("%s has %q %d times, and has to have it once: name the protection as it is written now", b.file, c[0], n)
		}
		broken = strings.Replace(broken, c[0], c[1], 1)
	}
	changed, overlay := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json")
	how, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{changed: broken, overlay: string(how)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"onerun", "onerun-etcd"} { // as files: each looks for the others beside itself
		program, err := os.ReadFile(filepath.Join(bin, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), program, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-overlay", overlay, "-o", filepath.Join(dir, "onerun-full"), ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}
