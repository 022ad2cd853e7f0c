// Package jsonscan takes a valid JSON text apart into tokens with their positions, so that parts
// of it can be replaced while everything else stays as it is, to the byte.
package jsonscan

import (
	"encoding/json"
	"strings"
)

// Token is a part of a JSON text: Text[Start:End]. Its kind is the first character of what it
// is: { } [ ] " for a text, 0 for a number, t for true, false and null.
type Token struct {
	Kind       byte
	Start, End int
	Name       bool // a text that names a member
}

// Scanner reads the tokens of a JSON text. The text must be valid ([json.Valid]).
type Scanner struct {
	Text string
	i    int
	open []byte // { and [ that are open
	name bool   // a member's name comes next
}

// New returns a scanner at the beginning of a valid JSON text.
func New(text string) *Scanner { return &Scanner{Text: text} }

// At returns the position behind the last Token.
func (sc *Scanner) At() int { return sc.i }

// Depth returns how many brackets are open behind the last Token.
func (sc *Scanner) Depth() int { return len(sc.open) }

// Next returns the next Token; false at the end.
func (sc *Scanner) Next() (Token, bool) {
	for ; sc.i < len(sc.Text); sc.i++ {
		switch c := sc.Text[sc.i]; c {
		case ' ', '\t', '\n', '\r', ':':
		case ',':
			sc.name = sc.open[len(sc.open)-1] == '{'
		case '{', '[':
			sc.open = append(sc.open, c)
			sc.name = c == '{'
			sc.i++
			return Token{c, sc.i - 1, sc.i, false}, true
		case '}', ']':
			sc.open = sc.open[:len(sc.open)-1]
			sc.name = false
			sc.i++
			return Token{c, sc.i - 1, sc.i, false}, true
		case '"':
			return sc.text(), true
		default:
			return sc.scalar(c), true
		}
	}
	return Token{}, false
}

func (sc *Scanner) text() Token {
	t := Token{Kind: '"', Start: sc.i, Name: sc.name}
	for sc.i++; sc.Text[sc.i] != '"'; sc.i++ {
		if sc.Text[sc.i] == '\\' {
			sc.i++
		}
	}
	sc.i++
	t.End, sc.name = sc.i, false
	return t
}

func (sc *Scanner) scalar(c byte) Token {
	t := Token{Kind: '0', Start: sc.i}
	if c == 't' || c == 'f' || c == 'n' {
		t.Kind = 't'
	}
	n := strings.IndexAny(sc.Text[sc.i:], ",]} \t\n\r")
	if n < 0 {
		n = len(sc.Text) - sc.i
	}
	sc.i += n
	t.End = sc.i
	return t
}

// Decoded returns the text that a token of kind " stands for.
func (sc *Scanner) Decoded(t Token) string {
	inner := sc.Text[t.Start+1 : t.End-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var text string
	_ = json.Unmarshal([]byte(sc.Text[t.Start:t.End]), &text) // it is valid
	return text
}

// Sole reads an object that begins with the token t and has one member, with the given name and
// a text as its value. It returns the value's token, and the scanner is then behind the object.
// Another object is left unread.
func (sc *Scanner) Sole(t Token, member string) (value Token, ok bool) {
	ahead := Scanner{Text: sc.Text, i: t.Start}
	ahead.Next()
	key, ok := ahead.Next()
	if !ok || !key.Name || ahead.Decoded(key) != member {
		return Token{}, false
	}
	value, _ = ahead.Next()
	closing, _ := ahead.Next()
	if value.Kind != '"' || closing.Kind != '}' {
		return Token{}, false
	}
	sc.i, sc.name = ahead.i, false
	sc.open = sc.open[:len(sc.open)-1]
	return value, true
}

// Quote returns a text as JSON.
func Quote(s string) string {
	text, _ := Encode(s) // a text always encodes
	return text
}

// Encode returns v as JSON, with <, > and & as they are.
func Encode(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// Edit replaces a part of a text.
type Edit struct {
	Start, End int
	With       string
}

// Apply makes edits in a text. They are in order and do not overlap.
func Apply(s string, edits []Edit) string {
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(s[at:e.Start])
		b.WriteString(e.With)
		at = e.End
	}
	b.WriteString(s[at:])
	return b.String()
}
