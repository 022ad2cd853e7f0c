package redact

import (
	"net/url"
	"strings"
)

const (
	maxWord    = 12 // letters of a word
	maxSegment = 20 // bytes of a URL's path segment that is no secret
	minDigits  = 8  // longer segments may contain no digits
)

// Ordinary reports whether a value is common text rather than a secret: a word such as localhost,
// or a URL without a credential and without a segment that may be a token. Removing such values
// would make every text unreadable.
func Ordinary(value string) bool {
	value = strings.TrimSpace(value)
	return word(value) || address(value)
}

// word reports whether a value consists of a few letters. All but the first must have the same
// case.
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
