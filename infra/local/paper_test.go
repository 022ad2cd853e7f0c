package main

import (
	"bytes"
	"strings"
	"testing"
)

// A paragraph has all words of its text, and no line is wider than the terminal.
func TestParagraphs(t *testing.T) {
	for _, text := range []string{
		"The shop could not be reached, and the agent will look again tomorrow. ", strings.Repeat("x", 70), "é 日本語のテキスト " + strings.Repeat("ab ", 30), "",
	} {
		for width := leastRoom + 2; width <= 2*len(text)+leastRoom; width++ {
			var out bytes.Buffer
			paper{w: &out, width: func() int { return width }}.paragraph(2, plain, text, span{plain, "»"})
			for line := range strings.Lines(out.String()) {
				if n := columnsOf(strings.TrimRight(line, "\n")); n > width {
					t.Fatalf("at %d, a line has %d columns: %q", width, n, line)
				}
			}
			said := strings.TrimPrefix(out.String(), "»")
			if got, want := squeezed(said), squeezed(text); got != want {
				t.Fatalf("at %d it says %q", width, got)
			}
		}
	}
}

// squeezed returns a text without the white space between its words.
func squeezed(text string) string { return strings.Join(strings.Fields(text), "") }
