package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
)

// window is a terminal window in the picture.
type window struct {
	title string
	lines []string // with escape sequences of styles
}

const (
	charWidth  = 7.2
	lineHeight = 17
	margin     = 16
	barHeight  = 28
	widest     = 118 // characters of a line; a longer one goes on in the next
)

// style is the look of the picture on a light page, and on a dark one.
const style = `
  text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1f2328; white-space: pre }
  .w { fill: #ffffff; stroke: #d1d9e0 } .bar { fill: #f6f8fa } .t { fill: #59636e }
  .b { font-weight: 700 } .d { fill: #6e7781 } .g { fill: #1a7f37 } .y { fill: #9a6700 } .r { fill: #cf222e } .c { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .w { fill: #0d1117; stroke: #3d444d } .bar { fill: #161b22 } .t { fill: #9198a1 }
    .d { fill: #8b949e } .g { fill: #3fb950 } .y { fill: #d29922 } .r { fill: #f85149 } .c { fill: #58a6ff }
  }
`

// escape matches an escape sequence of a style.
var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// plain returns a text without its styles.
func plain(text string) string { return escape.ReplaceAllString(text, "") }

// classes are the styles by their codes.
var classes = map[string]string{"1": "b", "2": "d", "32": "g", "33": "y", "31": "r", "36": "c"}

// svg draws the windows below each other.
func svg(windows []window) string {
	var body strings.Builder
	width, y := widest*charWidth+2*margin, 0.0
	for _, w := range windows {
		lines := wrapped(w.lines)
		height := float64(barHeight + len(lines)*lineHeight + margin)
		fmt.Fprintf(&body, `<rect class="w" x="0.5" y="%.1f" width="%.1f" height="%.1f" rx="8"/>`+"\n", y+0.5, width-1, height-1)
		fmt.Fprintf(&body, `<text class="t" x="%d" y="%.1f">%s</text>`+"\n", margin, y+19, html.EscapeString(w.title))
		for i, line := range lines {
			if line != "" {
				fmt.Fprintf(&body, `<text x="%d" y="%.1f">%s</text>`+"\n", margin, y+barHeight+float64((i+1)*lineHeight)-4, spans(line))
			}
		}
		y += height + margin
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" aria-label="A recorded terminal: make run, a task that is created, done and read as a trace">
<style>%s</style>
%s</svg>
`, width, y, width, y, style, body.String())
}

// spans returns a line as text of an SVG.
func spans(line string) string {
	var out strings.Builder
	class, rest := "", line
	flush := func(text string) {
		if text == "" {
			return
		}
		if class == "" {
			out.WriteString(html.EscapeString(text))
			return
		}
		fmt.Fprintf(&out, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text))
	}
	for {
		at := escape.FindStringSubmatchIndex(rest)
		if at == nil {
			flush(rest)
			return out.String()
		}
		flush(rest[:at[0]])
		class, rest = classes[rest[at[2]:at[3]]], rest[at[1]:]
	}
}

// wrapped breaks lines that are too long. A style goes on in the next line.
func wrapped(lines []string) (out []string) {
	for _, line := range lines {
		var b strings.Builder
		n, open := 0, ""
		for len(line) > 0 {
			if at := escape.FindStringIndex(line); at != nil && at[0] == 0 {
				open = line[:at[1]]
				b.WriteString(open)
				line = line[at[1]:]
				continue
			}
			r := []rune(line)[0]
			if n == widest {
				out = append(out, b.String())
				b.Reset()
				b.WriteString(open)
				n = 0
			}
			b.WriteRune(r)
			line = line[len(string(r)):]
			n++
		}
		out = append(out, b.String())
	}
	return out
}
