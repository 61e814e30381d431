package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/procfs"
	"github.com/onerun-dev/onerun/store/memory"
)

// guardHelper is argv[0] of this binary as a guard.
const guardHelper = "test guard"

// reports is the descriptor at which an owner has what its guards report to. It is to them as a lock
// is: they share it with the owner, and the job doesn't.
const reports = 3

// mark is what a test's jobs carry in their environment, and what else runs doesn't.
const mark = "PROCESS_TEST_MARK"

// ownerSpec is what an owner is told: a wrapper with a guard.
type ownerSpec struct {
	Job            string        // for the shell
	TTL            time.Duration // of a lease that the guard is told of; 0: of none
	Timeout, Grace time.Duration
	Hold           bool
	Record         time.Duration
}

// cutStore is a store that can't be reached from SIGUSR1 until SIGUSR2.
type cutStore struct {
	*memory.Store
	cut atomic.Bool
}

var errCut = &onerun.StoreError{Kind: onerun.ErrUnavailable, What: "the store", Err: errors.New("cut off")}

func (s *cutStore) Heartbeat(ctx context.Context, l onerun.Lease) (onerun.Beat, error) {
	if s.cut.Load() {
		return onerun.Beat{}, errCut
	}
	return s.Store.Heartbeat(ctx, l)
}

func (s *cutStore) Finish(ctx context.Context, l onerun.Lease, o onerun.Outcome) error {
	if s.cut.Load() {
		return errCut
	}
	return s.Store.Finish(ctx, l, o)
}

func (s *cutStore) heed() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, unix.SIGUSR1, unix.SIGUSR2)
	go func() {
		for sig := range signals {
			s.cut.Store(sig == unix.SIGUSR1)
		}
	}()
}

// beOwner runs one job under a claim and under guard, as cmd/onerun does, and says how it ended.
func beOwner() (int, error) {
	var s ownerSpec
	if err := json.Unmarshal([]byte(os.Getenv(specEnv)), &s); err != nil {
		return 70, err
	}
	unix.CloseOnExec(reports)
	self, err := procfs.Self()
	if err != nil {
		return 70, err
	}
	store := &cutStore{Store: memory.New()}
	store.heed()
	x := &owning{ownerSpec: s, self: self}
	job := onerun.Job{Name: "job", Policy: onerun.Policy{TTL: s.TTL}, Grace: s.Grace, FinishWait: s.Record}
	_ = onerun.NewRunner(store, onerun.WithProcess(), onerun.WithRenewal(x.renewed)).Do(context.Background(), job, x.execute)
	x.guarding.Load().End()
	runs, err := store.Runs(context.Background(), onerun.Query{Namespace: onerun.DefaultNamespace})
	if err == nil {
		fmt.Println("recorded", runs[0].Status, runs[0].Reason)
	}
	return 0, err
}

type owning struct {
	ownerSpec
	self     procfs.Identity
	sent     atomic.Int64 // the newest, for a guard that is yet to come
	guarding atomic.Pointer[Guarding]
}

func (x *owning) renewed(_ onerun.Lease, sent time.Duration) {
	fmt.Println("sent", int64(sent))
	x.sent.Store(int64(sent))
	if g := x.guarding.Load(); g != nil {
		g.Renewed(sent)
	}
	fmt.Println("told", int64(sent))
}

func (x *owning) execute(ctx context.Context, o *onerun.Owner) error {
	owner := [2]string{mark, o.Lease().Owner}
	end, err := Run(ctx, Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", x.Job}, Env: Env(os.Environ(), map[string]string{owner[0]: owner[1]}, helperEnv, specEnv),
		Timeout: x.Timeout, Grace: x.Grace, Hold: x.Hold, Mark: owner,
		Started: func(group procfs.Identity, until Deadlines) error {
			order := GuardOrder{
				Tree: Tree{Group: group, Mark: owner, Since: x.self.StartTicks}, Wrapper: x.self,
				Deadlines: until, Lease: GuardLease{TTL: x.TTL, Grace: x.Grace}, Hold: x.Hold, Record: x.Record,
			}
			g := NewGuarding(func() (GuardOrder, error) {
				order := order
				order.Lease.Sent = time.Duration(x.sent.Load())
				return order, nil
			}, "/proc/self/exe", []string{guardHelper}, []int{reports})
			x.guarding.Store(g)
			g.Renewed(time.Duration(x.sent.Load()))
			return nil
		},
		Stopping: func() { x.guarding.Load().Stopping() },
	})
	fmt.Println("end", end.Cause, end.ExitCode)
	f := &onerun.Failure{ExitCode: &end.ExitCode, Err: err}
	switch {
	case end.Cause == TimedOut:
		f.Reason = onerun.ReasonTimeout
	case end.Cause == Stopped:
		f.Reason, f.Err = onerun.ReasonCanceled, context.Cause(ctx)
	case end.Signal != 0:
		f.Reason = onerun.ReasonSignal
	case end.ExitCode != 0:
		f.Reason = onerun.ReasonExit
	default:
		return nil
	}
	return f
}

// beGuard watches as cmd/onerun's guard does, and reports what it has seen.
func beGuard() (int, error) {
	signal.Ignore(unix.SIGTERM)
	report := os.NewFile(GuardFrom, "reports")
	pipe := bufio.NewReader(os.NewFile(guardPipe, "orders"))
	order, err := ReadGuardOrder(pipe)
	if err != nil {
		return 70, err
	}
	_, _ = fmt.Fprintln(report, "guard", os.Getpid())
	seen := order.Watch(pipe)
	if seen.End != GuardReleased && seen.End != GuardKilled {
		_ = unix.Kill(order.Wrapper.PID, unix.SIGKILL)
	}
	_, err = fmt.Fprintln(report, "seen", int(seen.End), int(seen.Status))
	return 0, err
}
