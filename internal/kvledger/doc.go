// Package kvledger is the whole ledger on any store of keys with versions and transactions over
// them (Space): read the few keys that a decision needs, decide by the library's own rules, and
// commit on condition that nothing which was read has changed.
package kvledger
