// Package mysql is the store of many machines on MySQL 8 and MariaDB 10.6 and later, in the one
// dialect that both speak.
//
// Exclusion is a lease: a row in onerun_lock with a deadline by the server's clock, which
// heartbeats push forward. A claim is decided in Go, by the library's own table, inside one
// transaction of two round trips: the first takes the rows of the locks in one order and reads
// what there is; the second writes the grant down and commits. Nothing in between waits for
// more. The database, its tables and its settings are described in docs/stores/mysql.md.
package mysql
