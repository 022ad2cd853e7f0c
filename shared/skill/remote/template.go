package remote

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/lanekeeper/lanekeeper/shared/pattern"
	"github.com/lanekeeper/lanekeeper/shared/skill"
)

// A template is a URL with places {name} for arguments in its path and query. An argument stays in
// its place: it can't change the host or the scheme, and can't add a path segment or a query
// parameter.
type template struct {
	origin   string   // scheme and authority
	segments [][]part // of the path
	query    []part
	hasQuery bool
}

// part is literal text, or the place of an argument.
type part struct {
	text  string
	place bool
}

var placeName = pattern.New(`^[A-Za-z0-9_.-]+$`)

// parseTemplate parses a URL or a URL template.
func parseTemplate(raw string) (template, error) {
	refuse := func(problem string) (template, error) { return template{}, skill.Invalid("config.url", "%s", problem) }
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme != "https" && scheme != "http" {
		return refuse("must begin with https:// or http://")
	}
	if strings.ContainsFunc(raw, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == '#' || r == '\\' || r == unicode.ReplacementChar
	}) {
		return refuse("must have no spaces, fragment or backslash")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if strings.ContainsAny(rest[:end], "{}") {
		return refuse("may have places for arguments in its path and query alone")
	}
	if strings.Contains(rest[:end], "@") {
		return refuse("must not log in: use a header with {\"$secret\": …}")
	}
	t := template{origin: scheme + "://" + rest[:end]}
	path, query, hasQuery := strings.Cut(rest[end:], "?")
	for i, segment := range strings.Split(path, "/") {
		if i == 0 {
			continue // the text before the first slash
		}
		parts, ok := parts(segment)
		if !ok {
			return refuse("has braces that are no place for an argument")
		}
		t.segments = append(t.segments, parts)
	}
	if t.query, ok = parts(query); !ok {
		return refuse("has braces that are no place for an argument")
	}
	t.hasQuery = hasQuery
	u, err := url.Parse(t.example())
	if err != nil || u.Hostname() == "" {
		return refuse("is no URL")
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return refuse("has a query that can't be read")
	}
	return t, nil
}

// parts splits a text into literal parts and places.
func parts(s string) (out []part, ok bool) {
	for s != "" {
		text, rest, open := strings.Cut(s, "{")
		if strings.Contains(text, "}") {
			return nil, false
		}
		if text != "" {
			out = append(out, part{text: encoded(text)})
		}
		if !open {
			return out, true
		}
		name, behind, closed := strings.Cut(rest, "}")
		if !closed || !placeName().MatchString(name) {
			return nil, false
		}
		out = append(out, part{name, true})
		s = behind
	}
	return out, true
}

// encoded percent-encodes characters of literal text that are not legal in a URL. net/url accepts
// them, but then re-encodes the whole path and turns escaped slashes into slashes.
func encoded(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= 0x80 || strings.IndexByte("\"<>^`|", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// places returns the names of the arguments that the template needs.
func (t template) places() (names []string) {
	for _, parts := range append(slices.Clone(t.segments), t.query) {
		for _, p := range parts {
			if p.place && !slices.Contains(names, p.text) {
				names = append(names, p.text)
			}
		}
	}
	return names
}

// example returns the URL with a value in every place. It is empty if fill fails.
func (t template) example() string {
	filled := map[string]any{}
	for _, name := range t.places() {
		filled[name] = "x"
	}
	u, _ := t.fill(filled)
	return u
}

// fill puts the arguments into their places.
func (t template) fill(arguments map[string]any) (string, error) {
	path, query := "", ""
	for _, parts := range t.segments {
		segment, err := fillSegment(parts, arguments)
		if err != nil {
			return "", err
		}
		path += "/" + segment
	}
	for _, p := range t.query {
		text := p.text
		if p.place {
			value, err := scalar(p.text, arguments)
			if err != nil {
				return "", err
			}
			text = url.QueryEscape(value)
		}
		query += text
	}
	filled := t.origin + path
	if t.hasQuery {
		filled += "?" + query
	}
	// The server must receive exactly this URL, so check how net/url reads it.
	u, err := url.Parse(filled)
	if err != nil || u.Scheme+"://"+u.Host != t.origin || u.EscapedPath() != path || u.RawQuery != query || u.Fragment != "" || u.User != nil {
		return "", skill.Refuse("the arguments make no URL")
	}
	return filled, nil
}

// fillSegment returns one segment of the path, escaped. A value must not turn it into a step such
// as "..", even if servers unescape it several times.
func fillSegment(parts []part, arguments map[string]any) (string, error) {
	var escaped, plain strings.Builder
	filled := ""
	for _, p := range parts {
		if !p.place {
			escaped.WriteString(p.text)
			plain.WriteString(p.text)
			continue
		}
		value, err := scalar(p.text, arguments)
		if err != nil {
			return "", err
		}
		if strings.ContainsFunc(value, unicode.IsControl) {
			return "", skill.Refuse("%s can't stand in the URL: it has control characters", p.text)
		}
		filled = p.text
		escaped.WriteString(url.PathEscape(value))
		plain.WriteString(value)
	}
	if filled != "" && (plain.Len() == 0 || climbs(plain.String())) {
		return "", skill.Refuse("%s can't stand in the URL: it must not be empty, nor a step such as ..", filled)
	}
	return escaped.String(), nil
}

// climbs reports whether a segment contains a "." or ".." step, also after unescaping it several
// times.
func climbs(segment string) bool {
	for range 3 {
		for _, step := range strings.FieldsFunc(segment, func(r rune) bool { return strings.ContainsRune(`/\;`, r) }) {
			if step == "." || step == ".." {
				return true
			}
		}
		again, err := url.PathUnescape(segment)
		if err != nil || again == segment {
			return false
		}
		segment = again
	}
	return true // a text that is escaped this often is an attack
}

// scalar returns an argument as text.
func scalar(name string, arguments map[string]any) (string, error) {
	text, ok := textOf(arguments[name])
	if !ok {
		return "", skill.Refuse("%s is needed in the URL, as a text, a number or a boolean", name)
	}
	return text, nil
}

func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	}
	return "", false
}
