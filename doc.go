// Package onerun makes a scheduled job run once: before a job starts it must win a
// claim, and what became of the claim is kept.
//
// # Where to start
//
// [Runner.Do] claims a job, calls a function while the claim is held, and records
// how that ended. [WithLock] is for exclusion alone and records nothing. Both need a
// [Store]: Open of package store makes one from a URL, and package store/memory is
// one for tests.
//
//	runner := onerun.NewRunner(store)
//	err := runner.Do(ctx, onerun.Job{Name: "daily-settlement", Partition: "2026-09-15"},
//		func(ctx context.Context, o *onerun.Owner) error { return settle(ctx) })
//	if skip := new(onerun.Refusal); errors.As(err, &skip) {
//		log.Print(skip) // who did it or is doing it, and since when
//	}
//
// Packages below adapter make the jobs of other schedulers claim before they run, and those
// below observe log, count and trace what happens. docs/library.md goes by task.
//
// # The words
//
// A job is work with a name. What one run of it is for is its partition, most often a
// business date, and JOB:PARTITION is the run's key. A job that is run without a
// partition is unkeyed: each of its starts is a run of its own.
//
// A [Run] is the one record of a key, or of one start of an unkeyed job; it is
// RUNNING, SUCCEEDED, FAILED or SKIPPED. Each execution of a run is an [Attempt]: the
// first, then its retries and its approved reruns. Who executes is a [Worker]: one
// process of one host, told apart from every other that had its number.
//
// A [Claim] asks to become the one owner of a run and of its lock. The store decides
// in one atomic step, by the table at [Decide], and answers with a [Grant] or a
// [Refusal]. A refusal, also called a skip, is a normal outcome and is counted in the
// ledger. Not being able to ask is an error, never a refusal.
//
// A [Lease] is the owner's right. It ends at a deadline that heartbeats push forward.
// Its token, the fencing token, is larger than that of every earlier owner of the
// same lock, so whoever is told two tokens knows which owner is the later one.
//
// A run is stale when it has been RUNNING for longer than it should, or when its
// lease ran out: a finding about a run, not a state of it. A namespace keeps the keys
// and locks of one environment apart from another's.
//
// # What is guaranteed
//
// As long as the store keeps what it acknowledged:
//
//   - A key that SUCCEEDED is not executed again, unless a person approved exactly
//     one rerun of it.
//   - No two owners hold one lock at a time. With a lease of T, nobody else is
//     granted the lock before T has passed, by the store's clock, since the owner's
//     last successful heartbeat; and the owner's function has been told to stop, by
//     its context, before T has passed since that heartbeat was sent, by a clock that
//     goes on in a suspend. No two hosts' clocks are compared. See [TermAfter].
//   - Whoever lost its lease changes nothing any more: every change names the owner,
//     the attempt and the token that it expects to find.
//   - The lease is renewed until the end is recorded, and is given back however the
//     function ends: by returning, by a panic, by runtime.Goexit.
//   - Names are the same names on every store: see [CleanName].
//
// # What is not
//
// Effects outside the store don't happen exactly once. A function that ignores its
// context goes on beside the next owner ([WithExitOnLoss] ends its process instead). So does
// work that was handed elsewhere, such as an SQL statement that is under way. A
// host that stood still beyond T finds out only when it wakes. The store's clock is
// assumed not to step forward by more than the margin within T: [LeaseMargin];
// each heartbeat looks, and tells the [Observer] of a step. A process that dies between the
// end of its work and the recording of it leaves a run whose outcome nobody knows.
// Where any of this matters, let what the job writes to compare tokens and refuse a
// token that is smaller than one it has seen.
package onerun
