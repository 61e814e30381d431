package gocronlock

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
)

// early is by how much a timer may fire before its time by the host's clock, which can be set
// back meanwhile: such a fire is still of the period that begins then.
const early = time.Second

// Option changes what Task and NewLocker make.
type Option func(*options)

type options struct {
	spec   *schedule.Spec // nil: unkeyed
	job    func(name string) onerun.Job
	report func(name string, err error)
	now    func() time.Time
}

// Keyed gives each fire a key: spec's Date or Period, which count from the fire.
func Keyed(spec schedule.Spec) Option { return func(o *options) { o.spec = &spec } }

// WithJob says how a Locker's jobs are to be claimed, by their names in gocron. Without it a job
// has that name and nothing else.
func WithJob(f func(name string) onerun.Job) Option { return func(o *options) { o.job = f } }

// WithReport tells f what gocron has no ear for: of a Locker, a claim that could not be made,
// since gocron says so only to an AfterLockError listener, and an end that could not be
// recorded, since it throws the error of Unlock away; of a Task nothing. Without it they are
// logged by slog.Default.
func WithReport(f func(name string, err error)) Option { return func(o *options) { o.report = f } }

func newOptions(opts []Option) (options, error) {
	o := options{
		job: func(name string) onerun.Job { return onerun.Job{Name: name} },
		report: func(name string, err error) {
			slog.Error("scheduled job", "job", name, "error", err)
		},
		now: time.Now,
	}
	for _, opt := range opts {
		opt(&o)
	}
	if o.spec == nil {
		return o, nil
	}
	if o.spec.At != "" || o.spec.Partition != "" || o.spec.Date == "" && o.spec.Period == "" {
		return o, fmt.Errorf("%w: Keyed needs a Date or a Period, and takes the instant from the fire", onerun.ErrUsage)
	}
	return o, o.name(&onerun.Job{}) // so that a mistake is found where it was made
}

// name gives the job the key of a fire now.
func (o *options) name(job *onerun.Job) error {
	if o.spec == nil {
		return nil
	}
	slot, err := o.spec.Resolve(o.now().Add(early))
	if err != nil {
		return fmt.Errorf("%w: %w", onerun.ErrUsage, err)
	}
	job.Partition, job.BusinessDate = slot.Partition, slot.BusinessDate
	return nil
}

// everyday reports whether an error is a skip that nobody needs to look at.
func everyday(err error) bool {
	var skip *onerun.Refusal
	return errors.As(err, &skip) && !skip.Reason.Blocked()
}
