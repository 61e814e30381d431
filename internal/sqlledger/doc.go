// Package sqlledger is what the ledgers in SQL (store/mysql, store/postgres, store/sqlite) do alike: the decisions and the
// order of the steps that don't depend on a dialect, the rows as they are read, and how values are made fit for a server.
//
// What a step says in SQL, and what a driver does with it, stays in each store. A transaction of a store's implements the
// small interface of whatever it asks for here; which rows are locked, and when, is said by the order of the calls.
//
// It must not become a layer over databases: it knows no driver, writes no SQL, rewrites no query, and holds no connection.
// What two stores do differently stays with them. Nothing here runs when a program starts, since one of the three stores is
// in every start of a job.
package sqlledger
