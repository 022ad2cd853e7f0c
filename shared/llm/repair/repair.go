// Package repair repairs the JSON of a model's tool calls if the JSON has exactly one
// interpretation. It refuses JSON with more than one: a call with arguments that the model did not
// mean is worse than no call.
//
// It repairs a fence or prose around one object, an object within a JSON string, an object whose
// quotes are all escaped, equal objects in sequence, an empty object before the arguments,
// comments, trailing commas, a comma before the first member, a comma that is missing at a line
// break, escaped line breaks between the parts, keys and strings in single or typographic quotes,
// bare keys, numbers as keys, raw line breaks in strings, the literals of Python, literals in
// capitals, and brackets that are missing at the very end, unless the answer was cut off.
//
// It refuses text that ends within a value, numbers that are not valid in JSON, a key with two
// values, an empty object in prose, and anything else.
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
	maxNested = 3 // levels of objects within strings
)

// Object returns the JSON object that the model meant, and whether there is one. It changes a valid
// object only by trimming the space around it. cut says that the model's answer reached its limit:
// then missing brackets are not added, because more may be missing.
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
	if inner, ok := unescaped(text); ok {
		return object(inner, cut, nested-1)
	}
	bare := alone(text)
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
	out, ok := trailing(p, cut, nested-1)
	if !ok || string(out) == empty && !bare {
		return nil, false
	}
	return out, true
}

// empty is an object without members.
const empty = "{}"

// trailing checks the text after an object. It may be prose, one surplus closing bracket, or the
// same object again.
func trailing(p *parser, cut bool, nested int) (json.RawMessage, bool) {
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
		again, ok := object(rest, cut, nested)
		switch {
		case ok && string(out) == empty: // the empty object came before the arguments
			return again, true
		case ok && same(again, out):
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

// prose reports whether a text next to an object contains no JSON.
func prose(s string) bool { return !strings.ContainsAny(s, "{}[]") }

// checked validates the repaired text: it must be an object in which each key has one value.
func checked(raw []byte) (json.RawMessage, bool) {
	if len(raw) == 0 || raw[0] != '{' || !json.Valid(raw) || !unique(string(raw)) {
		return nil, false
	}
	return bytes.Clone(raw), true
}

// quoted returns the content of text if all of it is one JSON string.
func quoted(text string) (inner string, ok bool) {
	return inner, text[0] == '"' && json.Unmarshal([]byte(text), &inner) == nil
}

// unescaped returns the object whose quotes are all escaped, as in a JSON string but without the
// outer quotes.
func unescaped(text string) (inner string, ok bool) {
	p := parser{text: text, at: 1}
	if text[0] != '{' || !p.space() || !strings.HasPrefix(text[p.at:], `\"`) {
		return "", false
	}
	// An escaped raw line break stays as it is, and is refused later.
	text = strings.NewReplacer("\\\n", "\n", "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(text)
	return inner, json.Unmarshal([]byte(`"`+text+`"`), &inner) == nil
}

// alone reports whether the text around the braces is only a fence. In prose, an object may only be
// mentioned.
func alone(text string) bool {
	before, _, _ := strings.Cut(text, "{")
	after := text[strings.LastIndexByte(text, '}')+1:]
	around := strings.NewReplacer("```json", "", "```JSON", "", "```", "").Replace(before + after)
	return strings.TrimFunc(around, func(r rune) bool { return isSpace(r) || r == ';' }) == ""
}

// unfenced removes a Markdown fence. It returns false if there is text with JSON outside of the
// fence.
func unfenced(text string) (string, bool) {
	const fence = "```"
	open := strings.Index(text, fence)
	brace := strings.IndexByte(text, '{')
	if open < 0 || brace >= 0 && brace < open && !strings.Contains(text[strings.LastIndexByte(text, '}')+1:], fence) {
		return text, true // no fence, or one within a string
	}
	if open > brace { // only the closing fence
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

// isSpace reports whether r is white space, or a character that models use as such.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' || r == '\u200b' }

// unique reports whether no object has a key with two different values.
func unique(text string) bool {
	_, ok := sum(text)
	return ok
}

// sum returns a hash that is the same for equal objects. It returns false if an object has a key
// with two different values.
func sum(text string) ([sha256.Size]byte, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return digest(d)
}

// digest reads a value and returns a hash that is the same for equal values. It returns false if an
// object has a key with two different values.
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
