package notify

import (
	"slices"
	"strings"
)

// services are the schemes that onerun-full can send to: those of its library, which a test beside it compares. The table
// stands here so that a slip of the pen is found before a job starts, without that program.
var services = []string{
	"bark", "discord", "generic", "googlechat", "gotify", "hangouts", "ifttt", "join", "lark", "logger", "matrix",
	"mattermost", "notifiarr", "ntfy", "opsgenie", "pagerduty", "pushbullet", "pushover", "rocketchat", "signal", "slack",
	"smtp", "teams", "telegram", "wecom", "zulip",
}

// Services are the schemes of the chat services.
func Services() []string { return slices.Clone(services) }

// isService reports whether a scheme is a chat service's. Some take a web address as it is, as generic+https.
func isService(scheme string) bool {
	name, _, _ := strings.Cut(scheme, "+")
	return slices.Contains(services, name)
}
