// Package capture stands between a job and the wrapper's own standard output and error: it
// passes on every byte as it is, or holds it back until the job has failed, or drops it,
// and keeps the last of it for the ledger.
//
// It always goes on reading, so that a job never fails or stops because nobody reads what
// it prints: when the wrapper's own reader is gone, the rest is dropped. A reader that is
// only slow makes the job wait, as it would without a wrapper.
//
// What it needs of memory doesn't depend on how much is printed. What is held back is in
// memory while it is small, then in a file without a name.
package capture
