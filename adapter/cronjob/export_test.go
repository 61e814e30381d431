package cronjob

import (
	"time"

	"github.com/robfig/cron/v3"
)

// WithNow replaces the clock of the fires.
func WithNow(now func() time.Time) Option { return func(f *fires) { f.now = now } }

// Latest is the slot of a fire.
func Latest(at cron.Schedule, now time.Time) (time.Time, error) {
	return (&slots{at: at}).latest(now)
}
