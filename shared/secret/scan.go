package secret

import (
	"encoding/json"
	"strings"
)

// token is a part of a JSON text. Its kind is the first character of what it is: {
// } [ ] " for a text, 0 for a number, t for true, false and null.
type token struct {
	kind       byte
	start, end int
	name       bool // a text that names a member
}

// scanner takes a JSON text apart that is known to be valid.
type scanner struct {
	s    string
	i    int
	open []byte // { and [ that are open
	name bool   // a member's name comes next
}

// next is the next token; false at the end.
func (sc *scanner) next() (token, bool) {
	for ; sc.i < len(sc.s); sc.i++ {
		switch c := sc.s[sc.i]; c {
		case ' ', '\t', '\n', '\r', ':':
		case ',':
			sc.name = sc.open[len(sc.open)-1] == '{'
		case '{', '[':
			sc.open = append(sc.open, c)
			sc.name = c == '{'
			sc.i++
			return token{c, sc.i - 1, sc.i, false}, true
		case '}', ']':
			sc.open = sc.open[:len(sc.open)-1]
			sc.name = false
			sc.i++
			return token{c, sc.i - 1, sc.i, false}, true
		case '"':
			return sc.text(), true
		default:
			return sc.scalar(c), true
		}
	}
	return token{}, false
}

func (sc *scanner) text() token {
	t := token{kind: '"', start: sc.i, name: sc.name}
	for sc.i++; sc.s[sc.i] != '"'; sc.i++ {
		if sc.s[sc.i] == '\\' {
			sc.i++
		}
	}
	sc.i++
	t.end, sc.name = sc.i, false
	return t
}

func (sc *scanner) scalar(c byte) token {
	t := token{kind: '0', start: sc.i}
	if c == 't' || c == 'f' || c == 'n' {
		t.kind = 't'
	}
	n := strings.IndexAny(sc.s[sc.i:], ",]} \t\n\r")
	if n < 0 {
		n = len(sc.s) - sc.i
	}
	sc.i += n
	t.end = sc.i
	return t
}

// decoded is the text of a token of kind ".
func (sc *scanner) decoded(t token) string {
	inner := sc.s[t.start+1 : t.end-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var text string
	_ = json.Unmarshal([]byte(sc.s[t.start:t.end]), &text) // it is valid
	return text
}

// reference reads the reference to a secret that begins with t: an object whose one
// member is $secret with a text. It is then behind the reference.
func (sc *scanner) reference(t token) (name token, ok bool) {
	ahead := scanner{s: sc.s, i: t.start}
	ahead.next()
	key, ok := ahead.next()
	if !ok || !key.name || ahead.decoded(key) != referenceKey {
		return token{}, false
	}
	name, _ = ahead.next()
	closing, _ := ahead.next()
	if name.kind != '"' || closing.kind != '}' {
		return token{}, false
	}
	sc.i, sc.name = ahead.i, false
	sc.open = sc.open[:len(sc.open)-1]
	return name, true
}

// quoted is a text as JSON.
func quoted(s string) string {
	text, _ := encoded(s) // a text always encodes
	return text
}

// encoded is v as JSON, with <, > and & as they are.
func encoded(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// edit replaces a part of a text.
type edit struct {
	start, end int
	with       string
}

// apply makes edits, which are in order and do not overlap.
func apply(s string, edits []edit) string {
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(s[at:e.start])
		b.WriteString(e.with)
		at = e.end
	}
	b.WriteString(s[at:])
	return b.String()
}
