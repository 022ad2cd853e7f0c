package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// paper prints lines for a person. On a terminal they have colours and are cut to its width.
// Elsewhere they have no colours and are not cut.
type paper struct {
	w      io.Writer
	colour bool
	width  func() int // in columns; 0: unlimited
}

func newPaper(w io.Writer, environ []string) paper {
	p := paper{w: w, width: func() int { return 0 }}
	if f, ok := w.(*os.File); ok && isTerminal(w) {
		p.colour = lookup(environ, "NO_COLOR") == "" && lookup(environ, "TERM") != "dumb"
		p.width = func() int { n, _ := columns(f); return n } // read for each line, because windows are resized
	}
	return p
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	_, terminal := columns(f)
	return terminal
}

// A style is how a span looks if colours are on.
type style string

const (
	plain  style = ""
	dim    style = "2"
	bold   style = "1"
	green  style = "32"
	yellow style = "33"
	red    style = "31"
	cyan   style = "36"
)

// A span is a part of a line.
type span struct {
	style style
	text  string
}

// print writes one line. A whole line is not cut; the terminal wraps it.
func (p paper) print(whole bool, spans ...span) {
	left := p.width()
	if left <= 0 {
		whole = true
	}
	var b strings.Builder
	for _, s := range spans {
		text := clean(s.text)
		if !whole {
			text = cut(text, left)
			left -= columnsOf(text)
		}
		if text == "" {
			continue
		}
		if p.colour && s.style != plain {
			text = "\x1b[" + string(s.style) + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}
	fmt.Fprintln(p.w, strings.TrimRight(b.String(), " "))
}

// paragraph writes a text in lines that are broken between words and have the same indentation. The
// first line begins with head.
func (p paper) paragraph(indent int, s style, text string, head ...span) {
	text = strings.TrimSpace(clean(text))
	used := 0
	for _, h := range head {
		used += columnsOf(h.text)
	}
	head = append(head, span{plain, strings.Repeat(" ", max(0, indent-used))})
	for room := p.width() - indent; room >= leastRoom && columnsOf(text) > room; {
		line := prefix(text, room) // shorter than the text
		if end := strings.LastIndexByte(line, ' '); end > 0 && text[len(line)] != ' ' {
			line = line[:end]
		}
		p.print(true, append(head, span{s, line})...)
		text = strings.TrimLeft(text[len(line):], " ")
		head = []span{{plain, strings.Repeat(" ", indent)}}
	}
	p.print(true, append(head, span{s, text})...)
}

// leastRoom is the smallest number of columns for a paragraph. In less, the terminal wraps the
// text.
const leastRoom = 20

// clean turns a text into one line and replaces characters that could control a terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == unicode.ReplacementChar:
			return '?'
		}
		return r
	}, s)
}

// cut shortens s to n columns. A shortened text ends in an ellipsis.
func cut(s string, n int) string {
	switch {
	case columnsOf(s) <= n:
		return s
	case n < 1:
		return ""
	}
	return prefix(s, n-1) + "…"
}

// prefix returns the longest prefix of s that fits in n columns.
func prefix(s string, n int) string {
	used := 0
	for i, r := range s {
		if used += columnsOfRune(r); used > n {
			return s[:i]
		}
	}
	return s
}

func columnsOf(s string) (n int) {
	for _, r := range s {
		n += columnsOfRune(r)
	}
	return n
}

// columnsOfRune returns the number of terminal columns that a character occupies.
func columnsOfRune(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

func lookup(environ []string, name string) (value string) {
	for _, e := range environ {
		if k, v, _ := strings.Cut(e, "="); k == name {
			value = v
		}
	}
	return value
}
