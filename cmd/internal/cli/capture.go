package cli

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/capture"
)

// outputFlags say where the job's output goes.
type outputFlags struct {
	Output  string      `enum:"always,on-failure,never" default:"always" placeholder:"always|on-failure|never" help:"When the job's output is passed on (always)."`
	Capture captureSize `default:"64K" placeholder:"SIZE|none" help:"How much of its end is kept with the attempt (64K)."`
}

// captureSize is a flag: how many bytes are kept, or none (0).
type captureSize int

// maxCapture is the most that --capture takes: it stands in memory, and in the store.
const maxCapture = 1 << 20

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *captureSize) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*s = 0
		return nil
	}
	var n size
	if err := n.UnmarshalText(text); err != nil {
		return fmt.Errorf("%q is no size; write for example 64K or 1M, or none", text)
	}
	if n < 1 || n > maxCapture {
		return fmt.Errorf("%q is out of range; use 1 to 1M, or none", text)
	}
	*s = captureSize(n)
	return nil
}

func (s captureSize) String() string {
	switch {
	case s == 0:
		return "none"
	case s%1024 == 0:
		return strconv.Itoa(int(s/1024)) + "K"
	}
	return strconv.Itoa(int(s))
}

// output is what becomes of a job's output.
type output struct {
	plan   capture.Config
	job    *capture.Capture // of the attempt under way
	failed bool             // that attempt
}

// plan is what the flags say. A terminal stays the job's own unless somebody asks for
// something else, on the command line or in the file.
func (f outputFlags) plan(e *env) output {
	asked := false
	for _, name := range []string{"output", "capture"} {
		asked = asked || e.given[name] || e.sources[name] != ""
	}
	return output{plan: capture.Config{Mode: capture.Mode(f.Output), Keep: int(f.Capture), Terminals: asked}}
}

// beginOutput makes what the next attempt writes to.
func (x *execution) beginOutput() (err error) {
	x.passRest() // of the attempt before
	x.output.plan.TempDir = x.private.tmp
	if x.output.job, err = capture.New(x.output.plan); err != nil {
		err = fmt.Errorf("the job was not started, because there is no pipe for its output: %w", err)
	}
	return err
}

// keepOutput hands over what the attempt has printed.
func (x *execution) keepOutput(o *onerun.Owner, failure error) {
	x.output.failed = failure != nil
	x.output.job.Ended()
	if out := x.printed(o, false); out != nil {
		o.KeepOutput(*out)
	}
}

// printed is what the attempt has printed so far, fit to be kept; nil: nothing, or it isn't
// kept. Of a job that still prints, the line that it is in the middle of is left out: what
// is a secret can be told from a whole line alone.
func (x *execution) printed(o *onerun.Owner, still bool) *onerun.Output {
	tail, total := x.output.job.Tail()
	truncated := total > int64(len(tail))
	if still {
		line := bytes.LastIndexAny(tail, "\r\n") + 1
		total -= int64(len(tail) - line)
		tail = tail[:line]
	}
	if len(tail) == 0 || o.Lease().RunID == "" {
		return nil
	}
	text := string(tail)
	masked := x.redacted(text)
	if truncated {
		masked = masked[x.unsure(text, masked):]
	}
	end := onerun.LastBytes(masked, x.output.plan.Keep)
	return &onerun.Output{Text: end, Total: total, Truncated: truncated || len(end) < len(masked)}
}

// unsure is how much of a masked text has to go whose beginning is missing: up to the first
// end of a line, or what was kept for that purpose, there may be the rest of a secret, and
// what says so is gone.
func (x *execution) unsure(text, masked string) (n int) {
	head := text[:min(capture.Slack, len(text))]
	if line := strings.IndexByte(head, '\n'); line >= 0 {
		head = head[:line+1]
	}
	head = x.redacted(head)
	for n < min(len(head), len(masked)) && head[n] == masked[n] {
		n++
	}
	return n
}

// passRest passes on what is still to be passed on: what was held back of a failed job, and
// what a slow reader has yet to take. Nobody waits for that but the caller: the end is
// recorded, and a signal ends it.
func (x *execution) passRest() {
	job := x.output.job
	if job == nil {
		return
	}
	x.output.job = nil
	if job.Waiting(x.output.failed) {
		x.signals.idle()
	}
	if err := job.Close(x.output.failed); err != nil {
		complain(x.env, fmt.Errorf("some of the job's output is lost: %w", err))
	}
}
