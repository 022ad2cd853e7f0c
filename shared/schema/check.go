package schema

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Violation is one thing wrong with a value.
type Violation struct {
	Path    string // JSON pointer to the wrong part; empty: the whole value
	Problem string
}

func (v Violation) String() string {
	if v.Path == "" {
		return v.Problem
	}
	return v.Path + ": " + v.Problem
}

// ErrTooMuch says that a check reached its limit of steps. The value is not accepted.
var ErrTooMuch = errors.New("the value takes too long to check")

// Check lists what is wrong with a value that [Decode] has read, sorted by path. An empty list
// means that the value is valid. It returns [ErrTooMuch] at its limit, and the context's error if
// the context ends.
func (s *Schema) Check(ctx context.Context, v any) ([]Violation, error) {
	c := &check{ctx: ctx, left: MaxSteps}
	c.node(s.root, v, nil, 0)
	if c.err != nil {
		return nil, c.err
	}
	slices.SortFunc(c.out, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Problem, b.Problem))
	})
	return slices.Compact(c.out), nil
}

// How much work one step stands for, about a microsecond.
const (
	stepBytes = 100 // of text to examine
	lookEvery = 1000
)

// check is the state of one check. After an error, it stops as soon as possible.
type check struct {
	ctx   context.Context
	left  int // remaining steps
	looks int
	quiet int // above 0: record no violations
	out   []Violation
	err   error
}

// step uses n steps. It returns false if too few are left, or if the check has failed.
func (c *check) step(n int) bool {
	if c.err != nil {
		return false
	}
	if c.left -= n; c.left < 0 {
		c.err = ErrTooMuch
		return false
	}
	if seen := (MaxSteps - c.left) / lookEvery; seen != c.looks {
		c.looks, c.err = seen, c.ctx.Err()
	}
	return c.err == nil
}

// place is the position of a value within the whole.
type place struct {
	up    *place
	token string
}

func (p *place) pointer() string {
	var tokens []string
	for ; p != nil; p = p.up {
		tokens = append(tokens, "/"+escapes.Replace(p.token))
	}
	slices.Reverse(tokens)
	return strings.Join(tokens, "")
}

// wrong records a violation and returns false.
func (c *check) wrong(p *place, format string, args ...any) bool {
	if c.quiet > 0 || c.err != nil || len(c.out) >= MaxViolations {
		return false
	}
	v := Violation{p.pointer(), fmt.Sprintf(format, args...)}
	if c.step(2 + (len(v.Path)+len(v.Problem))/stepBytes) {
		c.out = append(c.out, v)
	}
	return false
}

// fits checks a value without recording violations.
func (c *check) fits(n *node, v any, p *place, depth int) bool {
	c.quiet++
	defer func() { c.quiet-- }()
	return c.node(n, v, p, depth)
}

// node checks a value against a schema and records the violations.
func (c *check) node(n *node, v any, p *place, depth int) bool {
	if depth > maxDepth && c.err == nil {
		c.err = ErrTooMuch
	}
	if !c.step(1) {
		return false
	}
	if n.never {
		return c.wrong(p, "false schema")
	}
	ok := c.kind(n, v, p)
	for _, o := range n.enums {
		text, told := canonical(v, c.step)
		if c.err == nil && (!told || !o.values[text]) {
			ok = c.wrong(p, "%s", o.told)
		}
	}
	switch v := v.(type) {
	case json.Number:
		ok = c.number(n, v, p) && ok
	case string:
		ok = c.text(n, v, p) && ok
	case []any:
		ok = c.array(n, v, p, depth) && ok
	case map[string]any:
		ok = c.object(n, v, p, depth) && ok
	}
	return c.applied(n, v, p, depth+1) && ok && c.err == nil
}

func (c *check) kind(n *node, v any, p *place) bool {
	if n.kinds == nil {
		return true
	}
	got := "null"
	switch v := v.(type) {
	case bool:
		got = "boolean"
	case json.Number:
		got = "number"
		if slices.Contains(n.kinds, "integer") && c.step(numberSteps(v)) && integral(v) {
			return true
		}
	case string:
		got = "string"
	case []any:
		got = "array"
	case map[string]any:
		got = "object"
	}
	if slices.Contains(n.kinds, got) {
		return true
	}
	return c.wrong(p, "got %s, want %s", got, strings.Join(n.kinds, " or "))
}

func (c *check) number(n *node, v json.Number, p *place) bool {
	if len(n.bounds) == 0 {
		return true
	}
	if !c.step(numberSteps(v)) {
		return false
	}
	got, ok := rat(v)
	if !ok {
		return c.wrong(p, "a number too large or too small to check")
	}
	for _, b := range n.bounds {
		if !c.step(numberSteps(v) + b.steps) {
			return false
		}
		if !b.holds(got) {
			ok = c.wrong(p, "%s: got %s, want %s", b.word, shown(got), shown(b.want))
		}
	}
	return ok
}

func (c *check) text(n *node, v string, p *place) bool {
	if !c.step(len(v) / stepBytes) {
		return false
	}
	ok := true
	if len(n.sizes) > 0 {
		ok = c.sizes(n, "string", utf8.RuneCountInString(v), p)
	}
	if n.pattern != nil && !c.matches(n.pattern, v) {
		ok = c.wrong(p, "%s does not match pattern %s", quote(v), quote(n.pattern.text))
	}
	if n.format != nil && c.step(n.format.steps(v)) && !n.format.fits(v) {
		ok = c.wrong(p, "%s is not valid %s", quote(v), n.format.name)
	}
	return ok
}

func (c *check) matches(r *pattern, text string) bool {
	return c.step(1+len(text)*r.size/stepBytes) && r.re.MatchString(text)
}

func (c *check) sizes(n *node, kind string, got int, p *place) bool {
	ok := true
	for _, s := range n.sizes {
		if s.kind == kind && (s.most && got > s.want || !s.most && got < s.want) {
			ok = c.wrong(p, "%s: got %d, want %d", s.word, got, s.want)
		}
	}
	return ok
}

func (c *check) array(n *node, v []any, p *place, depth int) bool {
	ok := c.sizes(n, "array", len(v), p)
	if n.unique {
		ok = c.distinct(v, p) && ok
	}
	for i, e := range v {
		s := n.items
		if i < len(n.prefix) {
			s = n.prefix[i]
		}
		if s != nil {
			ok = c.node(s, e, &place{p, strconv.Itoa(i)}, depth+1) && ok
		}
		if c.err != nil {
			return false
		}
	}
	if n.contains == nil {
		return ok
	}
	matched := 0
	for _, e := range v {
		if c.fits(n.contains, e, p, depth+1) {
			matched++
		}
	}
	switch {
	case matched < n.least && n.least == 1:
		ok = c.wrong(p, "no items match contains schema")
	case matched < n.least:
		ok = c.wrong(p, "min %d items required to match contains schema, but %d matched", n.least, matched)
	case n.most >= 0 && matched > n.most:
		ok = c.wrong(p, "max %d items required to match contains schema, but %d matched", n.most, matched)
	}
	return ok
}

func (c *check) distinct(v []any, p *place) bool {
	seen := map[string]int{}
	for i, e := range v {
		text, ok := canonical(e, c.step)
		if c.err != nil {
			return false
		}
		if first, there := seen[text]; ok && there {
			return c.wrong(p, "items at %d and %d are equal", first, i)
		}
		seen[text] = i
	}
	return true
}

func (c *check) object(n *node, v map[string]any, p *place, depth int) bool {
	ok := c.sizes(n, "object", len(v), p)
	for _, name := range n.required {
		if _, there := v[name]; c.step(1) && !there {
			ok = c.wrong(p, "missing property %s", quote(name))
		}
	}
	if n.props == nil && n.patterns == nil && n.more == nil && n.names == nil && n.needs == nil || !c.step(len(v)) {
		return ok
	}
	var extra []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if !c.step(1 + len(name)/stepBytes) {
			return false
		}
		at, known := &place{p, name}, false
		if s := n.props[name]; s != nil {
			known, ok = true, c.node(s, v[name], at, depth+1) && ok
		}
		for _, r := range n.patterns {
			if c.matches(r.pattern, name) {
				known, ok = true, c.node(r.node, v[name], at, depth+1) && ok
			}
		}
		switch {
		case known || n.more == nil:
		case n.more.never:
			extra = append(extra, name)
		default:
			ok = c.node(n.more, v[name], at, depth+1) && ok
		}
		if n.names != nil && !c.fits(n.names, name, at, depth+1) {
			ok = c.wrong(p, "invalid propertyName %s", quote(name))
		}
		if missing := c.missing(n.needs[name], v); missing != nil {
			ok = c.wrong(p, "properties %s required, if %s exists", quoted(missing), quote(name))
		}
	}
	if extra != nil {
		ok = c.wrong(p, "additional properties %s not allowed", quoted(extra))
	}
	return ok
}

func (c *check) missing(names []string, v map[string]any) (out []string) {
	for _, name := range names {
		if _, there := v[name]; c.step(1) && !there {
			out = append(out, name)
		}
	}
	return out
}

// applied checks a value against the schemas that a schema combines.
func (c *check) applied(n *node, v any, p *place, depth int) bool {
	ok := n.ref == nil || c.node(n.ref, v, p, depth)
	for _, s := range n.all {
		ok = c.node(s, v, p, depth) && ok
	}
	if n.any != nil {
		ok = c.matching(n.any, v, p, depth, 1) != nil && ok
	}
	if n.one != nil {
		if matched := c.matching(n.one, v, p, depth, 2); len(matched) > 1 {
			ok = c.wrong(p, "'oneOf' failed, subschemas %d, %d matched", matched[0], matched[1])
		} else {
			ok = len(matched) == 1 && ok
		}
	}
	if n.not != nil && c.fits(n.not, v, p, depth) {
		ok = c.wrong(p, "'not' failed")
	}
	if n.cond != nil {
		next := n.otherwise
		if (n.then != nil || next != nil) && c.fits(n.cond, v, p, depth) {
			next = n.then
		}
		ok = (next == nil || c.node(next, v, p, depth)) && ok
	}
	if object, is := v.(map[string]any); is {
		for _, name := range slices.Sorted(maps.Keys(n.with)) {
			if _, there := object[name]; there {
				ok = c.node(n.with[name], v, p, depth) && ok
			}
		}
	}
	return ok
}

// matching returns the indexes of the first schemas that the value fits, at most `most` of them.
// Violations of the other schemas are kept only if none fits.
func (c *check) matching(list []*node, v any, p *place, depth, most int) (matched []int) {
	told := len(c.out)
	for i, s := range list {
		if c.node(s, v, p, depth) {
			if matched = append(matched, i); len(matched) == most {
				break
			}
		}
	}
	if matched != nil {
		c.out = c.out[:told]
	}
	return matched
}
