// Package cronjob makes the jobs of github.com/robfig/cron (version 3) claim before they run:
// however many replicas of a program have the same schedule, one of them does the work.
//
//	seoul, err := time.LoadLocation("Asia/Seoul")
//	c := cron.New(cron.WithLocation(seoul))
//	at, err := cron.ParseStandard("0 1 * * *")
//	job, err := cronjob.New(ctx, runner, onerun.Job{Name: "daily-settlement"}, settle,
//		cronjob.Keyed(at, c.Location(), schedule.Spec{Date: "yesterday", Zone: "Asia/Seoul"}))
//	c.Schedule(at, job)
//
// # With a key or without
//
// Without Keyed a fire is an unkeyed run: no two are executed at a time, and that is all. Of two
// replicas that fire at the same time the second is refused while the first works, and works
// itself when it comes after the first has finished: by a clock that is a second behind, a short
// job runs twice.
//
// With Keyed each fire has a key, and is executed once, whoever comes when. The key is made of
// the slot: the latest time of the schedule that is not after the fire, by the clock and the
// schedule of the replica that fires; so clocks that differ make no two keys of one slot. An empty schedule.Spec
// makes the slot's instant the partition, one run a slot; a Spec with a Date or a
// Period makes it a business date or period that counts from the slot, one run for each of
// those however often the schedule fires in it.
//
// The slot is found when the job is reached, so nothing may delay a fire before that: put this job
// innermost in no chain with cron.DelayIfStillRunning. Of fires that waited there, the later count for a slot
// that has run, and are refused as succeeded, and their own slots are missed.
//
// Times that passed while a process was down, or its host slept, are not made up for: cron fires
// once afterwards, if at all, and that fire counts for the latest slot.
//
// # Where the clocks change
//
// The parser of robfig/cron doesn't do what cron(8) does where a zone's clock jumps, and this
// package can't make it:
//
//   - a time that is skipped does not fire that day: 30 2 * * * in New York has no run on
//     2026-03-08, and 0 0 * * * in Cairo none for 2025-04-25;
//   - where the clock goes back by half an hour, midnight is lost on the day after: 0 0 * * * on Lord
//     Howe Island has no run on 2026-04-06;
//   - a time that comes twice fires twice: 30 1 * * * in New York on 2026-11-01, an hour apart.
//     With a Spec whose Date or Period is a day, the second is refused as succeeded; with the
//     slot's instant as the key, or unkeyed, both run.
//
// Give such a job a time at which no clock jumps, or schedule it in UTC.
package cronjob
