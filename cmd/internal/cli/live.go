package cli

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/onerun-dev/onerun"
)

// liveEvery is how often what a job prints is shown to those who look at it while it runs.
const liveEvery = time.Second

// tellOutput shows what the job prints, from a second on, until the function that it returns
// is called. A store that is slow is asked less often, so that it spends no more than
// a tenth of its time on that.
func (x *execution) tellOutput(ctx context.Context, o *onerun.Owner) (stop func()) {
	if x.output.plan.Keep == 0 || o.Lease().RunID == "" || unclaimed(o.Lease()) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a job that is being stopped still prints
	var mu sync.Mutex                                             // held while the store is being told, and before the timer is there
	mu.Lock()
	defer mu.Unlock()
	var timer *time.Timer
	told := int64(0)
	timer = time.AfterFunc(liveEvery, func() {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		if out := x.printed(o, true); out != nil && out.Total != told {
			err := o.Report(ctx, onerun.Progress{Output: out})
			switch {
			case err == nil:
				told = out.Total
			case errors.Is(err, onerun.ErrLost):
				return
			}
		}
		timer.Reset(max(liveEvery, 10*time.Since(began)))
	})
	return func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		timer.Stop()
	}
}
