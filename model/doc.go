// Package model holds the protocol as a model that spin(1) checks, and the test that has it checked. README.md says how to
// read it.
package model
