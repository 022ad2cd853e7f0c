package schema

import (
	"regexp"

	expression "github.com/lanekeeper/lanekeeper/shared/pattern"
)

// maxPatterns is the largest size of all patterns of a schema.
const maxPatterns = 20_000

// pattern is a regular expression. size is the cost to match one byte.
type pattern struct {
	re   *regexp.Regexp
	text string
	size int
}

func (c *compiler) pattern(path, text string) *pattern {
	if !c.step(parseSteps * expression.ParseTime(text)) {
		return &pattern{}
	}
	size, err := expression.Size(text)
	if err != nil {
		c.refuse(path, "is not a regular expression (RE2)")
		return &pattern{}
	}
	p := &pattern{text: text, size: size}
	if c.program += p.size; p.size > expression.MaxSize || c.program > maxPatterns {
		c.refuse(path, "takes too long to match: repeat less")
		return p
	}
	if p.re, err = regexp.Compile(text); err != nil {
		c.refuse(path, "is not a regular expression (RE2)")
	}
	return p
}
