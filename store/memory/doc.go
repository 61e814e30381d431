// Package memory is a store in the memory of one process, with leases: for the
// tests of the library and of its users. Its clock can be given (so that
// testing/synctest, or a test, moves it), and its rules can be changed, by which
// the conformance suite shows that it notices a store that breaks one of them.
//
// It keeps its promises among the goroutines of one process and protects nothing
// beyond it.
package memory
