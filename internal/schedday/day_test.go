package schedday_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onerun-dev/onerun/internal/pgbed"
)

const instanceEnv = "ONERUN_TEST_DAY"

var bed = pgbed.New("/dev/shm", "")

func TestMain(m *testing.M) {
	if text := os.Getenv(instanceEnv); text != "" {
		os.Exit(instance(text))
	}
	code := func() int {
		defer bed.Close()
		return m.Run()
	}()
	os.Exit(code)
}

// day is a part of a day that is hard on three instances.
type day struct {
	t      *testing.T
	r      *rand.Rand
	seed   uint64
	plan   plan
	clock  *dayClock
	server *pgbed.Server
	net    *pgbed.Proxy
	until  time.Time
	three  [3]*exec.Cmd
	files  [3]file

	edited, everywhere time.Time // the first, and the last, instance read the newer file
	harms              []harm
}

// harm is what was done to an instance.
type harm struct {
	name     string
	from, to time.Time // by the machine's clock
}

// TestDay: three instances, each a process, on one PostgreSQL go through the hours of a change of the clock, in time that runs
// 100 times as fast. They are killed and started again, frozen, told to end, given a newer file one after the other; their clocks are stepped; the server is
// frozen, and killed. In the end each slot has run once, or a row says why it hasn't; and people were told what they had to
// know. DAY_HOURS says how many hours (1.5), DAY_SEED repeats what is done to them.
func TestDay(t *testing.T) {
	hours, seed := 1.5, rand.Uint64N(1_000_000)
	if h, err := strconv.ParseFloat(os.Getenv("DAY_HOURS"), 64); err == nil {
		hours = h
	}
	if n, err := strconv.ParseUint(os.Getenv("DAY_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("DAY_SEED=%d", seed)
	jump := time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC) // New York goes forward
	if seed%2 == 1 {
		jump = time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)
	}
	long := time.Duration(hours * float64(time.Hour))
	d := &day{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0))}
	d.begin(jump.Add(-long/3-2*time.Minute), 100)
	known := d.clock.Now().Add(time.Minute) // which all instances have had the time to see
	d.until = known.Add(long)
	d.pass(2 * time.Minute)
	d.edited = known.Add(long / 2)
	for d.clock.Now().Before(d.until) {
		d.pass(time.Duration(1+d.r.IntN(8)) * time.Minute)
		if d.everywhere.IsZero() && d.clock.Now().After(d.edited) {
			d.edit()
			continue
		}
		d.harm()
	}
	d.pass(30 * time.Minute) // what was missed is told, what is dead is found, leases run out
	for n := range d.three {
		d.ends(n)
	}
	d.account(known)
}

func (d *day) begin(from time.Time, factor float64) {
	d.t.Helper()
	var err error
	if d.server, err = bed.Server("-c", "max_connections=200", "-c", "log_checkpoints=off"); err != nil {
		d.t.Fatal(err)
	}
	if d.net, err = d.server.Proxy(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(d.net.Close)
	long := 20 * time.Minute
	d.plan = plan{
		URL: d.net.URL("postgres"), Dir: d.t.TempDir(), Begin: time.Now().Round(0), Day: from, Factor: factor, Working: 10 * time.Second,
		Broken: [2]time.Time{from.Add(long), from.Add(3 * long)},
	}
	d.clock = &dayClock{plan: d.plan}
	for n := range d.three {
		d.files[n].Generation = 1
		d.start(n)
	}
}

func (d *day) name(n int) string { return fmt.Sprint("instance-", n) }

// write gives an instance its file.
func (d *day) write(n int) {
	d.t.Helper()
	text, err := json.Marshal(d.files[n])
	if err == nil {
		err = os.WriteFile(d.plan.path(d.name(n)+".new"), text, 0o600)
	}
	if err == nil {
		err = os.Rename(d.plan.path(d.name(n)+".new"), d.plan.path(d.name(n)))
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// start starts an instance, and waits until it is up.
func (d *day) start(n int) {
	d.t.Helper()
	d.write(n)
	p := d.plan
	p.Name = d.name(n)
	text, err := json.Marshal(p)
	if err != nil {
		d.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), instanceEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.three[n] = cmd
	d.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		d.t.Fatalf("%s isn't up: %q, %v", p.Name, line, err)
	}
}

func (d *day) signal(n int, sig syscall.Signal) {
	d.t.Helper()
	if err := d.three[n].Process.Signal(sig); err != nil {
		d.t.Fatalf("%s: %v", d.name(n), err)
	}
}

// ends ends an instance as its service manager does.
func (d *day) ends(n int) {
	d.t.Helper()
	d.signal(n, syscall.SIGTERM)
	if err := d.three[n].Wait(); err != nil {
		d.t.Errorf("%s ended with %v", d.name(n), err)
	}
}

// pass lets time pass, of the compressed kind.
func (d *day) pass(long time.Duration) { time.Sleep(d.clock.real(long)) }

// edit gives all instances a newer file, one after the other.
func (d *day) edit() {
	d.edited = d.clock.Now()
	for n := range d.three {
		d.files[n].Generation = 2
		d.write(n)
		d.signal(n, syscall.SIGHUP)
		d.pass(time.Duration(1+d.r.IntN(3)) * time.Minute)
	}
	d.everywhere = d.clock.Now()
}

// harm does something to an instance, or to the server.
func (d *day) harm() {
	n := d.r.IntN(len(d.three))
	h := harm{name: d.name(n), from: time.Now()}
	switch d.r.IntN(8) {
	case 0, 1:
		d.signal(n, syscall.SIGKILL)
		_ = d.three[n].Wait()
		d.pass(time.Duration(d.r.IntN(8)) * time.Minute)
		d.start(n)
	case 2:
		d.ends(n)
		d.pass(time.Duration(d.r.IntN(8)) * time.Minute)
		d.start(n)
	case 3, 4:
		d.signal(n, syscall.SIGSTOP)
		d.pass(time.Duration(1+d.r.IntN(15)) * time.Minute)
		d.signal(n, syscall.SIGCONT)
	case 5:
		d.files[n].Wrong = time.Duration(d.r.IntN(7200)-3600) * time.Second
		d.write(n)
		d.signal(n, syscall.SIGHUP)
		d.pass(time.Duration(1+d.r.IntN(8)) * time.Minute)
		d.files[n].Wrong = 0
		d.write(n)
		d.signal(n, syscall.SIGHUP)
	case 6: // nothing gets through, and nobody is told
		h.name = ""
		d.net.Pass(false, false)
		d.pass(time.Duration(1+d.r.IntN(4)) * time.Minute)
		d.net.Pass(true, true)
	case 7: // as after a loss of power
		h.name = ""
		d.server.Stop(syscall.SIGQUIT)
		d.pass(time.Duration(1+d.r.IntN(4)) * time.Minute)
		if err := d.server.Start(); err != nil {
			d.t.Fatal(err)
		}
	}
	h.to = time.Now()
	d.harms = append(d.harms, h)
}

// lines are those of a file that the instances have written.
func (d *day) lines(name string) (all [][]string) {
	d.t.Helper()
	text, err := os.ReadFile(d.plan.path(name))
	if err != nil {
		d.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		all = append(all, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return all
}

func (d *day) context() context.Context { return d.t.Context() }

// harmed reports whether something was done to an instance, or to the server, about a time.
func (d *day) harmed(name string, at time.Time) bool {
	const about = 2 * time.Second
	return slices.ContainsFunc(d.harms, func(h harm) bool {
		return (h.name == name || h.name == "") && at.After(h.from.Add(-about)) && at.Before(h.to.Add(about))
	})
}

// afterHarm reports whether something was done to anybody shortly before a time: a lease that nobody renews is over two seconds later.
func (d *day) afterHarm(at time.Time) bool {
	const after = 5 * time.Second
	return slices.ContainsFunc(d.harms, func(h harm) bool { return at.After(h.from) && at.Before(h.to.Add(after)) })
}
