// Package scheduler starts jobs when their schedules fire, on any number of instances that share a store, with
// no leader among them. It knows neither flags nor processes: its caller says how a job is started.
//
// # What there is, and who changes it
//
// A fire is one job at one slot, an instant of its schedule. Its key (the date, the period, or the slot itself)
// makes that it runs once, whatever happens here: two instances that both start it are two claims of one key.
// All that this package adds is to start it at all, mostly once, and to know what was missed.
//
// A memo, one note for each job in the store, says since when its schedule is known, by which digest and
// generation of the configuration, up to which slot all were taken, and which later ones were, and by whom: with a jitter, or while
// others are caught up with, later slots are taken before earlier ones. An instance takes a slot
// by adding it to the memo (compare-and-set), and then starts the job. One that comes too late is answered
// with the memo that says so: that is one statement for each of the others.
//
//	unknown → waiting     the first instance that has the job writes Since: nothing before it was missed
//	waiting → taken       by compare-and-set on the memo, by whoever's clock says that the slot is due
//	taken → started       by the one who took it: the claim is in the ledger, or its refusal
//	taken → taken         by another one, when the first is dead and the ledger knows nothing of the key
//	waiting → missed      nobody took it in time, and catch-up doesn't want it: one SKIPPED run tells of all those
//
// # When an instance dies
//
// Before it takes the slot: another one takes it, or the next to start, as a fire that was missed. Between
// taking and the job's claim, and likewise when it has ended while a job's process was on its way to the claim: the others see it
// dead (its own note in the store is not renewed, or was left), look for the keys of the slots that it took, and start what
// the ledger doesn't know. What it took to tell of missed fires they tell in its place. After the claim: the job has its own
// process, which doesn't end with the instance, and whose guard records its end. While a start is tried again
// because the store can't be reached: as between taking and the claim.
//
// # Clocks
//
// What is due is told by the wall clock, looked at at least once a second: a timer alone would sleep through a
// suspend and through a step of the clock. After a step back the next slots are found anew; slots that were taken
// already are known to the memo, and to the ledger. After a step forward what was jumped over counts as missed.
package scheduler
