package cli

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onerun-dev/onerun"
	"github.com/onerun-dev/onerun/store/memory"
)

// TestMeetingOfTheDead: a host that was killed has a place at the table for as long as it may yet speak, and then who is
// left clears that up, too.
func TestMeetingOfTheDead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		silence time.Duration
		left    bool
	}{"silent for ever": {silentAfter + time.Second, false}, "silent for a while": {silentAfter / 2, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				sits := func(me string) *meeting {
					v := &verification{env: &env{}, rendezvous: "code", hosts: 2, rounds: 1}
					v.env.Namespace, v.env.StoreTimeout = onerun.DefaultNamespace, duration(time.Second)
					return &meeting{verification: v, notes: store, note: "verify/code", me: me, heard: map[string]heardFrom{}}
				}
				killed, left := sits("killed"), sits("left")
				for range 3 {
					for _, m := range []*meeting{killed, left} {
						if err := m.update(t.Context()); err != nil {
							t.Fatal(err)
						}
						time.Sleep(beatMeeting)
					}
				}
				if !left.all(stageReady) && left.stage != stageReady {
					t.Fatalf("they didn't meet: %+v", left.last)
				}
				time.Sleep(c.silence)
				ctx, cancel := context.WithCancel(t.Context())
				cancel() // as by Ctrl-C: nobody is waited for
				left.leave(ctx)
				note, err := store.Note(t.Context(), onerun.DefaultNamespace, "verify/code")
				if err != nil || (note.Text != "") != c.left {
					t.Errorf("at the table: %q, %v", note.Text, err)
				}
			})
		})
	}
}
