package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/internal/notify"
	"github.com/onerun-dev/onerun/internal/scheduler"
)

// places are where an alert's messages go, by names that tell them apart and nothing else: they are kept in the store, where
// nobody is to find a URL, nor enough of a hash to try out passwords with.
func (d *daemon) places(alert string) ([]string, error) {
	urls, err := d.alertURLs(alert)
	if err != nil {
		return nil, err
	}
	var places []string
	for _, u := range urls {
		if p := placeOf(u); !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	return places, nil
}

func placeOf(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:3])
}

// alertURLs are none where the alert was taken out of the file meanwhile.
func (d *daemon) alertURLs(alert string) ([]string, error) {
	at, ok := (*d.alerts.Load())[alert]
	if !ok {
		return nil, nil
	}
	return at.urls()
}

// tell sends an alert's message to one of its places.
func (d *daemon) tell(ctx context.Context, a scheduler.Telling) error {
	urls, err := d.alertURLs(a.Alert.Name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(urls, func(u string) bool { return placeOf(u) == a.Place })
	if i < 0 {
		return nil // it was taken out meanwhile
	}
	target, err := notify.Parse(urls[i])
	if err == nil {
		t := &teller{redact: d.redacted, flags: d.storeFlagsAnywhere()}
		err = d.sender.Send(ctx, target, *d.message(t, a), "msg_"+a.ID)
	}
	if err != nil {
		return fmt.Errorf("to %s: %w", notify.Shown(urls[i]), err)
	}
	return nil
}

// eventsOf are the events of messages, by what alerts are about.
var eventsOf = map[scheduler.AlertKind]notify.Event{
	scheduler.AlertFailure: notify.Failure, scheduler.AlertStale: notify.Late, scheduler.AlertLate: notify.Late,
	scheduler.AlertSkip: notify.Skip, scheduler.AlertOften: notify.Late, scheduler.AlertRecovery: notify.Recovery,
}

// message says what is wrong, since when, and what to type.
func (d *daemon) message(t *teller, a scheduler.Telling) *notify.Message {
	r := onerun.Run{Namespace: d.Namespace, Job: a.Job}
	if a.Run != nil {
		r = *a.Run
	}
	lines := a.Lines
	if a.Again {
		lines = append(lines, fmt.Sprintf("still so, since %s; message %d", a.Opened.Format(time.RFC3339), a.Count))
	}
	if a.Run != nil {
		lines = append(lines, t.commands(r, a.Kind == scheduler.AlertFailure && r.NextRetryAt.IsZero())...)
	} else {
		lines = append(lines, strings.Join([]string{"onerun" + d.storeFlagsAnywhere(), "explain", a.Job}, " "))
	}
	m := t.message(eventsOf[a.Kind], r)
	m.Count = nilIf(int64(a.Fires), 0)
	return t.words(m, r, nil, a.Title, lines...)
}
