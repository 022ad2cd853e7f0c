// Package invalid tells what is wrong with a value from outside, field by field.
package invalid

import "fmt"

// Field is what is wrong with one of them.
type Field struct {
	Field   string // "name", "config.headers"
	Problem string
}

// Error lists all that is wrong.
type Error struct{ Fields []Field }

// New makes an [Error] of one field.
func New(field, format string, args ...any) error {
	return &Error{[]Field{{field, fmt.Sprintf(format, args...)}}}
}

func (e *Error) Error() string {
	text := "invalid"
	for i, f := range e.Fields {
		text += []string{": ", "; "}[min(i, 1)] + f.Field + " " + f.Problem
	}
	return text
}

// If adds a problem where there is one.
func (e *Error) If(wrong bool, field, problem string) {
	if wrong {
		e.Fields = append(e.Fields, Field{field, problem})
	}
}

// OrNil is the error, if there is any problem.
func (e *Error) OrNil() error {
	if len(e.Fields) == 0 {
		return nil
	}
	return e
}
