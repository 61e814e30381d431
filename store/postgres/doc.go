// Package postgres is the store for many machines: PostgreSQL 13 or later, of one server
// or behind a proxy that pools transactions.
//
// A claim is one round trip: a function that the migration makes decides by the claim
// table, in one transaction, with the rows of the locks in hand. So are a heartbeat, a
// report and an end. The decisions of people, which nobody waits for in a hurry, take a
// few round trips, and go by the library's own rules. Everything is reckoned by the
// server's clock.
//
// The queries are in sql/, the functions in sql/functions. docs/stores/postgres.md says
// what the store guarantees, and what it can't.
package postgres
