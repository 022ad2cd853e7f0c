// Package pattern compiles regular expressions on first use. Expressions that are compiled in
// package variables slow down every cold start, even if they are not used.
package pattern

import (
	"regexp"
	"sync"
)

// New returns a function that compiles the expression at its first call and returns it. That call
// panics if the expression is invalid; a test of package layout checks all expressions. The
// function is safe for concurrent use.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
