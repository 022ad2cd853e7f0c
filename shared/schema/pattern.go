package schema

import (
	"regexp"
	"regexp/syntax"
)

// Bounds of patterns, in instructions of a matching machine, about.
const (
	maxPattern  = 5_000  // of one
	maxPatterns = 20_000 // of all of a schema
)

// pattern is a regular expression, and what matching takes for each byte.
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

// program is about how many instructions an expression becomes, at most just beyond
// the bound: what is repeated is written out.
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
