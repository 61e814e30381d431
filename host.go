package onerun

import (
	"context"
	"time"
)

// What a host can add to a store of many machines. Such a store knows an owner by its lease
// alone; the kernel of the owner's host knows whether its work still runs. So a start
// takes its host's lock file first, and tells the store what it saw there.

// HostClaimer is an optional ability: of a store of many machines.
type HostClaimer interface {
	// ClaimKnowing is Claim by a caller that has looked at its own host's lock file and
	// processes.
	//
	// Errors: those of Claim.
	ClaimKnowing(ctx context.Context, c Claim, k HostKnowledge) (Grant, error)

	// ExplainKnowing answers as ClaimKnowing would, without changing or recording anything.
	ExplainKnowing(ctx context.Context, c Claim, k HostKnowledge) (*Refusal, error)
}

// HostKnowledge is what one host knows of the owners of a lock. The zero value knows
// nothing.
type HostKnowledge struct {
	// Held is who stands in the way on this host: somebody holds its lock file, or work of
	// an earlier owner still runs. nil: nobody does. Otherwise the claim isn't granted:
	// where nothing before row 7 of the table at Decide refuses it, that row does. See Stand.
	Held      *Holder
	HeldStale bool

	// HeldOwner is the owner id of Held, if it is known. That owner isn't dead, however
	// long its lease has been over: it is not closed by this claim, and is stale then.
	HeldOwner string

	// Dead are owners whose work is proven over. One that still holds what the claim is
	// about is closed as owner_died if its own policy is auto; under policy manual the claim is
	// refused as stale.
	Dead []DeadOwner
}

// Stand adds Held to the facts of a claim, as the holder of its lock. owner is who holds that
// in the store; "": nobody. Another owner there comes first. Of Held itself the store knows
// the run's name, and the host whether it lives.
func (k HostKnowledge) Stand(f *Facts, owner string) {
	switch {
	case k.Held == nil || owner != "" && owner != k.HeldOwner:
	case f.LockHolder == nil:
		f.LockHolder, f.LockStale = k.Held, k.HeldStale
	default:
		h := *k.Held
		if f.LockHolder.RunID != "" {
			h = *f.LockHolder
			h.Detail = k.Held.Detail
		}
		f.LockHolder, f.LockStale = &h, f.LockStale || k.HeldStale
	}
}

// DeadOwner is an owner whose work is proven over.
type DeadOwner struct {
	Owner    string
	Void     bool   // its job never started: it costs no retry, and is closed whatever its policy
	Evidence string // one line for people
}

// Leaver is an optional ability: of a store with lock files.
type Leaver interface {
	// Leave frees the lock file of a lease that its owner gives up without having recorded
	// its end, as the death of its process would. What is noted of the end stays.
	Leave(l Lease)
}

// UnlockRecorder is an optional ability: of a store of many machines, whose lock files are on
// its owners' hosts.
type UnlockRecorder interface {
	// RecordUnlock keeps in the journal that a plain lock file was removed on a host.
	RecordUnlock(ctx context.Context, u UnlockRequest) error
}

// LineWaiter is an optional ability: of a store of many machines. It waits without holding
// anything, so that whoever was waited for can be judged by others meanwhile.
type LineWaiter interface {
	// AwaitTurn returns nil when c might be granted, and so should be claimed: nobody seems to
	// hold its lock, its key isn't RUNNING, and of those that wait with OrderFIFO, if c says
	// so, none came before it. It is no promise. It returns also when it has waited for a
	// while and can't be sure.
	//
	// With OrderFIFO a claim has a place in line, under its owner id, from the first call of
	// AwaitTurn. The place is lost by being granted, by LeaveLine, and by its waiter's silence
	// for some seconds: a waiter that has died keeps nobody waiting.
	//
	// Errors: ErrUnavailable when ctx ends or the store can't be asked.
	AwaitTurn(ctx context.Context, c Claim) error

	// LeaveLine gives up the place of c. It is no error when there is none.
	LeaveLine(ctx context.Context, c Claim) error
}

// UnclaimedKeeper is an optional ability: of a store that may be out of reach while jobs
// have to run all the same.
type UnclaimedKeeper interface {
	// DeliverUnclaimed records a run that was executed without having been claimed, because
	// the store could not be asked, and that began at started by its host's clock. c is
	// the claim that could not be sent; its RunID makes a second delivery known. A run whose claim
	// was granted, and that the store knows nothing of any more, is delivered the same way, with
	// c.Granted set.
	//
	//	no run of the key, or unkeyed   a run with that end, without a token
	//	an attempt of c's own owner     the end of that: the claim had been granted, and its reply
	//	                                lost; as by Claimer.Deliver
	//	the run is FAILED               one more attempt of it, with that end, unless a person has
	//	                                closed it
	//	else                            the run is unchanged; its work may have been done twice
	//
	// All are journalled as late_outcome, and say that the run was unclaimed.
	DeliverUnclaimed(ctx context.Context, c Claim, started time.Time, o Outcome) (Delivery, error)
}
