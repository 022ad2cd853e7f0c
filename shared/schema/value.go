package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// maxDigits limits the digits of a number, and its exponent.
const maxDigits = 1000

// numberSteps returns how many steps an operation on a number takes at most.
func numberSteps(n json.Number) int {
	size := min(len(n), maxDigits)
	if i := strings.IndexAny(string(n), "eE"); i >= 0 {
		exponent, _ := strconv.Atoi(string(n[i+1:]))
		exponent = min(max(exponent, -maxDigits), maxDigits)
		size += max(exponent, -exponent)
	}
	return 5 + size/20
}

// rat returns a number's value. It returns false if the number is too large or too small to
// calculate with.
func rat(n json.Number) (*big.Rat, bool) {
	text := string(n)
	if len(text) > maxDigits {
		return nil, false
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if strings.Trim(text[:i], "-0.") == "" {
			return new(big.Rat), true
		}
		if exponent, err := strconv.Atoi(text[i+1:]); err != nil || exponent > maxDigits || exponent < -maxDigits {
			return nil, false
		}
	}
	return new(big.Rat).SetString(text)
}

// integral reports whether a number is whole.
func integral(n json.Number) bool {
	if !strings.ContainsAny(string(n), ".eE") {
		return true
	}
	r, ok := rat(n)
	return ok && r.IsInt()
}

// canonical returns a text that is the same only for equal values. It calls step before each piece
// of work. It returns false if step does, or if the value contains a number that is too large or
// too small.
func canonical(v any, step func(int) bool) (string, bool) {
	var b strings.Builder
	ok := writeCanonical(&b, v, step)
	return b.String(), ok
}

func writeCanonical(b *strings.Builder, v any, step func(int) bool) bool {
	if !step(1) {
		return false
	}
	switch v := v.(type) {
	case json.Number:
		return writeNumber(b, v, step)
	case string:
		fmt.Fprintf(b, "%d:%s", len(v), v)
		return step(len(v) / stepBytes)
	case []any:
		b.WriteByte('[')
		for _, e := range v {
			if !writeCanonical(b, e, step) {
				return false
			}
		}
		b.WriteByte(']')
	case map[string]any:
		if !step(len(v)) {
			return false
		}
		b.WriteByte('{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !writeCanonical(b, name, step) || !writeCanonical(b, v[name], step) {
				return false
			}
		}
		b.WriteByte('}')
	default: // null, true, false
		fmt.Fprintf(b, "<%v>", v)
	}
	return true
}

func writeNumber(b *strings.Builder, n json.Number, step func(int) bool) bool {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		fmt.Fprintf(b, "#%d,", i)
		return true
	}
	if !step(numberSteps(n)) {
		return false
	}
	r, ok := rat(n)
	if !ok {
		return false
	}
	fmt.Fprintf(b, "#%s,", r.RatString())
	return true
}

// quote returns a text in the form used in violations.
func quote(s string) string {
	s = strings.ReplaceAll(strconv.Quote(s), `\"`, `"`)
	return "'" + strings.ReplaceAll(s[1:len(s)-1], "'", `\'`) + "'"
}

func quoted(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, quote(s))
	}
	return strings.Join(out, ", ")
}

// display returns a simple value in the form used in violations, or "" for an array or an object.
func display(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case []any, map[string]any:
		return ""
	}
	return fmt.Sprint(v)
}

// shown returns a number in the form used in violations.
func shown(r *big.Rat) string {
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
