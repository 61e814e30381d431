package sqlledger

import (
	"fmt"
	"strings"
)

// Where is a WHERE clause that is being put together, with its arguments.
type Where struct {
	Parts []string // all of which have to hold
	Args  []any
}

// And adds a condition, whose arguments stand where the driver counts them itself.
func (w *Where) And(condition string, args ...any) {
	w.Args = append(w.Args, args...)
	w.Parts = append(w.Parts, condition)
}

// AndAt adds a condition on one argument, in which %d stands for the argument's number.
func (w *Where) AndAt(condition string, arg any) {
	w.Parts = append(w.Parts, fmt.Sprintf(condition, w.At(arg)))
}

// At adds an argument, and gives its number.
func (w *Where) At(arg any) int {
	w.Args = append(w.Args, arg)
	return len(w.Args)
}

// String is the clause.
func (w *Where) String() string { return "WHERE " + strings.Join(w.Parts, " AND ") }
