package db

import "strings"

// A section is a query in a file, or a part of several queries: the lines from its heading to the
// next heading.
type section struct {
	name   string
	part   bool
	global bool   // whether it has a line that says why it is global
	body   string // without comment lines
}

// space is what separates words in a line.
const space = "\t\n\f\r "

// sections splits a file into its queries. attempts counts the lines that look like headings,
// including misspelled ones. It reads lines instead of using regular expressions, because every
// cold start waits for it.
func sections(text string) (found []*section, attempts int) {
	var s *section
	blank := 0  // bytes of the blank lines before at; a comment after them removes them
	var end int // end of the current line
	for at := 0; at < len(text); at = end {
		end = len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := text[at:end]
		words := strings.TrimLeft(line, space)
		comment := strings.HasPrefix(words, "--")
		if comment && meansHeading(strings.TrimLeft(text[at:], space)) {
			attempts++
		}
		name, part, heading := headingOf(line)
		switch {
		case heading:
			s = &section{name: name, part: part}
			found = append(found, s)
		case s == nil:
		case comment:
			s.global = s.global || saysGlobal(line)
		case words == "":
			blank += len(line)
			continue
		default:
			s.body = joined(text, s.body, at-blank, end)
		}
		blank = 0
	}
	return found, attempts
}

// joined adds a piece of text to what was taken from text before. If that ends where the piece begins, as it
// does unless a comment stands between, nothing is copied.
func joined(text, before string, begin, end int) string {
	if begin >= len(before) && text[begin-len(before):begin] == before {
		return text[begin-len(before) : end]
	}
	return before + text[begin:end]
}

// headingOf returns the name in a line "-- name: Word" or "-- part: Word", and whether the line is one.
func headingOf(line string) (name string, part, ok bool) {
	if name, ok = strings.CutPrefix(line, "-- name: "); !ok {
		name, part = strings.CutPrefix(line, "-- part: ")
	}
	name = strings.TrimRight(name, space)
	return name, part, (ok || part) && name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !wordRune(r) })
}

// meansHeading reports whether a text that begins with a comment looks like a heading.
func meansHeading(text string) bool {
	rest := strings.TrimLeft(strings.TrimPrefix(text, "--"), space)
	const length = len("name")
	return len(rest) > length && (strings.EqualFold(rest[:length], "name") || strings.EqualFold(rest[:length], "part")) &&
		strings.HasPrefix(strings.TrimLeft(rest[length:], space), ":")
}

// expand replaces each @Word in a text by the part of that name. An @ before any other word stays.
func expand(text string, parts map[string]string) string {
	if strings.IndexByte(text, '@') < 0 {
		return text
	}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "@")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		end := strings.IndexFunc(rest, func(r rune) bool { return !wordRune(r) })
		if end < 0 {
			end = len(rest)
		}
		part, known := parts[rest[:end]]
		if !known {
			part = "@" + rest[:end]
		}
		out.WriteString(part)
		text = rest[end:]
	}
}

// saysGlobal reports whether a line says why a query is global.
func saysGlobal(line string) bool {
	why, ok := strings.CutPrefix(line, "-- global: ")
	return ok && why != "" && strings.IndexByte(space, why[0]) < 0
}

// bindsWorkspace reports whether a statement has the parameter $1; $10 does not count.
func bindsWorkspace(body string) bool {
	for {
		_, rest, found := strings.Cut(body, "$1")
		if !found {
			return false
		}
		if rest == "" || !wordRune(rune(rest[0])) {
			return true
		}
		body = rest
	}
}

// wordRune reports whether a character may be part of a name.
func wordRune(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
}
