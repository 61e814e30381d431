// Package schedule says which slot a run is for: the business date or period
// that a start at a given instant belongs to, and the partition label made of it.
// And it says when the slots of a cron expression are; see Cron, Schedule and DST.
//
// # Words
//
// A partition is the second half of a key JOB:PARTITION. A business date is a
// calendar date that a run accounts for; it is a label, not a stretch of time,
// and it has no zone. The zone and the day-start only decide which business
// date an instant belongs to.
//
// # Where a day begins
//
// Business day D begins at the first instant at which the wall clock of the
// zone shows D at the day-start (00:00 unless set) or later, and it ends where
// the next one begins. From this one rule follows:
//
//   - a day-start inside a gap (the clock jumps forward over it) is right after
//     the jump: Cairo's 2025-04-25 begins at 01:00 local time;
//   - a day-start that the clock shows twice counts the first time, as
//     cron(8) does with fixed times, and a clock set back over a day-start does
//     not bring the ended day back: St. John's went from 00:01 to 23:01 and
//     stayed on the new business date;
//   - business dates never go back while time goes on, whatever the zone does;
//   - a date that a zone left out (Samoa, 2011-12-30) is nobody's today with a
//     day-start of 00:00. With a later one it is the hours between the jump and
//     that day-start, since those are before the day-start of the date that
//     the clock shows.
//
// An instant alone says no more. Of a time of a schedule that the clock skips it
// is known which one was meant, so it keeps the date that it would have had; see
// Schedule.Slot.
//
// From there on only calendar arithmetic on dates is done: yesterday is the
// business date minus one calendar day, never an instant minus 24 hours.
//
// # Zones
//
// Nothing here reads the host's zone unless the zone is the word "local", and
// no zone that cannot be read turns into UTC. The IANA zone database is
// embedded, so that named zones work in images without one. As package time
// does, the host's own database (ZONEINFO, /usr/share/zoneinfo) is asked first,
// so that a distribution's update counts.
//
// # Labels
//
//	hour   2026-11-01T01-05:00   local hour and its offset from UTC
//	day    2026-09-15            business date, ISO 8601
//	week   2026-W38              ISO 8601 week of the business date
//	month  2026-09               month of the business date
//	5m     2026-09-15T01:05:00Z  start of the slot in UTC
//
// They are made of the characters that a partition may hold.
package schedule
