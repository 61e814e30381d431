package cli

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
)

// The series of a text file. Each has the labels namespace and job, and nothing that grows with the runs.
const (
	textStart   = "onerun_job_last_start_timestamp_seconds"
	textFinish  = "onerun_job_last_end_timestamp_seconds"
	textTook    = "onerun_job_last_duration_seconds"
	textExit    = "onerun_job_last_exit_code"
	textFailed  = "onerun_job_last_failed"
	textSuccess = "onerun_job_last_success_timestamp_seconds"
	textRefusal = "onerun_job_last_refusal_timestamp_seconds" // and the label reason
)

// textSeries are in the order in which they are written. Of one name node_exporter wants one HELP in all files.
var textSeries = [...]struct{ name, help string }{
	{textStart, "When the attempt that ended last began, in Unix time."},
	{textFinish, "When an attempt last ended, in Unix time."},
	{textTook, "How long the attempt that ended last took."},
	{textExit, "Exit code of the attempt that ended last; none if nobody saw it."},
	{textFailed, "1 if the attempt that ended last failed or could not be recorded, else 0."},
	{textSuccess, "When an attempt last succeeded, or found nothing to do, in Unix time."},
	{textRefusal, "When a start was last refused for the reason, in Unix time."},
}

// textEOF is the last line: a file without it was cut off.
const textEOF = "# EOF"

// textReasons are the reasons for which a start is refused.
var textReasons = [...]onerun.Reason{
	onerun.RefusedRunning, onerun.RefusedStale, onerun.RefusedSucceeded, onerun.RefusedSkipped, onerun.RefusedFailed,
	onerun.RefusedPaused, onerun.RefusedRetryNotDue, onerun.RefusedLocked,
}

// textState is what a text file says: values by their series, without the labels that all have.
type textState struct {
	now    float64
	values map[string]float64
}

// textEnd is how an attempt ended.
type textEnd struct {
	start, at time.Time
	exit      *int
	well      bool
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func refusalSeries(r onerun.Reason) string {
	return fmt.Sprintf("%s,reason=%q", textRefusal, string(r))
}

// end takes the end of an attempt. Of two that ended beside each other the later one is the last, in whatever order
// they are told.
func (s *textState) end(e textEnd) {
	at := s.now
	if !e.at.IsZero() {
		at = unixSeconds(e.at)
	}
	if e.well {
		s.values[textSuccess] = max(at, s.values[textSuccess])
	}
	if at < s.values[textFinish] {
		return
	}
	for _, name := range []string{textStart, textTook, textExit} {
		delete(s.values, name)
	}
	s.values[textFinish], s.values[textFailed] = at, 1
	if e.well {
		s.values[textFailed] = 0
	}
	if !e.start.IsZero() {
		s.values[textStart] = unixSeconds(e.start)
		took := at - unixSeconds(e.start)
		if !e.at.IsZero() {
			took = e.at.Sub(e.start).Seconds() // which no step of the clock can change
		}
		s.values[textTook] = max(0, took)
	}
	if e.exit != nil {
		s.values[textExit] = float64(*e.exit)
	}
}

// refused takes a refused start.
func (s *textState) refused(r onerun.Reason, at time.Time) {
	if slices.Contains(textReasons[:], r) {
		s.values[refusalSeries(r)] = max(unixSeconds(at), s.values[refusalSeries(r)])
	}
}

// textLabels are the labels that all series of a job have.
func textLabels(namespace, job string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	return `{namespace="` + escape.Replace(namespace) + `",job="` + escape.Replace(job) + `"`
}

// text writes the state in the text format of Prometheus, version 0.0.4.
func (s *textState) text(namespace, job string) string {
	labels := textLabels(namespace, job)
	var b strings.Builder
	names := slices.Sorted(maps.Keys(s.values))
	for _, series := range textSeries {
		headed := false
		for _, name := range names {
			base, more, _ := strings.Cut(name, ",")
			if base != series.name {
				continue
			}
			if !headed {
				fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s gauge\n", series.name, series.help)
				headed = true
			}
			if more != "" {
				more = "," + more
			}
			b.WriteString(base + labels + more + "} " + strconv.FormatFloat(math.Round(s.values[name]*1000)/1000, 'f', -1, 64) + "\n")
		}
	}
	return b.String() + textEOF + "\n"
}

// readText reads back what text wrote. A file that anything is wrong with, or that is another job's, says nothing: a
// wrong time of the last success would hide that there was none.
func readText(text, namespace, job string, now time.Time) textState {
	s := textState{now: unixSeconds(now), values: map[string]float64{}}
	nothing := textState{now: s.now, values: map[string]float64{}}
	body, whole := strings.CutSuffix(text, "\n"+textEOF+"\n")
	if !whole {
		return nothing
	}
	known := map[string]bool{}
	for _, series := range textSeries {
		known[series.name] = series.name != textRefusal
	}
	for _, r := range textReasons {
		known[refusalSeries(r)] = true
	}
	labels := textLabels(namespace, job)
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(line, "# ") {
			continue
		}
		base, rest, ours := strings.Cut(line, labels)
		more, value, closed := strings.Cut(rest, "} ")
		v, err := strconv.ParseFloat(value, 64)
		_, twice := s.values[base+more]
		if !ours || !closed || !known[base+more] || twice || err != nil || !(cmp.Compare(v, 0) >= 0) || math.IsInf(v, 0) {
			return nothing
		}
		if strings.HasSuffix(base, "_timestamp_seconds") && v > s.now+textAhead { // of a clock that was wrong
			continue
		}
		s.values[base+more] = v
	}
	return s
}

// textAhead is by how much a time may lie ahead, in seconds: those of a store are by its clock.
const textAhead = 60
