// Package repair mends the JSON of a model's tool calls where there is one reading
// of it, and refuses it where there are more: a call with arguments that the model
// did not mean is worse than none.
//
// Mended are a fence or prose around one object, an object within a JSON string,
// equal objects in a row, comments, trailing commas, keys and strings in single or
// typographic quotes, bare keys, raw line breaks in strings, the literals of Python,
// and, where the answer was not cut off, brackets that are missing at the very end.
// Refused is whatever ends within a value, numbers that are none of JSON's, a key
// that has two values, and anything else.
package repair

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxBytes  = 256 << 10
	maxDepth  = 100
	maxNested = 3 // objects within strings within strings
)

// Object is the JSON object that was meant, and whether there is one. Of one that
// is valid nothing is changed but the space around it. cut says that the model's
// answer ended at its limit: then what is missing at the end is not known.
func Object(broken string, cut bool) (json.RawMessage, bool) {
	return object(broken, cut, maxNested)
}

func object(broken string, cut bool, nested int) (json.RawMessage, bool) {
	if len(broken) > maxBytes || !utf8.ValidString(broken) || nested == 0 {
		return nil, false
	}
	text := strings.TrimFunc(broken, isSpace)
	if text == "" {
		return nil, false
	}
	if text[0] == '{' && json.Valid([]byte(text)) && unique(text) {
		return json.RawMessage(text), true
	}
	if inner, ok := quoted(text); ok {
		return object(inner, cut, nested-1)
	}
	text, ok := unfenced(text)
	if !ok {
		return nil, false
	}
	from := strings.IndexByte(text, '{')
	if from < 0 || !prose(text[:from]) {
		return nil, false
	}
	p := &parser{text: text, at: from, closing: !cut}
	if !p.object(0) {
		return nil, false
	}
	if p.unclosed {
		return checked(p.out.Bytes())
	}
	return behind(p, cut, nested-1)
}

// behind looks at what follows an object: prose, a closing bracket too many, or the
// same object again.
func behind(p *parser, cut bool, nested int) (json.RawMessage, bool) {
	out, ok := checked(p.out.Bytes())
	if !ok {
		return nil, false
	}
	rest := strings.TrimFunc(p.text[p.at:], isSpace)
	rest = strings.TrimLeft(rest, ";")
	if braces := strings.Trim(rest, "} \n\t\r"); braces == "" && strings.Count(rest, "}") <= 1 {
		return out, true
	}
	if strings.HasPrefix(rest, "{") {
		if again, ok := object(rest, cut, nested); ok && same(again, out) {
			return out, true
		}
		return nil, false
	}
	if !prose(rest) {
		return nil, false
	}
	return out, true
}

// same reports whether two objects are equal.
func same(a, b json.RawMessage) bool {
	x, ok := sum(string(a))
	y, ok2 := sum(string(b))
	return ok && ok2 && x == y
}

// prose reports whether a text around an object is no JSON.
func prose(s string) bool { return !strings.ContainsAny(s, "{}[]") }

// checked holds that what was mended is an object, each key of which has one value.
func checked(raw []byte) (json.RawMessage, bool) {
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) || !unique(string(raw)) {
		return nil, false
	}
	return bytes.Clone(raw), true
}

// quoted is the text within a JSON string, where the whole is one.
func quoted(text string) (inner string, ok bool) {
	return inner, text[0] == '"' && json.Unmarshal([]byte(text), &inner) == nil
}

// unfenced takes a Markdown fence off; false where there are several.
func unfenced(text string) (string, bool) {
	const fence = "```"
	open := strings.Index(text, fence)
	brace := strings.IndexByte(text, '{')
	if open < 0 || brace >= 0 && brace < open && !strings.Contains(text[strings.LastIndexByte(text, '}')+1:], fence) {
		return text, true // none, or one within a string
	}
	if open > brace { // only the closing one
		return text[:strings.LastIndex(text, fence)], true
	}
	inner := text[open+len(fence):]
	inner = strings.TrimLeftFunc(inner, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
	end := strings.LastIndex(inner, fence)
	if end < 0 {
		return inner, true
	}
	return inner[:end], prose(inner[end+len(fence):]) && prose(text[:open])
}

// isSpace is what stands between the parts of JSON, and what models take for it.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' || r == '\u200b' }

// unique reports whether no object has a key twice, but for equal values.
func unique(text string) bool {
	_, ok := sum(text)
	return ok
}

// sum is equal for equal objects; false, where one gives a key two values.
func sum(text string) ([sha256.Size]byte, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return digest(d)
}

// digest reads a value and is equal for equal ones; false, where an object gives a
// key two.
func digest(d *json.Decoder) (sum [sha256.Size]byte, ok bool) {
	t, err := d.Token()
	if err != nil {
		return sum, false
	}
	h := sha256.New()
	switch t {
	case json.Delim('{'):
		members := map[string][sha256.Size]byte{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return sum, false
			}
			v, ok := digest(d)
			name, _ := key.(string)
			if before, has := members[name]; !ok || has && before != v {
				return sum, false
			}
			members[name] = v
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			v := members[name]
			fmt.Fprintf(h, "%q%x", name, v)
		}
		_, err = d.Token()
	case json.Delim('['):
		for d.More() {
			v, ok := digest(d)
			if !ok {
				return sum, false
			}
			h.Write(v[:])
		}
		_, err = d.Token()
	default:
		fmt.Fprintf(h, "%T%v", t, t)
	}
	fmt.Fprintf(h, "%T%v", t, t)
	h.Sum(sum[:0])
	return sum, err == nil
}
