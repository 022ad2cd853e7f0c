package activity

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

const (
	maxBody  = 32 << 10
	maxError = 4 << 10
	maxName  = 255
	// MaxDepth is the deepest nesting of JSON; SQLite accepts 1,000.
	MaxDepth = 200
)

// Storable returns v in a form that the JSON columns of both databases accept. Each NUL character,
// half surrogate pair and byte that is not UTF-8 becomes U+FFFD. Numbers that don't fit become
// strings. Values nested deeper than [MaxDepth] are removed. Text that is not JSON becomes a JSON
// string. Most values are returned unchanged.
func Storable(v json.RawMessage) json.RawMessage {
	if len(v) == 0 {
		return v
	}
	valid := json.Valid(v)
	brackets := bytes.Count(v, []byte("[")) + bytes.Count(v, []byte("{"))
	if valid && utf8.Valid(v) && brackets <= MaxDepth && !suspect(v) {
		return v
	}
	doc := any(string(v))
	if valid {
		_ = jsonscan.Decode(v, &doc) // never fails for valid JSON
	}
	out, _ := jsonscan.Encode(scrub(doc, 1)) // never fails for decoded JSON
	return json.RawMessage(out)
}

// suspect reports whether something may need to be replaced: an escaped character, a number with a
// long exponent, a long number. It must be fast, because it examines every line of the log.
func suspect(v []byte) bool {
	run := 0 // number of digits and dots directly before c
	for i, c := range v {
		switch {
		case c == '.' || digit(c):
			if run++; run == longNumber {
				return true
			}
			continue
		case c == '\\':
			if i+1 < len(v) && v[i+1] == 'u' {
				return true
			}
		case (c == 'e' || c == 'E') && i > 0 && digit(v[i-1]):
			exponent := v[i+1:]
			if len(exponent) > 0 && (exponent[0] == '+' || exponent[0] == '-') {
				exponent = exponent[1:]
			}
			if len(exponent) >= 3 && digit(exponent[0]) && digit(exponent[1]) && digit(exponent[2]) {
				return true
			}
		}
		run = 0
	}
	return false
}

// longNumber is the number of digits from which on a number is checked.
const longNumber = 300

func digit(c byte) bool { return '0' <= c && c <= '9' }

func scrub(v any, depth int) any {
	if depth > MaxDepth+1 {
		return "…"
	}
	switch v := v.(type) {
	case string:
		return Text(v)
	case json.Number:
		if !Fits(v) {
			return string(v)
		}
	case []any:
		for i := range v {
			v[i] = scrub(v[i], depth+1)
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for k, e := range v {
			clean[Text(k)] = scrub(e, depth+1)
		}
		return clean
	}
	return v
}

// The largest number of digits after the point, and the largest exponent, of a number of Postgres.
const (
	maxScale    = 16_383
	maxExponent = 1 << 29
)

// Fits reports whether a float64 and a number of the database can hold n.
func Fits(n json.Number) bool {
	f, err := n.Float64()
	mantissa, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	_, fraction, _ := strings.Cut(mantissa, ".")
	shift, _ := strconv.Atoi(exponent) // beyond an int it is the largest or the smallest one
	return err == nil && (f != 0 || !strings.ContainsAny(mantissa, "123456789")) &&
		-maxScale <= shift && shift <= maxExponent && len(fraction)-shift <= maxScale
}

// Text returns s in a form that the text columns of both databases accept: each NUL character and
// each byte that is not UTF-8 becomes U+FFFD.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// cut replaces a JSON value over 32 KiB by a marker that contains its beginning.
func cut(v json.RawMessage) json.RawMessage {
	if len(v) <= maxBody {
		return v
	}
	const envelope = 256 // the marker's own text
	for keep := maxBody - envelope; ; keep /= 2 {
		marked, err := json.Marshal(struct {
			Truncated bool   `json:"truncated"`
			Bytes     int    `json:"bytes"`
			Beginning string `json:"beginning"`
		}{true, len(v), limit(string(v), keep)})
		if err == nil && len(marked) <= maxBody { // quoting may have made it longer
			return marked
		}
	}
}

// short returns a text column's value of at most n bytes.
func short(s string, n int) string { return limit(Text(s), n) }

// Clip returns s, or its first n bytes in whole characters and an ellipsis.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// limit shortens s to at most n bytes without splitting a character.
func limit(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
