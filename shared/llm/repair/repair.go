// Package repair mends the JSON of a model's tool calls where there is one reading
// of it, and refuses it where there are more: a call with arguments that the model
// did not mean is worse than none.
//
// Mended are a fence or prose around one object, an object within a JSON string,
// an object whose every quote is escaped, equal objects in a row, an empty object
// before the arguments, comments, trailing commas, one before the first member or
// missing at a line break, escaped line breaks between the parts, keys and strings in
// single or typographic quotes, bare keys and numbers for keys, raw line breaks in
// strings, the literals of Python and in capitals, and, where the answer was not cut
// off, brackets that are missing at the very end.
// Refused is whatever ends within a value, numbers that are none of JSON's, a key
// that has two values, an empty object in prose, and anything else.
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

// empty is an object that says nothing.
const empty = "{}"

// trailing looks at what follows an object: prose, a closing bracket too many, or the
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
		case ok && string(out) == empty: // it was there before the arguments came
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

// unescaped is an object of which all was escaped as in a string, without the quotes.
func unescaped(text string) (inner string, ok bool) {
	p := parser{text: text, at: 1}
	if text[0] != '{' || !p.space() || !strings.HasPrefix(text[p.at:], `\"`) {
		return "", false
	}
	text = strings.NewReplacer("\\\n", "\n", "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(text) // an escaped raw break stays, and is refused
	return inner, json.Unmarshal([]byte(`"`+text+`"`), &inner) == nil
}

// alone reports whether nothing but a fence stands around the braces of a text: no
// prose, in which an object may only be spoken of.
func alone(text string) bool {
	before, _, _ := strings.Cut(text, "{")
	after := text[strings.LastIndexByte(text, '}')+1:]
	around := strings.NewReplacer("```json", "", "```JSON", "", "```", "").Replace(before + after)
	return strings.TrimFunc(around, func(r rune) bool { return isSpace(r) || r == ';' }) == ""
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
