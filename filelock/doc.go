// Package filelock x.
package filelock
