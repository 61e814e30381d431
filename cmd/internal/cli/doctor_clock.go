package cli

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/onerun-dev/onerun"
)

// clockSlack is by how much the newest time in the ledger may be ahead: a clock that is
// kept in step moves by less.
const clockSlack = 2 * time.Second

// clock looks at this host's clock, from which dates and tokens come.
func (d *doctor) clock(ctx context.Context) {
	now := time.Now()
	told := "now " + clock(now)
	if boot, err := bootTime(); err == nil {
		told += ", booted " + clock(boot)
		if boot.After(now.Add(clockSlack)) {
			d.add("clock", onerun.FindingDanger, told+": the clock was set back", setClock)
		}
	}
	if newest, err := d.newest(ctx); err != nil {
		d.add("clock", onerun.FindingUnknown, err.Error(), "")
	} else if !newest.IsZero() {
		told += ", the newest time in the ledger is " + clock(newest)
		if newest.After(now.Add(clockSlack)) {
			d.add("clock", onerun.FindingDanger, told+": the clock is "+span(newest.Sub(now))+" behind, so dates may be computed again that have run, or not at all", setClock)
		}
	}
	d.fine("clock", told)
	d.synchronised()
}

const setClock = "set the clock, and have it kept in step (systemd-timesyncd, chrony)"

// newest is the newest time of the ledger: of the run that was started last, or, of those
// that ended, whichever of the last few did so last.
func (d *doctor) newest(ctx context.Context) (newest time.Time, err error) {
	if !d.ledger {
		return newest, nil
	}
	ctx, cancel := d.env.bound(ctx)
	defer cancel()
	runs, err := d.store.Runs(ctx, onerun.Query{Namespace: d.env.Namespace, Limit: lastRuns})
	for _, r := range runs {
		for _, t := range []time.Time{r.StartedAt, r.FinishedAt} {
			if t.After(newest) {
				newest = t
			}
		}
	}
	return newest, err
}

// synchronised asks the kernel whether somebody keeps its clock in step (adjtimex(2)).
func (d *doctor) synchronised() {
	const check = "clock-in-step"
	var t unix.Timex // no mode: it only reads
	_, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		d.add(check, onerun.FindingUnknown, "the kernel doesn't tell: "+err.Error(), "")
	case t.Status&unix.STA_UNSYNC != 0:
		d.add(check, onerun.FindingWarning, "nothing keeps this host's clock in step (adjtimex: unsynchronised)", "start systemd-timesyncd or chrony")
	default:
		d.add(check, onerun.FindingOK, "the kernel's clock is synchronised", "")
	}
}

var errNoBoot = errors.New("/proc/stat doesn't tell when the host was booted")

// bootTime is when the host was booted, by today's clock (proc_stat(5), btime).
func bootTime() (time.Time, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, err
	}
	for line := range strings.Lines(string(text)) {
		if s, ok := strings.CutPrefix(line, "btime "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
			return time.Unix(n, 0), err
		}
	}
	return time.Time{}, errNoBoot
}
