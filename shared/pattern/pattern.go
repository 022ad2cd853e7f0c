// Package pattern compiles regular expressions when they are first used. Those that a
// package compiles as its variables are compiled by every cold start, used or not.
package pattern

import (
	"regexp"
	"sync"
)

// New is an expression that its first caller compiles. The first call panics where the
// expression is none: a test of the layout looks at all of them. It is safe for
// concurrent use.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
