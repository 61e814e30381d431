package onerun

import (
	"context"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ItemKeeper keeps items: units of work inside a job that are done once ever for a
// namespace and job, whichever run or attempt comes to them.
//
// The states of an item, who moves it, and what a death leaves:
//
//	(none)   nobody has begun it. BeginItem → started.
//	started  its owner does it. EndItem → done or failed. When the owner dies here, nobody
//	         knows whether the work was done: as long as the death isn't proven, the item
//	         is refused as running; then the owner's own policy decides: auto, the next
//	         BeginItem takes it over, and it may be done a second time; manual, it is
//	         refused as stale until a person decides (DecideItem).
//	failed   its owner has said so. BeginItem → started.
//	done     for ever, but for a person's decision.
//
// An item is begun by the owner of a run, under its lease; it ends without: whoever began
// it says how it ended, even when the run is over by then.
type ItemKeeper interface {
	// BeginItem begins an item, or refuses with an *ItemRefusal, by the rules of
	// ItemVerdict. The same owner id again is given the same item (a lost reply).
	//
	// Errors: ErrLost when the lease isn't the owner's any more; ErrUsage for a malformed
	// claim.
	BeginItem(ctx context.Context, c ItemClaim) (Item, error)

	// EndItem records how an item ended. The same end again is no error.
	//
	// Errors: ErrLost when the item isn't that owner's any more, or is decided.
	EndItem(ctx context.Context, e ItemEnd) error

	// Items lists items, those begun last first.
	Items(ctx context.Context, q ItemQuery) ([]Item, error)

	// DecideItem settles an item by a person's word, and journals that: done, or failed,
	// which lets it be done again. A started one only when its owner is proven dead, or when
	// its run's attempt has ended and nothing more can be known.
	//
	// Errors: ErrState when the rules forbid it or the item isn't as expected any more;
	// ErrNotFound.
	DecideItem(ctx context.Context, d ItemDecision) (Item, error)
}

// ItemState is the state of an item.
type ItemState string

// The states.
const (
	ItemStarted ItemState = "started"
	ItemDone    ItemState = "done"
	ItemFailed  ItemState = "failed"
)

// Reasons of an ItemRefusal, beside RefusedRunning and RefusedStale.
const (
	RefusedDone     Reason = "done"     // it has been done
	RefusedConflict Reason = "conflict" // it was begun with another payload
)

// MaxItem is the greatest length of an item's name, in characters after normalisation.
const MaxItem = 200

// MaxPayload is the greatest length of an item's payload, in bytes: it stands for the content, and
// what is longer is told by a digest.
const MaxPayload = 32 << 10

// CleanItem checks the name of an item and returns it in Unicode Normalization Form C. It
// may hold whatever can be printed, spaces inside of it included: an order's number, a
// path, an address.
func CleanItem(name string) (string, error) {
	bad := func(format string, args ...any) (string, error) {
		return "", &NameError{What: "item", Name: name, Why: fmt.Sprintf(format, args...)}
	}
	if name == "" {
		return bad("is empty; give it 1 to %d characters", MaxItem)
	}
	if !utf8.ValidString(name) {
		return bad("is not valid UTF-8")
	}
	n := norm.NFC.String(name)
	for i, r := range n {
		inside := i > 0 && i+utf8.RuneLen(r) < len(n)
		if r == ' ' && !inside {
			return bad("begins or ends with a space")
		}
		if !unicode.IsPrint(r) && !unicode.IsMark(r) || r == utf8.RuneError {
			return bad("holds %+q, which can't be printed", string(r))
		}
	}
	if count := utf8.RuneCountInString(n); count > MaxItem {
		return bad("has %d characters; at most %d are allowed", count, MaxItem)
	}
	return n, nil
}

// Item is one unit of work.
type Item struct {
	Namespace  string
	Job        string
	Name       string
	State      ItemState
	Payload    string // what stands for its content, such as a digest, up to MaxPayload; empty: not told
	Tries      int    // how often it was begun
	RunID      string // of the last try
	Attempt    int
	Owner      string // random id of the last try
	Worker     Worker // the process that does it; PID 0: its run's attempt as a whole, on that kernel
	Group      int    // the process group of whoever began it; 0: not known
	OnCrash    OnCrash
	StartedAt  time.Time
	FinishedAt time.Time // zero while started
	ExitCode   *int
	Signal     string
	Error      string

	// What a store found out about a started item when it was read. Over says that its run's
	// attempt has ended: then a person may decide, though nobody can prove its owner dead.
	Liveness Liveness
	Over     bool
	Evidence string
}

// ItemClaim asks to begin an item.
type ItemClaim struct {
	Lease   Lease // of the run that it is part of; the job is the run's
	Name    string
	Owner   string // random, made anew for every try; see NewID
	Payload string
	OnCrash OnCrash // "": auto
	Worker  Worker  // the process that will do it; PID 0: the attempt as a whole, whose processes began at StartTicks or later
	Group   int     // the process group of whoever asks; 0: not known
}

// ItemEnd is how an item ended.
type ItemEnd struct {
	Namespace string
	Job       string
	Name      string
	Owner     string
	State     ItemState // done or failed
	ExitCode  *int
	Signal    string
	Error     string
}

// ItemQuery selects items.
type ItemQuery struct {
	Namespace string
	Job       string      // empty: of every job
	Name      string      // with Job: this one
	States    []ItemState // empty: all
	Limit     int         // 0: no limit
}

// ItemDecision settles an item by a person's word.
type ItemDecision struct {
	Namespace string
	Job       string
	Name      string
	Expect    ItemState // what the person looked at
	Tries     int
	As        ItemState
	Who
}

// ItemRefusal says why an item is not begun.
type ItemRefusal struct {
	Reason Reason
	Item   Item // as it is
}

func (r *ItemRefusal) Error() string {
	why := map[Reason]string{
		RefusedDone:     "it has been done",
		RefusedRunning:  "its owner is at work",
		RefusedStale:    "its owner died while it worked, so nobody knows whether it was done; see: onerun resolve",
		RefusedConflict: "it was begun with another payload",
	}[r.Reason]
	evidence := r.Item.Evidence
	if r.Reason == RefusedConflict {
		evidence = ""
	}
	return oneLine(join(fmt.Sprintf("item %s: %s", quoteName(r.Item.Name), why), ": ", evidence))
}

// ItemVerdict decides about an item that is there: "" lets it begin, else it is the reason
// of the refusal. What is known of a started item's owner stands in it.Liveness.
func ItemVerdict(it Item, c ItemClaim) Reason {
	switch {
	case it.State == ItemStarted && it.Owner == c.Owner:
		return "" // a lost reply
	case it.Payload != "" && c.Payload != "" && it.Payload != c.Payload:
		return RefusedConflict
	case it.State == ItemDone:
		return RefusedDone
	case it.State == ItemFailed:
		return ""
	case it.Liveness != Dead:
		return RefusedRunning
	case it.OnCrash == CrashManual:
		return RefusedStale
	}
	return ""
}

// Begun is the item as a claim begins it; old is the item before, or nil.
func (c ItemClaim) Begun(old *Item, job string, now time.Time) Item {
	it := Item{
		Namespace: c.Lease.Namespace, Job: job, Name: c.Name, State: ItemStarted, Payload: c.Payload, Tries: 1,
		RunID: c.Lease.RunID, Attempt: c.Lease.Attempt, Owner: c.Owner, Worker: c.Worker, Group: c.Group, OnCrash: c.OnCrash, StartedAt: now,
	}
	setDefault(&it.OnCrash, CrashAuto)
	if old != nil {
		it.Tries = old.Tries + 1
		setDefault(&it.Payload, old.Payload)
	}
	return it
}

// Check refuses a malformed claim.
func (c ItemClaim) Check() error {
	name, err := CleanItem(c.Name)
	switch {
	case err != nil:
		return err
	case name != c.Name:
		return fmt.Errorf("%w: the name of item %s is not in the form of CleanItem", ErrUsage, quoteName(c.Name))
	case c.Lease.RunID == "":
		return fmt.Errorf("%w: item %s needs the lease of a run; a lock alone has no items", ErrUsage, quoteName(name))
	case c.Owner == "":
		return fmt.Errorf("%w: item %s needs an owner", ErrUsage, quoteName(name))
	case len(c.Payload) > MaxPayload:
		return fmt.Errorf("%w: the payload of item %s has %d bytes, at most %d are kept; give a digest of it", ErrUsage, quoteName(name), len(c.Payload), MaxPayload)
	case c.OnCrash != "" && c.OnCrash != CrashAuto && c.OnCrash != CrashManual:
		return fmt.Errorf("%w: crash policy %q is unknown; use %s or %s", ErrUsage, c.OnCrash, CrashAuto, CrashManual)
	}
	return nil
}

// ItemDecisionAllowed are the rules of DecideItem for an item as it is.
func ItemDecisionAllowed(it Item, d ItemDecision) error {
	switch {
	case d.As != ItemDone && d.As != ItemFailed:
		return fmt.Errorf("%w: an item can't be decided to be %q; use %s or %s", ErrUsage, d.As, ItemDone, ItemFailed)
	case d.By == "" || d.Reason == "":
		return fmt.Errorf("%w: a decision needs a reason", ErrUsage)
	case it.State != d.Expect || it.Tries != d.Tries:
		return &StateError{Why: fmt.Sprintf("item %s is %s meanwhile, try %d", quoteName(it.Name), it.State, it.Tries)}
	case it.State == d.As:
		return &StateError{Why: fmt.Sprintf("item %s is %s already", quoteName(it.Name), it.State)}
	case it.State == ItemStarted && it.Liveness != Dead && !(it.Liveness == Unknown && it.Over):
		return &StateError{Why: oneLine(join(fmt.Sprintf("item %s is being done, as far as anybody knows", quoteName(it.Name)), ": ", it.Evidence))}
	}
	return nil
}

// Decided is an item after a decision.
func (d ItemDecision) Decided(it Item, now time.Time) Item {
	it.State, it.FinishedAt, it.Error = d.As, now, CutError("decided by "+d.By+": "+d.Reason)
	it.ExitCode, it.Signal, it.Liveness, it.Evidence, it.Over = nil, "", "", "", false
	return it
}

// Detail says what a decision changes, for the record.
func (d ItemDecision) Detail(it Item) string {
	return fmt.Sprintf("item %s, try %d: %s to %s", quoteName(it.Name), it.Tries, it.State, d.As)
}
