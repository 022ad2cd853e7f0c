package redact

import (
	"net/url"
	"strings"
)

const (
	maxWord    = 12 // letters of a word
	maxSegment = 20 // bytes of a part of a URL's path that names no secret
	minDigits  = 8  // bytes above which such a part may hold no digits
)

// Ordinary reports whether a value is one that stands in texts for what it is, and not as
// a secret: a word, such as localhost, or the address of a place, without a credential and
// without a part that may be a token. To take those out would make nonsense of every text.
func Ordinary(value string) bool {
	value = strings.TrimSpace(value)
	return word(value) || address(value)
}

// word reports whether a value has a few letters and nothing else, none but the first of
// them of another case.
func word(s string) bool {
	if len(s) == 0 || len(s) > maxWord {
		return false
	}
	for i := range len(s) {
		if !lower(s[i]|0x20) || i > 1 && lower(s[i]) != lower(s[1]) {
			return false
		}
	}
	return len(s) < 2 || lower(s[1]) || upper(s[0])
}

func address(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		digits := strings.ContainsFunc(segment, func(r rune) bool { return r < 0x80 && digitByte(byte(r)) })
		if len(segment) > maxSegment || digits && len(segment) > minDigits {
			return false
		}
	}
	return true
}
