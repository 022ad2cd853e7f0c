package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestSVG is well-formed, keeps styles across broken lines, and escapes what a terminal shows.
func TestSVG(t *testing.T) {
	got := svg([]window{{"make <run>", []string{"\x1b[1m$ a\x1b[0m & b", "\x1b[32m" + strings.Repeat("x", widest+1) + "\x1b[0m"}}})
	for d := xml.NewDecoder(strings.NewReader(got)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"make &lt;run&gt;", `<tspan class="b">$ a</tspan> &amp; b`, `<tspan class="g">x</tspan>`, "prefers-color-scheme: dark"} {
		if !strings.Contains(got, want) {
			t.Errorf("it has no %s:\n%s", want, got)
		}
	}
	if plain("\x1b[1ma\x1b[0mb") != "ab" {
		t.Error("styles stay in the text")
	}
}
