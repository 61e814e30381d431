// Package schedday has no code: it is the test of the scheduler on a real PostgreSQL, with instances that are
// processes, in time that is compressed. What one process alone shows is tested in internal/scheduler.
package schedday
