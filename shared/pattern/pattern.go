// Package pattern compiles regular expressions on first use. Expressions that are compiled in
// package variables slow down every cold start, even if they are not used.
package pattern

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"
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
	n := 1 + len(re.Rune)/8 // of a class, whose ranges are searched
	if re.Op == syntax.OpLiteral {
		n = max(1, len(re.Rune))
	}
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

// ParseTime estimates how long it takes to parse an expression, in microseconds. A class of Unicode
// has hundreds of ranges. Where case does not matter, each letter of a range is looked up.
func ParseTime(expression string) int {
	const class, letters = 70, 3_000
	n := len(expression)/5 + class*(strings.Count(expression, `\p`)+strings.Count(expression, `\P`))
	if !foldsCase(expression) {
		return n
	}
	for i := range len(expression) - 1 {
		if expression[i] == '-' && (expression[i+1] >= utf8.RuneSelf || strings.HasPrefix(expression[i+1:], `\x`)) {
			n += letters
		}
	}
	return n
}

// foldsCase reports whether an expression may have the flag i.
func foldsCase(expression string) bool {
	for _, rest := range strings.Split(expression, "(?")[1:] {
		if flags := rest[:len(rest)-len(strings.TrimLeft(rest, "imsU-"))]; strings.Contains(flags, "i") {
			return true
		}
	}
	return false
}
