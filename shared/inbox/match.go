package inbox

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
)

// maxMatched is the longest part of a text that a regular expression is matched with, in bytes.
const maxMatched = 16 << 10

// match returns the first rule that matches a delivery, and whether there is one.
func match(rules []Rule, env environment) (Rule, bool) {
	event := env.text("event")
	for _, r := range rules {
		if r.matches(event, env) {
			return r, true
		}
	}
	return Rule{}, false
}

func (r Rule) matches(event string, env environment) bool {
	if r.Event != "" && !glob(r.Event, event) {
		return false
	}
	for _, c := range r.When {
		if !c.holds(env) {
			return false
		}
	}
	return true
}

// glob reports whether a text matches a pattern, in which * matches any text.
func glob(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	parts := strings.Split(rest, "*")
	for _, part := range parts[:len(parts)-1] {
		if !ok {
			return false
		}
		_, text, ok = strings.Cut(text, part) // the earliest match leaves the most text to the other parts
	}
	return ok && strings.HasSuffix(text, parts[len(parts)-1])
}

// holds reports whether the condition holds. For a missing value, only ne and exists can hold.
func (c Condition) holds(env environment) bool {
	want, _ := decodeJSON(c.Value) // validated when the rule was stored
	got, found := env.find(c.Path)
	switch c.Op {
	case Exists:
		return found == (want != false)
	case Ne:
		return !found || !equal(got, want)
	}
	if !found {
		return false
	}
	switch c.Op {
	case Eq:
		return equal(got, want)
	case In:
		return has(want, got)
	case Contains:
		if text, is := got.(string); is {
			part, ok := want.(string)
			return ok && strings.Contains(text, part)
		}
		return has(got, want)
	case Gt:
		return less(want, got)
	case Lt:
		return less(got, want)
	case Matches:
		expression, _ := want.(string)
		text := env.text(c.Path)
		re, err := regexp.Compile(expression)
		return err == nil && re.MatchString(text[:min(len(text), maxMatched)])
	case Exists, Ne:
	}
	return false
}

func has(array, v any) bool {
	items, _ := array.([]any)
	for _, item := range items {
		if equal(item, v) {
			return true
		}
	}
	return false
}

// equal compares JSON values. Numbers are equal if their values are equal.
func equal(a, b any) bool {
	x, isX := a.(json.Number)
	y, isY := b.(json.Number)
	if isX && isY {
		return x == y || !less(a, b) && !less(b, a) && ordered(a, b)
	}
	return reflect.DeepEqual(a, b)
}

// ordered reports whether both values are numbers that can be compared.
func ordered(a, b any) bool {
	x, isX := a.(json.Number)
	y, isY := b.(json.Number)
	if !isX || !isY {
		return false
	}
	_, err1 := x.Float64()
	_, err2 := y.Float64()
	return err1 == nil && err2 == nil
}

// less compares two numbers or two texts.
func less(a, b any) bool {
	if s, is := a.(string); is {
		t, ok := b.(string)
		return ok && s < t
	}
	if !ordered(a, b) {
		return false
	}
	x, y := a.(json.Number), b.(json.Number)
	i, err1 := x.Int64()
	j, err2 := y.Int64()
	if err1 == nil && err2 == nil {
		return i < j
	}
	f, _ := x.Float64()
	g, _ := y.Float64()
	return f < g
}
