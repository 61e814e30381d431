package sqlite_test

import (
	"testing"

	"github.com/onerun-dev/onerun"
)

// untold makes an end that its owner could not tell the ledger, the disk being full. The
// owner lives, and the disk has room again.
func untold(t *testing.T) (d smallDisk, b *bed, c onerun.Claim, out onerun.Outcome, owner *child) {
	t.Helper()
	d = newSmallDisk(t)
	b = d.bed()
	b.lived(claimOf("other", day), onerun.Succeeded)
	c = claimOf("settle", day)
	owner = b.child(plan{})
	owner.do(order{Do: "claim", Claim: c})
	owner.do(order{Do: "job", Script: "echo $$; exec sleep 1000"})
	d.fill()
	out = ended(onerun.Failed)
	out.Error = "no such account"
	r, err := owner.ask(order{Do: "finish", Outcome: out})
	if err != nil {
		t.Fatal(err)
	}
	isKind(t, r.Kinds, r.Err, "io", "finish on a full disk")
	d.free()
	return d, b, c, out, owner
}

func (b *bed) spooled() []onerun.Spooled {
	b.t.Helper()
	all, err := b.Spooled(soon(b.t))
	if err != nil {
		b.t.Fatalf("spooled: %v", err)
	}
	return all
}

func (b *bed) flush() []onerun.Delivery {
	b.t.Helper()
	all, err := b.Flush(soon(b.t))
	if err != nil {
		b.t.Fatalf("flush: %v", err)
	}
	return all
}

// delivered checks that the one end was applied, and that nothing waits any more.
func delivered(t *testing.T, b *bed, got []onerun.Delivery, c onerun.Claim, out onerun.Outcome) {
	t.Helper()
	if len(got) != 1 || got[0].Kind != onerun.DeliveredApplied || got[0].Err != nil || got[0].Run.RunID != c.RunID || got[0].Attempt != 1 || got[0].Outcome.Status != out.Status {
		t.Errorf("delivered: %+v", got)
	}
	d := b.detail(c.RunID)
	if r := d.Run; r.Status != out.Status || r.Error != out.Error || *r.ExitCode != 3 || !r.FinishedAt.Equal(out.FinishedAt) {
		t.Errorf("the end: %+v", r)
	}
	if len(d.Events) != 1 || d.Events[0].Name != onerun.EventLateOutcome {
		t.Errorf("events: %+v", d.Events)
	}
	if all := b.spooled(); len(all) != 0 {
		t.Errorf("still spooled: %+v", all)
	}
	if all := b.flush(); len(all) != 0 {
		t.Errorf("flushed again: %+v", all)
	}
}

// TestEndsThatWait: an end that could not be told is listed, and delivered by the next
// claim of whatever job on this store, or by Flush.
func TestEndsThatWait(t *testing.T) {
	t.Parallel()
	for how, deliver := range map[string]func(b *bed) []onerun.Delivery{
		"by the claim of another job": func(b *bed) []onerun.Delivery {
			return b.granted(claimOf("another", day)).Delivered
		},
		"by a refused claim of another job": func(b *bed) []onerun.Delivery {
			return b.refusal(claimOf("other", day), onerun.RefusedSucceeded).Delivered
		},
		"by Flush": func(b *bed) []onerun.Delivery { return b.flush() },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			d, b, c, out, owner := untold(t)
			owner.kill()
			all := b.spooled()
			if len(all) != 1 || all[0].RunID != c.RunID || all[0].Attempt != 1 || all[0].Job != "settle" || all[0].Namespace != onerun.DefaultNamespace ||
				all[0].Path != b.LockPath(c.Lock) || all[0].Outcome.Status != out.Status || all[0].Outcome.Error != out.Error {
				t.Errorf("spooled: %+v", all)
			}
			if r := b.run(c.RunID); r.Status != onerun.Running { // listing delivers nothing
				t.Fatalf("the run: %+v", r)
			}
			delivered(t, b.reopen(), deliver(b.reopen()), c, out)
			b.refused(again(c), onerun.RefusedFailed)
			b.lived(claimOf("settle", "2026-09-16"), onerun.Succeeded)
			sound(t, d.path)
		})
	}
}

// TestEndOfALiveOwner: an owner that still tries is left alone, by whoever delivers; and
// when it dies of it, its end isn't forgotten.
func TestEndOfALiveOwner(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"tells it at last", "dies"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			d, b, c, out, owner := untold(t)
			if all := b.spooled(); len(all) != 0 {
				t.Errorf("spooled, although its owner tries: %+v", all)
			}
			if all := b.flush(); len(all) != 0 {
				t.Errorf("flushed, although its owner tries: %+v", all)
			}
			if all := b.granted(claimOf("another", day)).Delivered; len(all) != 0 {
				t.Errorf("delivered, although its owner tries: %+v", all)
			}
			if r := b.run(c.RunID); r.Status != onerun.Running {
				t.Fatalf("the run: %+v", r)
			}
			if how == "dies" {
				owner.kill()
				delivered(t, b, b.granted(claimOf("third", day)).Delivered, c, out)
			} else {
				owner.do(order{Do: "finish", Outcome: out})
				if r := b.run(c.RunID); r.Status != onerun.Failed || !r.FinishedAt.Equal(out.FinishedAt) {
					t.Errorf("the end: %+v", r)
				}
				if all := b.granted(claimOf("third", day)).Delivered; len(all) != 0 {
					t.Errorf("delivered what its owner told: %+v", all)
				}
			}
			b.refused(again(c), onerun.RefusedFailed)
			sound(t, d.path)
		})
	}
}

// TestEndThatWasClosedOtherwise: a person closed the run before its end came to light. The
// end is listed, and kept beside the attempt.
func TestEndThatWasClosedOtherwise(t *testing.T) {
	t.Parallel()
	d, b, c, out, owner := untold(t)
	owner.kill()
	mustExec(t, b.sql(), "UPDATE onerun_run SET status = 'SUCCEEDED', finished_at = 1 WHERE run_id = ?1", c.RunID)
	mustExec(t, b.sql(), "UPDATE onerun_attempt SET status = 'SUCCEEDED', finished_at = 1, closed_by = 'operator' WHERE run_id = ?1", c.RunID)
	mustExec(t, b.sql(), "UPDATE onerun_lock SET owner = NULL, run_id = NULL, attempt = NULL WHERE run_id = ?1", c.RunID)
	if all := b.spooled(); len(all) != 1 || all[0].RunID != c.RunID {
		t.Errorf("spooled: %+v", all)
	}
	if all := b.flush(); len(all) != 1 || all[0].Kind != onerun.DeliveredKept {
		t.Errorf("flushed: %+v", all)
	}
	x := b.detail(c.RunID)
	if late := x.Attempts[0].Late; x.Run.Status != onerun.Succeeded || late == nil || late.Status != onerun.Failed || late.Error != out.Error {
		t.Errorf("the run: %+v", x)
	}
	if all := b.spooled(); len(all) != 0 {
		t.Errorf("still spooled: %+v", all)
	}
	sound(t, d.path)
}
