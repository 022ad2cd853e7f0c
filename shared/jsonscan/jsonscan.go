// Package jsonscan splits a valid JSON text into tokens with their positions, so that parts of the
// text can be replaced while everything else stays the same, byte by byte. It also decodes and encodes
// values as they are written.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// Token is a part of a JSON text: Text[Start:End]. Its kind is the character of a bracket ({ } [
// ]), " for a string, 0 for a number, and t for true, false and null.
type Token struct {
	Kind       byte
	Start, End int
	Name       bool // a string that is a member's name
}

// Scanner reads the tokens of a JSON text. The text must be valid ([json.Valid]).
type Scanner struct {
	Text string
	i    int
	open []byte // open brackets: { and [
	name bool   // a member's name comes next
}

// New returns a scanner at the beginning of a valid JSON text.
func New(text string) *Scanner { return &Scanner{Text: text} }

// At returns the position after the last Token.
func (sc *Scanner) At() int { return sc.i }

// Depth returns the number of open brackets after the last Token.
func (sc *Scanner) Depth() int { return len(sc.open) }

// Next returns the next Token, or false at the end.
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

// Decoded returns the text of a token of kind ".
func (sc *Scanner) Decoded(t Token) string {
	inner := sc.Text[t.Start+1 : t.End-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var text string
	_ = json.Unmarshal([]byte(sc.Text[t.Start:t.End]), &text) // it is valid
	return text
}

// Sole reads the object that begins with the token t, if its only member has the given name and a
// string as value. It returns the value's token and moves the scanner past the object. If the
// object is different, it does not move the scanner.
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

// Quote returns a text as a JSON string.
func Quote(s string) string {
	text, _ := Encode(s) // strings always encode
	return text
}

// Decode reads one JSON value into v. In values of type any it keeps numbers as they are written.
func Decode(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// Encode returns v as JSON and does not escape <, > and &.
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

// Apply applies edits to a text. The edits must be in order and must not overlap.
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
