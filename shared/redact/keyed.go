package redact

import "strings"

// keyed returns the value that the = or : at i assigns to a sensitive name, as in password=x,
// "token": "x", 'token' => 'x', {Password:x}, in headers, and as the signature of a URL. Such assignments occur in texts that are not JSON:
// queries, environments, printed structs.
func keyed(s string, i int) span {
	begin, end, quoted := nameBefore(s, i)
	name := s[begin:end]
	if !sensitive(name) && !(s[i] == '=' && signs(s, begin, name)) {
		return span{}
	}
	start := i + 1
	arrow := strings.HasPrefix(s[i:], "=>")
	if arrow {
		start++
	}
	assigned := start
	start = blanks(s, start)
	spaced := start > assigned
	if start == len(s) || s[i] == ':' && s[start] == '=' || s[start] == '=' {
		return span{} // :=, ==
	}
	if strings.HasPrefix(s[start:], Mark) {
		return span{}
	}
	if s[start] == '[' {
		start++ // the list of a header's values
	}
	if open := quoteAt(s, start); open != "" {
		start += len(open)
		end := closing(s, start, open)
		return worth(s, start, end)
	}
	switch {
	case arrow:
		return span{} // a function, or a comparison
	case s[i] == ':' && wholeLine(name):
		return worth(s, start, lineEnd(s, start))
	case s[i] == ':' && !quoted && strings.HasPrefix(s[start:], "//"):
		return span{}
	case spaced && !quoted && !inQuotes(s, begin, start) && (!beginsLine(s, begin) || !endsLine(s, start)):
		return span{} // prose: the token: it is …
	case s[i] == ':' && !quoted && begin > 0 && s[begin-1] == ':':
		return span{} // arn:aws:secretsmanager:…:secret:name
	}
	end = run(s, start, bareByte)
	if scheme := s[start:end]; end < len(s) && s[end] == ' ' && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic")) {
		end = run(s, end+1, bareByte)
	}
	return worth(s, start, end)
}

// blanks returns the end of the blanks at i, of which there may be three.
func blanks(s string, i int) int {
	return run(s[:min(len(s), i+3)], i, func(c byte) bool { return c == ' ' || c == '\t' })
}

// escapedAnd is the & between the parameters of a URL, as it is escaped in JSON.
const escapedAnd = `\u0026`

// signs reports whether the parameter of a URL whose name begins at begin is the URL's signature.
func signs(s string, begin int, name string) bool {
	const signature = "signature"
	after := begin > 0 && strings.IndexByte("?&;", s[begin-1]) >= 0 || strings.HasSuffix(s[:begin], escapedAnd)
	return after && (strings.EqualFold(name, "sig") ||
		len(name) >= len(signature) && strings.EqualFold(name[len(name)-len(signature):], signature))
}

// flag returns the value of a flag at i with a sensitive name, as in --password x and "--password", "x". A plain word
// that is followed by more words is prose.
func (f *finder) flag(i int) span {
	s := f.s
	if !strings.HasPrefix(s[i:], "--") || i > 0 && slugByte(s[i-1]) && !(f.escapes && escaped(s, i)) {
		return span{}
	}
	name := run(s[:min(len(s), i+100)], i+2, slugByte)
	after := name
	if ends := quoteAt(s, name); ends != "" && strings.HasPrefix(s[name+len(ends):], ",") {
		after += len(ends) + 1
		start := blanks(s, after)
		if open := quoteAt(s, start); open == "" || strings.HasPrefix(s[start+len(open):], "-") {
			return span{}
		}
	}
	start := blanks(s, after)
	if start == name || !sensitive(s[i+2:name]) {
		return span{}
	}
	if open := quoteAt(s, start); open != "" {
		start += len(open)
		return worth(s, start, closing(s, start, open))
	}
	end := run(s, start, bareByte)
	next := blanks(s, end)
	prose := word(s[start:end]) && !endsLine(s, start) && !strings.HasPrefix(s[next:], "-")
	if start == end || s[start] == '-' || prose {
		return span{}
	}
	return worth(s, start, end)
}

// element returns the text of an element with a sensitive name whose start tag ends at i, as in
// <password>x</password> and <password type="clear">x</password>.
func element(s string, i int) span {
	const longest = 500 // bytes of a start tag
	tag := s[max(0, i-longest):i]
	begin := strings.LastIndexAny(tag, "<>") + 1
	if begin == 0 || tag[begin-1] != '<' {
		return span{}
	}
	name := tag[begin:]
	if end := strings.IndexAny(name, " \t\r\n"); end >= 0 {
		name = name[:end]
	}
	if run(name, 0, nameByte) < len(name) || !sensitive(name) {
		return span{}
	}
	n := strings.IndexByte(s[i+1:], '<')
	if n < 0 || !strings.HasPrefix(s[i+1+n:], "</"+name+">") {
		return span{}
	}
	return worth(s, i+1, i+1+n)
}

// nameByte reports whether the name of an element may contain a character.
func nameByte(c byte) bool { return slugByte(c) || c == '.' || c == ':' }

// bareByte reports whether a value without quotes may contain a character.
func bareByte(c byte) bool { return strings.IndexByte(" \t\r\n&;,\"'<>()[]{}|`\\", c) < 0 }

// worth returns the span, or an empty one if its text need not be hidden.
func worth(s string, start, end int) span {
	if !hides(s[start:end]) {
		return span{}
	}
	return span{start, end}
}

// hides reports whether a text in the position of a secret may be one.
func hides(text string) bool {
	if strings.HasPrefix(text, Mark) || strings.TrimSpace(text) == "" {
		return false
	}
	if len(text) > len("undefined") {
		return true
	}
	switch strings.ToLower(text) {
	case "null", "nil", "<nil>", "none", "true", "false", "undefined":
		return false
	}
	return true
}

// nameBefore returns where the name that ends before i begins and ends, without its quotes.
func nameBefore(s string, i int) (begin, end int, quoted bool) {
	end = i
	for end > 0 && end > i-3 && s[end-1] == ' ' {
		end--
	}
	if end > 0 && (s[end-1] == '"' || s[end-1] == '\'') {
		end--
		quoted = true
		for end > 0 && s[end-1] == '\\' {
			end--
		}
	}
	begin = end
	for begin > 0 && begin > end-100 && (slugByte(s[begin-1]) || s[begin-1] == '.') {
		begin--
	}
	if begin > 0 && strings.HasPrefix(s[begin-1:end], escapedAnd) {
		begin += len(escapedAnd) - 1
	}
	if quoted && (begin == 0 || s[begin-1] != '"' && s[begin-1] != '\'') {
		return end, end, false
	}
	return begin, end, quoted
}

// quoteAt returns the quote at i including the backslashes before it; empty: there is none.
func quoteAt(s string, i int) string {
	end := run(s, i, func(c byte) bool { return c == '\\' })
	if end < len(s) && (s[end] == '"' || s[end] == '\'') {
		return s[i : end+1]
	}
	return ""
}

// closing returns the end of a quoted text that begins at start: the position of the same quote
// with the same number of backslashes.
func closing(s string, start int, quote string) int {
	for at := start; ; {
		n := strings.Index(s[at:], quote)
		if n < 0 {
			return len(s)
		}
		at += n
		slashes := 0
		for at-slashes > start && s[at-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
		at += len(quote)
	}
}

// wholeLine reports whether a header's value may contain spaces.
func wholeLine(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie", "set-cookie":
		return true
	}
	return false
}

func lineEnd(s string, i int) int {
	if n := strings.IndexAny(s[i:], "\r\n\"'\\"); n >= 0 {
		return i + n
	}
	return len(s)
}

// inQuotes reports whether a name at begin and its value at start are all that is in quotes, as a header is
// in a command.
func inQuotes(s string, begin, start int) bool {
	end := run(s, start, bareByte)
	return begin > 0 && end < len(s) && (s[begin-1] == '"' || s[begin-1] == '\'') && (s[end] == s[begin-1] || s[end] == '\\')
}

// beginsLine reports whether only white space and the dash of a list come before i in its line.
func beginsLine(s string, i int) bool {
	line := s[max(0, i-64):i]
	return strings.Trim(line[strings.LastIndexByte(line, '\n')+1:], " \t-") == ""
}

// endsLine reports whether the word at i is the last one of its line.
func endsLine(s string, i int) bool {
	end := run(s, i, func(c byte) bool { return c != ' ' && c != '\t' && c != '\n' && c != '\r' })
	return end == len(s) || s[end] == '\n' || s[end] == '\r'
}
