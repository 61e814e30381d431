package jobapi

import "time"

// The paths, and what they take and give. A field that is not named is an error, so that a
// misspelt one isn't lost.
const (
	PathCheck     = "/v1/check"
	PathReport    = "/v1/report"
	PathItemBegin = "/v1/items/begin"
	PathItemEnd   = "/v1/items/end"
)

// Status is the answer to a check.
type Status struct {
	Job       string `json:"job"`
	Namespace string `json:"namespace"`
	Key       string `json:"key,omitempty"`
	RunID     string `json:"run_id"`
	Attempt   int    `json:"attempt"`
	Token     int64  `json:"token"`
	Stopping  bool   `json:"stopping"` // it has been asked to stop
	Processed *int64 `json:"processed"`
	Failed    *int64 `json:"failed"`
}

// Report is how far the job has come.
type Report struct {
	Processed *int64 `json:"processed,omitempty"`
	Failed    *int64 `json:"failed,omitempty"`
	Add       *Add   `json:"add,omitempty"`
	Skipped   bool   `json:"skipped,omitempty"` // there was nothing to do
	Reason    string `json:"reason,omitempty"`  // why, with skipped
}

// Add is what is to be added to the counts.
type Add struct {
	Processed int64 `json:"processed,omitempty"`
	Failed    int64 `json:"failed,omitempty"`
}

// Reported is the answer to a report.
type Reported struct {
	Processed *int64 `json:"processed"`
	Failed    *int64 `json:"failed"`
	Stored    bool   `json:"stored"` // others see it; else it is kept here until the job ends
	Error     string `json:"error,omitempty"`
}

// ItemBegin asks to begin an item.
type ItemBegin struct {
	Item    string `json:"item"`
	Payload string `json:"payload,omitempty"`  // its content: another one under the same name is a conflict
	OnCrash string `json:"on_crash,omitempty"` // auto, manual
	Process bool   `json:"process,omitempty"`  // the process that asks does the work; else the job as a whole
}

// ItemBegun is the answer: begin it, or why not.
type ItemBegun struct {
	Begin     bool       `json:"begin"`
	Owner     string     `json:"owner,omitempty"` // to be given with its end
	Tries     int        `json:"tries,omitempty"`
	Reason    string     `json:"reason,omitempty"` // done, running, stale, conflict
	Error     string     `json:"error,omitempty"`
	StartedAt *time.Time `json:"started_at,omitempty"` // of what stands in the way
}

// ItemEnd says how an item ended.
type ItemEnd struct {
	Item     string `json:"item"`
	Owner    string `json:"owner"`
	Done     bool   `json:"done"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Signal   string `json:"signal,omitempty"`
	Error    string `json:"error,omitempty"`
}

// ItemEnded is the answer: an end that the store doesn't take for now is kept here, and tried again.
type ItemEnded struct {
	Stored bool   `json:"stored"`
	Error  string `json:"error,omitempty"`
}

// Failed is the answer to what could not be done.
type Failed struct {
	Error string `json:"error"`
}
