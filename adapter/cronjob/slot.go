package cronjob

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/schedule"
)

// longestGap is how far back a slot is looked for: a schedule of cron's that has none in five
// years has none.
const longestGap = 6 * 366 * 24 * time.Hour

// slots makes keys of the times at which a schedule fires. cron doesn't tell a job which time it
// is fired for, so that is found again from the schedule.
type slots struct {
	at   cron.Schedule
	in   *time.Location
	spec schedule.Spec
}

// check makes a key before there is need of one, so that a mistake is found where it was made.
func (s *slots) check(now time.Time) error {
	if _, every := s.at.(cron.ConstantDelaySchedule); every {
		return fmt.Errorf("%w: @every counts from the start of each process, so its fires have no slot to be keyed by; write a cron expression", onerun.ErrUsage)
	}
	if s.spec.At != "" || s.in == nil {
		return fmt.Errorf("%w: Keyed takes the location of the Cron, and the instant At from the slot", onerun.ErrUsage)
	}
	next := s.at.Next(now.In(s.in))
	if next.IsZero() {
		return fmt.Errorf("%w: the schedule never fires", onerun.ErrUsage)
	}
	return s.nameSlot(&onerun.Job{}, next)
}

// name gives the job the key of a fire.
func (s *slots) name(job *onerun.Job, now time.Time) error {
	slot, err := s.latest(now.In(s.in))
	if err != nil {
		return err
	}
	return s.nameSlot(job, slot)
}

func (s *slots) nameSlot(job *onerun.Job, slot time.Time) error {
	spec := s.spec
	spec.At = slot.UTC().Format(time.RFC3339)
	named, err := spec.Resolve(slot)
	if err != nil {
		return fmt.Errorf("%w: %w", onerun.ErrUsage, err)
	}
	job.Partition, job.BusinessDate, job.ScheduledAt = named.Partition, named.BusinessDate, named.ScheduledAt
	if job.Partition == "" {
		job.Partition = spec.At
	}
	return nil
}

// latest is the last time of the schedule that is not after now. A schedule only says what comes
// next, so it is asked from further and further back.
func (s *slots) latest(now time.Time) (time.Time, error) {
	for back := time.Second; back < longestGap; back *= 2 {
		slot := s.at.Next(now.Add(-back))
		if slot.IsZero() || slot.After(now) {
			continue
		}
		for {
			next := s.at.Next(slot)
			if next.IsZero() || next.After(now) {
				return slot, nil
			}
			if !next.After(slot) {
				return time.Time{}, fmt.Errorf("%w: the schedule says that %s comes after %s", onerun.ErrUsage, next, slot)
			}
			slot = next
		}
	}
	return time.Time{}, fmt.Errorf("%w: the schedule has no time before %s", onerun.ErrUsage, now)
}
