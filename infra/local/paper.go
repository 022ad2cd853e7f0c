package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// paper is where lines for a person go. On a terminal they have colours and are
// cut to its width; elsewhere they have neither.
type paper struct {
	w      io.Writer
	colour bool
	width  func() int // in columns; 0: as wide as it takes
}

func newPaper(w io.Writer, environ []string) paper {
	p := paper{w: w, width: func() int { return 0 }}
	if f, ok := w.(*os.File); ok && isTerminal(w) {
		p.colour = lookup(environ, "NO_COLOR") == "" && lookup(environ, "TERM") != "dumb"
		p.width = func() int { n, _ := columns(f); return n } // anew for each line: windows change
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

// A style is how a span looks where there are colours.
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

// print writes one line. One that must not be cut is left to the terminal to wrap.
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

// paragraph writes a text in lines that are broken between words and begin in the same
// column. Head stands before the text in the first line.
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

// leastRoom is how many columns a paragraph needs: with less the terminal breaks it.
const leastRoom = 20

// clean makes one line of a text and takes from it what could steer a terminal.
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

// cut shortens s to n columns; what was longer ends in an ellipsis.
func cut(s string, n int) string {
	switch {
	case columnsOf(s) <= n:
		return s
	case n < 1:
		return ""
	}
	return prefix(s, n-1) + "…"
}

// prefix is as much of s as n columns have room for.
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

// columnsOfRune is how many columns of a terminal a character takes.
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
