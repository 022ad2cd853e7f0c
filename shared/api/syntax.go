package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lanekeeper/lanekeeper/shared/problem"
)

const (
	maxDepth = 32   // levels of nesting
	maxNames = 1000 // fields in a whole body
)

// unfit says why the database cannot store a text. It returns an empty text if it can.
func unfit(s string) string {
	switch {
	case !utf8.ValidString(s):
		return "expected valid UTF-8"
	case strings.ContainsRune(s, 0):
		return "expected no NUL character"
	}
	return ""
}

// checkBody refuses invalid JSON and valid JSON that the API does not accept: duplicate names,
// which parsers treat differently, NUL characters, numbers out of range, deep nesting and too many
// names.
func checkBody(body []byte) *problem.Problem {
	if body == nil {
		return nil
	}
	if why := unfit(string(body)); why != "" {
		return invalid(problem.At("body", why))
	}
	if !json.Valid(body) {
		return problem.New(http.StatusBadRequest, "malformed", "the body is not valid JSON")
	}
	c := checker{d: json.NewDecoder(bytes.NewReader(body)), body: body}
	c.d.UseNumber()
	c.value("body", 0)
	if c.fields != nil {
		return invalid(c.fields...)
	}
	return nil
}

// checker walks a valid JSON text and collects the fields to refuse.
type checker struct {
	d      *json.Decoder
	body   []byte
	halved bool // the last token has half of a surrogate pair
	fields []problem.FieldError
	names  int // read so far
	ended  bool
}

func (c *checker) refuse(at, why string) {
	c.fields = append(c.fields, problem.At(at, why))
	c.ended = c.ended || len(c.fields) >= problem.MaxErrors
}

func (c *checker) token() json.Token {
	begins := c.d.InputOffset()
	t, err := c.d.Token()
	c.halved = halved(c.body[begins:c.d.InputOffset()])
	if err != nil {
		c.refuse("body", "expected JSON")
		c.ended = true
	}
	return t
}

// unfit says why the database cannot store the text of the last token.
func (c *checker) unfit(text string) string {
	if c.halved { // the decoder has replaced it with U+FFFD
		return "expected no half of a surrogate pair"
	}
	return unfit(text)
}

// halved reports whether a JSON text escapes one half of a surrogate pair without the other.
func halved(raw []byte) bool {
	unit := func(i int) rune { // returns the UTF-16 unit that is escaped at i, or -1
		if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
			return -1
		}
		n, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if u := unit(i); utf16.IsSurrogate(u) {
			if utf16.DecodeRune(u, unit(i+6)) == utf8.RuneError {
				return true
			}
			i += 10 // the code below skips the pair's last escape
		}
		i++ // skip the escaped character
	}
	return false
}

func (c *checker) value(at string, depth int) {
	if depth > maxDepth {
		c.refuse("body", fmt.Sprintf("expected at most %d levels", maxDepth))
		c.ended = true
	}
	if c.ended {
		return
	}
	switch t := c.token().(type) {
	case json.Delim:
		if t == '{' {
			c.object(at, depth)
		} else {
			c.array(at, depth)
		}
	case string:
		if why := c.unfit(t); why != "" {
			c.refuse(at, why)
		}
	case json.Number:
		if _, err := t.Float64(); err != nil {
			c.refuse(at, "expected a smaller number")
		}
	}
}

func (c *checker) object(at string, depth int) {
	seen := map[string]bool{}
	for !c.ended && c.d.More() {
		name, _ := c.token().(string)
		if c.names++; c.names > maxNames {
			c.refuse("body", fmt.Sprintf("expected at most %d fields", maxNames))
			c.ended = true
			return
		}
		of := located(at + "." + name)
		if seen[name] {
			c.refuse(of, "given more than once")
		}
		seen[name] = true
		if why := c.unfit(name); why != "" {
			c.refuse(of, why)
		}
		c.value(of, depth+1)
	}
	c.end()
}

func (c *checker) array(at string, depth int) {
	for i := 0; !c.ended && c.d.More(); i++ {
		c.value(fmt.Sprintf("%s[%d]", at, i), depth+1)
	}
	c.end()
}

// end reads the closing delimiter.
func (c *checker) end() {
	if !c.ended {
		c.token()
	}
}
