package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/onerun-dev/onerun"
)

// stamp is how times are written where programs read them.
func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05.000000Z07:00") }

// stampOrNil is a time in JSON, null when there is none.
func stampOrNil(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := stamp(t)
	return &s
}

func nilIf[T comparable](v, none T) *T {
	if v == none {
		return nil
	}
	return &v
}

// runView is a run as documented: the fields of every listing.
type runView struct {
	RunID          string            `json:"run_id"`
	Key            *string           `json:"key"`
	Job            string            `json:"job"`
	Partition      *string           `json:"partition"`
	BusinessDate   *string           `json:"business_date"`
	Namespace      string            `json:"namespace"`
	Status         onerun.Status     `json:"status"`
	Attempt        int               `json:"attempt"`
	Lock           onerun.LockName   `json:"lock"`
	Worker         *string           `json:"worker"`
	Host           *string           `json:"host"`
	PID            *int              `json:"pid"`
	Token          *int64            `json:"token"`
	ScheduledAt    *string           `json:"scheduled_at"`
	StartedAt      *string           `json:"started_at"`
	FinishedAt     *string           `json:"finished_at"`
	DurationMS     *int64            `json:"duration_ms"`
	LeaseExpiresAt *string           `json:"lease_expires_at"`
	Stale          bool              `json:"stale"`
	NextRetryAt    *string           `json:"next_retry_at"`
	ExitCode       *int              `json:"exit_code"`
	Signal         *string           `json:"signal"`
	Reason         *string           `json:"reason"`
	Error          *string           `json:"error"`
	Processed      *int64            `json:"processed"`
	Failed         *int64            `json:"failed"`
	Skips          int64             `json:"skips"`
	VersionLabel   *string           `json:"version_label"`
	Labels         map[string]string `json:"labels"`
}

func viewRun(r onerun.Run) runView {
	v := runView{
		RunID: r.RunID, Key: nilIf(r.Key(), ""), Job: r.Job, Partition: nilIf(r.Partition, ""), BusinessDate: nilIf(r.BusinessDate, ""),
		Namespace: r.Namespace, Status: r.Status, Attempt: r.Attempt, Lock: r.Lock,
		Worker: nilIf(r.Worker.String(), ""), Host: nilIf(r.Worker.Host, ""), PID: nilIf(r.Worker.PID, 0), Token: nilIf(r.Token, 0),
		ScheduledAt: stampOrNil(r.ScheduledAt), StartedAt: stampOrNil(r.StartedAt), FinishedAt: stampOrNil(r.FinishedAt),
		DurationMS: durationMS(r.Execution), LeaseExpiresAt: stampOrNil(r.LeaseExpiresAt), Stale: r.Stale,
		NextRetryAt: stampOrNil(r.NextRetryAt), ExitCode: exitCode(r.Status, r.Execution), Signal: nilIf(r.Signal, ""),
		Reason: nilIf(string(r.Reason), ""), Error: nilIf(r.Error, ""), Processed: r.Processed, Failed: r.Execution.Failed,
		Skips: r.Skips, VersionLabel: nilIf(r.VersionLabel, ""), Labels: r.Labels,
	}
	if r.Attempt == 0 { // cancelled in advance: it never started
		v.StartedAt, v.DurationMS = nil, nil
	}
	if v.Labels == nil {
		v.Labels = map[string]string{}
	}
	return v
}

func durationMS(x onerun.Execution) *int64 {
	if x.StartedAt.IsZero() || x.FinishedAt.IsZero() {
		return nil
	}
	ms := x.FinishedAt.Sub(x.StartedAt).Milliseconds()
	return &ms
}

func exitCode(status onerun.Status, x onerun.Execution) *int {
	if x.ExitCode == nil && status == onerun.Succeeded && !x.FinishedAt.IsZero() {
		zero := 0
		return &zero
	}
	return x.ExitCode
}

func viewRuns(runs []onerun.Run) []runView {
	views := make([]runView, 0, len(runs))
	for _, r := range runs {
		views = append(views, viewRun(r))
	}
	return views
}

// writeJSON writes one document.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return written(enc.Encode(v))
}

// written makes an error of standard output an I/O error (exit 74).
func written(err error) error {
	if err == nil {
		return nil
	}
	return &onerun.StoreError{Kind: onerun.ErrIO, What: "write the answer", Err: pathCause(err)}
}

// writeTable writes rows in columns, the first of which is the heading.
func writeTable(w io.Writer, rows [][]string) error {
	var text bytes.Buffer // written at once, so that no log line comes in between
	tw := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = dash(printable(row[i]))
		}
		if _, err := fmt.Fprintln(tw, strings.Join(row, "\t")); err != nil {
			return written(err)
		}
	}
	if err := tw.Flush(); err != nil {
		return written(err)
	}
	_, err := w.Write(text.Bytes())
	return written(err)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// printable shows what a terminal would act on, or what would break a line, escaped.
func printable(s string) string {
	bad := func(r rune) bool {
		return !unicode.IsPrint(r) && !unicode.Is(unicode.Mn, r) && !unicode.Is(unicode.Mc, r) || r == unicode.ReplacementChar
	}
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if bad(r) {
			b.WriteString(strings.Trim(fmt.Sprintf("%+q", r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// clock is a time for people, in the zone of the host.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// span is a duration for people.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < 2*day:
		s := d.Round(time.Second).String()
		if strings.HasSuffix(s, "m0s") { // 1m0s, but not 1m40s
			s = strings.TrimSuffix(s, "0s")
		}
		return s
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// runTable is the table of runs that status, history and stale share.
func runTable(runs []onerun.Run, now time.Time) [][]string {
	rows := [][]string{{"RUN", "STATUS", "ATTEMPT", "STARTED", "TOOK", "EXIT", "REASON", "WORKER", "SKIPS"}}
	counted := slices.ContainsFunc(runs, func(r onerun.Run) bool { return r.Processed != nil || r.Execution.Failed != nil })
	if counted {
		rows[0] = append(rows[0], "PROCESSED", "FAILED")
	}
	for _, r := range runs {
		row := []string{
			r.Name(), statusWord(r), fmt.Sprint(r.Attempt), startedWord(r), tookWord(r, now), exitWord(r), reasonWord(r), r.Worker.String(), fmt.Sprint(r.Skips),
		}
		if counted {
			row = append(row, countWord(r.Processed), countWord(r.Execution.Failed))
		}
		rows = append(rows, row)
	}
	return rows
}

func countWord(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func statusWord(r onerun.Run) string {
	if r.Stale {
		return string(r.Status) + " (stale)"
	}
	return string(r.Status)
}

func startedWord(r onerun.Run) string {
	if r.Attempt == 0 {
		return ""
	}
	return clock(r.StartedAt)
}

func tookWord(r onerun.Run, now time.Time) string {
	switch {
	case r.Attempt == 0:
		return ""
	case r.Status == onerun.Running:
		return span(now.Sub(r.StartedAt)) + " so far"
	}
	return span(r.FinishedAt.Sub(r.StartedAt))
}

func exitWord(r onerun.Run) string {
	switch c := exitCode(r.Status, r.Execution); {
	case r.Signal != "":
		return r.Signal
	case c != nil && r.Attempt > 0:
		return fmt.Sprint(*c)
	}
	return ""
}

func reasonWord(r onerun.Run) string {
	if !r.NextRetryAt.IsZero() {
		return string(r.Reason) + ", retry due " + clock(r.NextRetryAt)
	}
	return string(r.Reason)
}
