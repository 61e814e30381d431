// Package jobapi is how a job talks to the onerun that runs it: HTTP with JSON over the unix
// socket that ONERUN_SOCKET names, so that a job in any language needs no store. The
// requests are documented in docs/inside.md, with curl.
//
// The server runs in the wrapper, for as long as the job does. It trusts the job with what
// the job may do anyway (its own run, its own items), and with nothing else: what it is
// sent is bounded in size, number and time, and a mistake is answered with one line.
package jobapi
