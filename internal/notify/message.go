package notify

// Message is what is told: the JSON document of a webhook and of a command. The fields are those of a run in `onerun show
// --json`; what doesn't apply is null. Times are RFC 3339 with an offset.
type Message struct {
	Event        Event             `json:"event"`
	Time         string            `json:"time"`
	Title        string            `json:"title"`
	Text         string            `json:"text"` // for people, with the commands to type
	Namespace    string            `json:"namespace"`
	Job          string            `json:"job"`
	Key          *string           `json:"key"`
	BusinessDate *string           `json:"business_date"`
	RunID        *string           `json:"run_id"`
	Attempt      *int              `json:"attempt"`
	Status       *string           `json:"status"`
	Reason       *string           `json:"reason"`
	ExitCode     *int              `json:"exit_code"`
	Signal       *string           `json:"signal"`
	Error        *string           `json:"error"`
	StartedAt    *string           `json:"started_at"`
	FinishedAt   *string           `json:"finished_at"`
	DurationMS   *int64            `json:"duration_ms"`
	Worker       *string           `json:"worker"`
	Host         *string           `json:"host"`
	Holder       *string           `json:"holder"`
	Count        *int64            `json:"count"`
	NextRetryAt  *string           `json:"next_retry_at"`
	VersionLabel *string           `json:"version_label"`
	Labels       map[string]string `json:"labels"`
	Output       *string           `json:"output"`
}

// variables are the message's fields in the environment of a command.
func (m Message) variables() map[string]string {
	word := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	return map[string]string{
		"ONERUN_EVENT": string(m.Event), "ONERUN_TITLE": m.Title, "ONERUN_TEXT": m.Text, "ONERUN_NAMESPACE": m.Namespace,
		"ONERUN_JOB": m.Job, "ONERUN_KEY": word(m.Key), "ONERUN_BUSINESS_DATE": word(m.BusinessDate), "ONERUN_RUN_ID": word(m.RunID),
		"ONERUN_STATUS": word(m.Status), "ONERUN_REASON": word(m.Reason),
	}
}
