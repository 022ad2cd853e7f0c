package problem

import (
	"fmt"
	"time"
)

// Field is a problem of one field of a value from outside.
type Field struct {
	Field   string // "name", "config.headers"
	Problem string
}

// InvalidError lists all problems of a value from outside.
type InvalidError struct{ Fields []Field }

// Invalid returns an [InvalidError] with one field.
func Invalid(field, format string, args ...any) error {
	return &InvalidError{[]Field{{field, fmt.Sprintf(format, args...)}}}
}

func (e *InvalidError) Error() string {
	text := "invalid"
	for i, f := range e.Fields {
		text += []string{": ", "; "}[min(i, 1)] + f.Field + " " + f.Problem
	}
	return text
}

// If adds a problem if wrong is true.
func (e *InvalidError) If(wrong bool, field, problem string) {
	if wrong {
		e.Fields = append(e.Fields, Field{field, problem})
	}
}

// BadTime is the problem of a time for which [Storable] is false.
const BadTime = "must be a time in the years 1970 to 9999"

// Storable reports whether a time is nil, or in the years 1970 to 9999 in UTC. A later time can be
// stored, but not told: JSON has no such year.
func Storable(at *time.Time) bool {
	return at == nil || at.UTC().Year() >= 1970 && at.UTC().Year() <= 9999
}

// OrNil returns the error, or nil if it has no problems.
func (e *InvalidError) OrNil() error {
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}
