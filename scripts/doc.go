// Package scripts holds the shell scripts behind `make`, and tests of them.
package scripts
