// Package notify tells people what became of a job: by a webhook, a command, or a chat service, and by the pings of a
// dead-man's switch. It knows nothing of runs and stores: a caller makes the [Message], and says when.
//
// Chat services and TLS are not linked here. The program that does, onerun-full, is started as a child (see [Sender.Full]).
package notify
