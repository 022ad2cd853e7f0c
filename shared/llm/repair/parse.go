package repair

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// parser reads text that is nearly JSON and writes valid JSON. Each method reads one element. It
// returns false if the text has no interpretation, or more than one.
type parser struct {
	text     string
	at       int
	closing  bool // brackets that are missing at the end may be added
	unclosed bool // the text ended and brackets were added
	broke    bool // the last skipped space contained a line break
	out      bytes.Buffer
}

func (p *parser) peek() rune {
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return r
}

// over reports whether the whole text is read.
func (p *parser) over() bool { return p.at >= len(p.text) }

// space skips white space, comments and escaped line breaks. It returns false if a comment does not
// end.
func (p *parser) space() bool {
	p.broke = false
	for !p.over() {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		switch {
		case isSpace(r):
			p.broke = p.broke || r == '\n' || r == '\r'
			p.at += n
		case r == '\\' && p.at+1 < len(p.text) && strings.IndexByte("nrt", p.text[p.at+1]) >= 0:
			p.broke = p.broke || p.text[p.at+1] != 't'
			p.at += 2
		case strings.HasPrefix(p.text[p.at:], "//"):
			end := strings.IndexByte(p.text[p.at:], '\n')
			if end < 0 {
				return false // the comment may hide more than one line
			}
			p.at += end
		case strings.HasPrefix(p.text[p.at:], "/*"):
			end := strings.Index(p.text[p.at:], "*/")
			if end < 0 {
				return false
			}
			p.at += end + 2
		default:
			return true
		}
	}
	return true
}

// object reads {…}.
func (p *parser) object(depth int) bool {
	return p.list(depth, '{', '}', func() bool {
		if !p.key() || !p.space() || p.over() || p.text[p.at] != ':' {
			return false
		}
		p.at++
		p.out.WriteByte(':')
		return p.value(depth + 1)
	})
}

// list reads elements between brackets. Commas separate them; one may follow the last.
func (p *parser) list(depth int, open, end byte, element func() bool) bool {
	if depth > maxDepth {
		return false
	}
	p.at++ // the opening bracket
	p.out.WriteByte(open)
	if open == '{' && p.space() && !p.over() && p.text[p.at] == ',' { // a comma before the first member
		if p.at++; !p.space() || p.over() || p.text[p.at] == end {
			return false
		}
	}
	for first := true; ; first = false {
		if !p.space() {
			return false
		}
		if p.over() {
			return p.close(end, first)
		}
		if p.text[p.at] == end {
			p.at++
			p.out.WriteByte(end)
			return true
		}
		if !first {
			p.out.WriteByte(',')
		}
		if !element() {
			return false
		}
		if p.unclosed {
			p.out.WriteByte(end)
			return true
		}
		if !p.space() {
			return false
		}
		switch {
		case p.over():
			return p.close(end, false)
		case p.text[p.at] == ',':
			p.at++
		case p.text[p.at] != end && !p.missing(open):
			return false
		}
	}
}

// missing reports whether a comma is missing here. That is only certain after a line break: before
// a name in an object, or before an object or a list in a list. Two strings in a list may have been
// meant as one, and so may two numbers.
func (p *parser) missing(open byte) bool {
	if open == '{' {
		return p.broke && closer(p.peek()) != 0
	}
	return p.broke && (p.text[p.at] == '{' || p.text[p.at] == '[')
}

// close adds a closing bracket that is missing at the end. It refuses an empty list, because its
// elements may be missing.
func (p *parser) close(end byte, empty bool) bool {
	if !p.closing || empty || strings.HasSuffix(strings.TrimRightFunc(p.text, isSpace), ",") {
		return false
	}
	p.unclosed = true
	p.out.WriteByte(end)
	return true
}

// value reads any value.
func (p *parser) value(depth int) bool {
	if !p.space() || p.over() {
		return false
	}
	switch r := p.peek(); {
	case r == '{':
		return p.object(depth)
	case r == '[':
		return p.list(depth, '[', ']', func() bool { return p.value(depth + 1) })
	case closer(r) != 0:
		return p.string()
	}
	return p.literal()
}

// closer returns the quote that ends a string which begins with r, or 0 if r is not a quote.
func closer(r rune) rune {
	switch r {
	case '"', '\'':
		return r
	case '“':
		return '”'
	case '‘':
		return '’'
	}
	return 0
}

// key reads a member's name: a string, a whole number, or a bare word.
func (p *parser) key() bool {
	if closer(p.peek()) != 0 {
		return p.string()
	}
	from := p.at
	for !p.over() && p.text[p.at] >= '0' && p.text[p.at] <= '9' {
		p.at++
	}
	if digits := p.text[from:p.at]; digits != "" {
		return (digits == "0" || digits[0] != '0') && p.write(digits)
	}
	for !p.over() {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		if r != '_' && r != '$' && !unicode.IsLetter(r) && (p.at == from || r != '-' && !unicode.IsDigit(r)) {
			break
		}
		p.at += n
	}
	if p.at == from {
		return false
	}
	return p.write(p.text[from:p.at])
}

// string reads a string to its closing quote. After it, the text must continue as after a key or a
// value: otherwise the quote may belong to the string's content.
func (p *parser) string() bool {
	end := closer(p.peek())
	p.at += utf8.RuneLen(p.peek())
	var b strings.Builder
	for !p.over() {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		p.at += n
		switch {
		case r == end:
			return p.ends() && p.write(b.String())
		case r == '\\':
			if !p.escape(&b) {
				return false
			}
		case end != '"' && r == '"' && end != '\'':
			return false // typographic outside, straight inside: ambiguous
		default:
			b.WriteRune(r)
		}
	}
	return false
}

// ends reports whether the text after a closing quote may follow a string.
func (p *parser) ends() bool {
	next := parser{text: p.text, at: p.at}
	return next.space() && (next.over() || strings.IndexByte(",:}]", p.text[next.at]) >= 0 || next.missing('{'))
}

// escape reads the characters after a backslash.
func (p *parser) escape(b *strings.Builder) bool {
	if p.over() {
		return false
	}
	c := p.text[p.at]
	if c == '\'' {
		p.at++
		b.WriteByte(c)
		return true
	}
	n := 1
	if c == 'u' {
		n = 5
		// The first half of a surrogate pair belongs together with the second.
		if high := strings.ToLower(p.text[p.at+1 : min(len(p.text), p.at+3)]); "d8" <= high && high <= "db" {
			n = 11
		}
	}
	for _, n := range []int{n, min(n, 5)} {
		var s string
		if p.at+n <= len(p.text) && json.Unmarshal([]byte(`"\`+p.text[p.at:p.at+n]+`"`), &s) == nil {
			p.at += n
			b.WriteString(s)
			return true
		}
	}
	return false
}

// literals maps literal words, in JSON and other languages, to JSON.
var literals = map[string]string{
	"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null",
	"TRUE": "true", "FALSE": "false", "NULL": "null", "NONE": "null", "Null": "null",
}

// literal reads a number or a word. It refuses a number at the very end of the text, because digits
// may be missing.
func (p *parser) literal() bool {
	from := p.at
	for !p.over() && !strings.ContainsRune(",:}]{[ \t\r\n/\\\"'", rune(p.text[p.at])) {
		p.at++
	}
	word := p.text[from:p.at]
	if p.over() && literals[word] == "" {
		return false
	}
	if known, ok := literals[word]; ok {
		p.out.WriteString(known)
		return true
	}
	var n json.Number
	if word == "" || json.Unmarshal([]byte(word), &n) != nil || word[0] == '"' {
		return false
	}
	p.out.WriteString(word)
	return true
}

// write writes a JSON string.
func (p *parser) write(s string) bool {
	e := json.NewEncoder(&p.out)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return false
	}
	p.out.Truncate(p.out.Len() - 1) // the line break
	return true
}
