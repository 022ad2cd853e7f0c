// Package pattern compiles regular expressions on first use. Expressions that are compiled in
// package variables slow down every cold start, even if they are not used.
package pattern

import (
	"regexp"
	"regexp/syntax"
	"sync"
)

// New returns a function that compiles the expression at its first call and returns it. That call
// panics if the expression is invalid; a test of package layout checks all expressions. The
// function is safe for concurrent use.
func New(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// MaxSize is the largest size of an expression from outside. [Size] counts no further than one more.
const MaxSize = 5_000

// Size estimates the size of an expression, in instructions of the machine that matches it.
// Repetitions count as written out. For each byte of a text, a match may visit all instructions,
// each in about twenty nanoseconds. The error says that it is no regular expression.
func Size(expression string) (int, error) {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return 0, err //nolint:wrapcheck // says it all
	}
	return size(tree), nil
}

func size(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/8
	for _, sub := range re.Sub {
		if n += size(sub); n > MaxSize {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, MaxSize+1)
}
