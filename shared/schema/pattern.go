package schema

import (
	"regexp"
	"regexp/syntax"
)

// Limits of patterns, in instructions of the matching machine, approximately.
const (
	maxPattern  = 5_000  // of one pattern
	maxPatterns = 20_000 // of all patterns of a schema
)

// pattern is a regular expression. size is the cost to match one byte.
type pattern struct {
	re   *regexp.Regexp
	text string
	size int
}

func (c *compiler) pattern(path, text string) *pattern {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		c.refuse(path, "is not a regular expression (RE2)")
		return &pattern{}
	}
	p := &pattern{text: text, size: program(tree)}
	if c.program += p.size; p.size > maxPattern || c.program > maxPatterns {
		c.refuse(path, "takes too long to match: repeat less")
		return p
	}
	if p.re, err = regexp.Compile(text); err != nil {
		c.refuse(path, "is not a regular expression (RE2)")
	}
	return p
}

// program estimates the number of instructions of an expression. Repetitions count as written out.
// It stops counting soon after maxPattern.
func program(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/8
	for _, sub := range re.Sub {
		if n += program(sub); n > maxPattern {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxPattern+1)
}
