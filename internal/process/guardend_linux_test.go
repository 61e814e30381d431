package process

import (
	"os/exec"
	"testing"
	"time"
)

// A job that has ended by itself has its own end, also after its time, as long as nobody has asked it to end.
func TestGuardSeesAnEndAfterTheDeadline(t *testing.T) {
	for _, c := range []struct {
		name     string
		cause    GuardEnd
		stopping bool
		own      bool
	}{{"nobody has asked it", 0, false, true}, {"the guard has", GuardLost, false, false}, {"the wrapper has", 0, true, false}} {
		t.Run(c.name, func(t *testing.T) {
			w, _, _ := guardOfAChild(t, time.Second)
			job := exec.Command("/bin/sh", "-c", "read x; exit 3")
			in, err := job.StdinPipe()
			if err == nil {
				err = job.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = job.Wait() })
			w.order.Tree.Group = identify(job.Process.Pid)
			eventually(t, "it can be watched", func() bool {
				w.leader = openLeader(w.order.Tree.Group)
				return w.leader >= 0
			})
			_ = in.Close()
			eventually(t, "it ends", func() bool { return rest(0, w.leader) })
			w.cause, w.stopping = c.cause, c.stopping
			w.clock = func() time.Duration { return w.order.Lease.Sent + w.order.Lease.TTL }
			w.look()
			if w.ended != c.own || (w.seen != nil) != c.own || c.own && w.seen.Status.ExitStatus() != 3 {
				t.Errorf("its own end: %t, seen %+v", w.ended, w.seen)
			}
		})
	}
}
