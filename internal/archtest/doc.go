// Package archtest holds the test that keeps the import rule: what each package of this module may drag into a
// program that imports it. The linter keeps the same rule for single import lines (depguard in .golangci.yml); only
// the build's own list of dependencies shows what comes in behind an import that is allowed.
// Beside it stands the test of the page that says what was checked.
package archtest
