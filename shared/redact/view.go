package redact

import (
	"html"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// view is a text after decoding, with the position of each byte in the source. at is nil if nothing
// was decoded.
type view struct {
	text string
	at   []int32 // of each byte and the end: the position in the source where it began
}

// source returns the part of the source that [start, end) of the view came from.
func (v view) source(start, end int) (int, int) {
	if v.at == nil {
		return start, end
	}
	from, to := v.at[start], v.at[end]
	for to <= v.at[end-1] { // the end is inside the text of one escape
		end++
		to = v.at[end]
	}
	return int(from), int(to)
}

// from returns the position in the source of a position in the view.
func (v view) from(i int) int {
	if v.at == nil {
		return i
	}
	return int(v.at[i])
}

// encoding is a kind of escapes.
type encoding struct {
	starts string // the characters that an escape may begin with
	// read decodes the escape at i: it returns the decoded text and the length of the escape, 0 if there
	// is none.
	read func(s string, i int) (string, int)
	// partial reports whether a text may be the beginning of an escape that needs more.
	partial func(s string) bool
}

var (
	inJSON  = encoding{`\`, jsonEscape, partialJSON}
	inURL   = encoding{"%", percentEscape, partialPercent}
	inHTML  = encoding{"&", entity, partialEntity}
	inQuery = encoding{"+%", plusOrPercent, partialPercent} // of a URL, where a + is a space
)

// nested are the encodings in which another one may stand.
var nested = [...]encoding{inJSON, inURL, inHTML}

// decoded returns the decoded view, and false if nothing was decoded. open says that more may follow the
// text: then the view ends where an escape has only begun.
func (v view) decoded(e encoding, open bool) (view, bool) {
	first := strings.IndexAny(v.text, e.starts)
	if first < 0 {
		return view{}, false
	}
	var b strings.Builder
	b.Grow(len(v.text))
	at := make([]int32, 0, len(v.text)+1)
	changed := false
	i := 0
	for i < len(v.text) {
		text, n := v.text[i:i+1], 1
		if i >= first {
			if open && len(v.text)-i < maxEntity && e.partial(v.text[i:]) {
				changed = true
				break
			}
			if decoded, m := e.read(v.text, i); m > 0 {
				text, n, changed = decoded, m, true
			}
		}
		for range len(text) {
			at = append(at, int32(v.from(i)))
		}
		b.WriteString(text)
		i += n
	}
	return view{b.String(), append(at, int32(v.from(i)))}, changed
}

func jsonEscape(s string, i int) (string, int) {
	if s[i] != '\\' || i+1 == len(s) {
		return "", 0
	}
	const short, plain = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if n := strings.IndexByte(short, s[i+1]); n >= 0 {
		return plain[n : n+1], 2
	}
	r, ok := hexRune(s[i:])
	if !ok {
		return "", 0
	}
	if utf16.IsSurrogate(r) {
		if low, ok := hexRune(s[i+6:]); ok {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				return string(both), 12
			}
		}
	}
	return string(r), 6
}

// partialJSON also takes the first half of a pair of escapes for a beginning.
func partialJSON(s string) bool {
	if s[0] != '\\' || len(s) == 1 {
		return s[0] == '\\'
	}
	if s[1] != 'u' {
		return false
	}
	if r, ok := hexRune(s); ok {
		return r >= 0xd800 && r < 0xdc00 && len(s) < 12 && (len(s) == 6 || s[6] == '\\' && partialJSON(s[6:]))
	}
	return len(s) < 6 && run(s, 2, hexByte) == len(s)
}

// hexRune parses \u and four digits.
func hexRune(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}

func percentEscape(s string, i int) (string, int) {
	if s[i] != '%' || i+3 > len(s) {
		return "", 0
	}
	n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
	if err != nil {
		return "", 0
	}
	return string([]byte{byte(n)}), 3
}

func partialPercent(s string) bool {
	return s[0] == '%' && (len(s) == 1 || len(s) == 2 && hexByte(s[1]))
}

func plusOrPercent(s string, i int) (string, int) {
	if s[i] == '+' {
		return " ", 1
	}
	return percentEscape(s, i)
}

func partialEntity(s string) bool {
	return s[0] == '&' && run(s, 1, func(c byte) bool { return alphanumeric(c) || c == '#' }) == len(s)
}

// entity decodes an entity of HTML: a name such as &amp; or the number of a character in decimal or
// hexadecimal. The ; after a number may be missing.
func entity(s string, i int) (string, int) {
	if s[i] != '&' || i+2 >= len(s) {
		return "", 0
	}
	if s[i+1] != '#' {
		end := run(s[:min(len(s), i+maxEntity)], i+1, alphanumeric)
		if end == len(s) || s[end] != ';' {
			return "", 0
		}
		text := html.UnescapeString(s[i : end+1])
		if text == s[i:end+1] {
			return "", 0
		}
		return text, end + 1 - i
	}
	base, start, of := 10, i+2, digitByte
	if s[start]|0x20 == 'x' {
		base, start, of = 16, start+1, hexByte
	}
	end := run(s[:min(len(s), i+maxEntity)], start, of)
	n, err := strconv.ParseUint(s[start:end], base, 32)
	if err != nil || n > utf8.MaxRune {
		return "", 0
	}
	if end < len(s) && s[end] == ';' {
		end++
	}
	return string(rune(n)), end - i
}

// maxEntity is the longest entity, in bytes.
const maxEntity = 40

func hexByte(c byte) bool { return digitByte(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
