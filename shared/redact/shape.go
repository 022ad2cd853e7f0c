package redact

import (
	"encoding/base64"
	"strings"
)

// span is a part of a text.
type span struct{ start, end int }

// shape is the form of an issuer's tokens: a prefix at the beginning of a word, and at least min
// characters of an alphabet.
type shape struct {
	prefix string
	min    int
	of     func(byte) bool
	digits bool // requires a digit, because the prefix also begins ordinary words
}

func wordByte(c byte) bool  { return alphanumeric(c) || c == '_' }
func slugByte(c byte) bool  { return wordByte(c) || c == '-' }
func digitByte(c byte) bool { return '0' <= c && c <= '9' }
func capByte(c byte) bool   { return upper(c) || digitByte(c) }
func pathByte(c byte) bool  { return wordByte(c) || c == '/' }
func sumByte(c byte) bool   { return slugByte(c) || c == '=' } // a checksum may stand behind =
func tokenByte(c byte) bool {
	return slugByte(c) || c == '.' || c == '~' || c == '+' || c == '/' || c == '='
}

// shapes are the forms of tokens by their first character.
var shapes = [256][]shape{
	'A': {
		{"AKIA", 16, capByte, false}, {"ASIA", 16, capByte, false}, {"AIza", 30, slugByte, false}, {"AGE-SECRET-KEY-1", 40, capByte, false},
		{"ATATT", 30, sumByte, true}, {"ATCTT", 30, sumByte, true},
	},
	'S': {{"SG.", 40, tokenByte, false}},
	'd': {{"dop_v1_", 32, wordByte, false}, {"dckr_pat_", 20, slugByte, false}, {"dckr_oat_", 20, slugByte, false}},
	'g': {
		{"ghp_", 20, wordByte, false}, {"gho_", 20, wordByte, false}, {"ghu_", 20, wordByte, false}, {"ghs_", 20, wordByte, false},
		{"ghr_", 20, wordByte, false}, {"github_pat_", 20, wordByte, false}, {"glpat-", 16, slugByte, false},
	},
	'h': {
		{"hf_", 30, wordByte, false}, {"hvs.", 20, slugByte, true}, {"hvb.", 20, slugByte, true}, {"hvr.", 20, slugByte, true},
		{"hooks.slack.com/services/", 20, pathByte, false}, {"hooks.slack.com/workflows/", 20, pathByte, false},
		{"hooks.slack.com/triggers/", 20, pathByte, false},
	},
	'l': {{"lk_", 40, slugByte, true}, {"lks_", 40, slugByte, true}},
	'n': {{"npm_", 30, wordByte, false}},
	'p': {{"pypi-", 50, slugByte, false}},
	'r': {{"rk_live_", 16, wordByte, false}, {"rk_test_", 16, wordByte, false}},
	's': {{"sk-", 20, slugByte, true}, {"sk_live_", 16, wordByte, false}, {"sk_test_", 16, wordByte, false}, {"shpat_", 20, wordByte, false}},
	'w': {{"whsec_", 16, tokenByte, false}},
	'x': {
		{"xoxa-", 10, slugByte, false}, {"xoxb-", 10, slugByte, false}, {"xoxc-", 10, slugByte, false}, {"xoxd-", 10, slugByte, false},
		{"xoxe-", 10, slugByte, false}, {"xoxe.", 10, slugByte, false}, {"xoxp-", 10, slugByte, false}, {"xoxr-", 10, slugByte, false},
		{"xoxs-", 10, slugByte, false}, {"xapp-", 10, slugByte, false},
	},
	'y': {{"ya29.", 20, slugByte, false}},
}

// shaped appends the parts of a text that have the form of a secret.
func shaped(s string, spans []span) []span {
	f := finder{s: s, escapes: strings.IndexByte(s, '\\') >= 0 || strings.IndexByte(s, '%') >= 0}
	for i := 0; i < len(s); i++ {
		found := f.at(i)
		if found.end > 0 {
			spans = append(spans, found)
			i = max(i, found.end-1)
		}
	}
	return spans
}

// finder scans a text once. It remembers failed searches and does not repeat them, so that the time
// is linear in the length of the text.
type finder struct {
	s         string
	escapes   bool           // the text may contain escapes
	dotless   int            // no JSON web token begins before this position
	digitless int            // the current word has no digit before this position
	ends      map[*shape]int // the end of the last run of a shape
	dotted    int            // the end of the last run of a JSON web token's characters
	pem       int            // the end of the last private key
}

// at returns the secret that begins at i, or whose =, :, flag or end of a tag is there.
func (f *finder) at(i int) span {
	switch c := f.s[i]; {
	case c == '=' || c == ':':
		if found := keyed(f.s, i); found.end > 0 || c == '=' {
			return found
		}
		return userinfo(f.s, i)
	case c == '-':
		if found := pem(f.s, i); found.end > 0 {
			return found
		}
		return f.flag(i)
	case c == '>':
		return element(f.s, i)
	case shapes[c] == nil && c != 'B' && c != 'b' && c != 'e', i > 0 && alphanumeric(f.s[i-1]) && !(f.escapes && escaped(f.s, i)):
		return span{}
	case c == 'B' || c == 'b':
		return scheme(f.s, i)
	case c == 'e':
		return f.jwt(i)
	}
	return f.issued(i)
}

// issued returns a token with one of the shapes that begins at i.
func (f *finder) issued(i int) span {
	s := f.s
	for n := range shapes[s[i]] {
		shape := &shapes[s[i]][n]
		if !strings.HasPrefix(s[i:], shape.prefix) {
			continue
		}
		tail := i + len(shape.prefix)
		if shape.digits && tail < f.digitless {
			continue
		}
		end := run(s, tail, shape.of)
		if shape.digits && !strings.ContainsAny(s[tail:end], "0123456789") {
			f.digitless = end
			continue
		}
		if end-tail >= shape.min {
			return span{i, end}
		}
	}
	return span{}
}

// jwt returns a JSON web token that begins at i. It has three parts or, encrypted, five.
func (f *finder) jwt(i int) span {
	s := f.s
	if i < f.dotless || !strings.HasPrefix(s[i:], "eyJ") {
		return span{}
	}
	header := run(s, i, slugByte)
	if header == len(s) || s[header] != '.' {
		f.dotless = header
		return span{}
	}
	payload := run(s, header+1, slugByte)
	if header-i < 10 || payload == len(s) || s[payload] != '.' {
		f.dotless = header
		return span{}
	}
	end := f.dots(i)
	for s[end-1] == '.' {
		end--
	}
	return span{i, end}
}

// dots returns the end of the run of a JSON web token's characters that i is in.
func (f *finder) dots(i int) int {
	if i >= f.dotted {
		f.dotted = run(f.s, i, func(c byte) bool { return slugByte(c) || c == '.' })
	}
	return f.dotted
}

// scheme returns the token after Bearer or Basic at i.
func scheme(s string, i int) span {
	if i+7 > len(s) {
		return span{}
	}
	basic := strings.EqualFold(s[i:i+5], "basic")
	if !basic && !strings.EqualFold(s[i:i+6], "bearer") {
		return span{}
	}
	at := i + 6
	if basic {
		at--
	}
	start := run(s, at, func(c byte) bool { return c == ' ' || c == '\t' })
	if strings.HasPrefix(s[at:], "%20") {
		start = at + 3
	}
	end := run(s, start, tokenByte)
	if start == at || end == start {
		return span{}
	}
	if basic {
		pair, err := base64.StdEncoding.DecodeString(s[start:end])
		if err != nil || !strings.Contains(string(pair), ":") {
			return span{}
		}
		return span{start, end}
	}
	for s[end-1] == '.' && end-1 > start {
		end--
	}
	if end-start < 16 || !strings.ContainsAny(s[start:end], "0123456789") {
		return span{}
	}
	return span{start, end}
}

// pem returns a private key in PEM that begins at i. It ends with the key or, if its end is
// missing, with the text. Line breaks do not matter.
func pem(s string, i int) span {
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	if !strings.HasPrefix(s[i:], begin) {
		return span{}
	}
	head := s[i+len(begin) : min(len(s), i+len(begin)+64)]
	kind, _, ok := strings.Cut(head, dashes)
	if !ok || !strings.Contains(kind, "PRIVATE KEY") {
		return span{}
	}
	closing := strings.Index(s[i+len(begin):], end)
	if closing < 0 {
		return span{i, len(s)}
	}
	closing += i + len(begin) + len(end)
	if n := strings.Index(s[closing:], dashes); n >= 0 {
		return span{i, closing + n + len(dashes)}
	}
	return span{i, len(s)}
}

// userinfo returns the password of a URL whose :// begins at i.
func userinfo(s string, i int) span {
	if !strings.HasPrefix(s[i:], "://") {
		return span{}
	}
	end := i + 3
	at := -1
	for ; end < len(s) && !strings.ContainsRune("/?#\"'<>\\ \t\r\n", rune(s[end])); end++ {
		if s[end] == '@' {
			at = end
		}
	}
	if at < 0 {
		return span{}
	}
	colon := strings.IndexByte(s[i+3:at], ':')
	if colon < 0 || !hides(s[i+3+colon+1:at]) {
		return span{}
	}
	return span{i + 3 + colon + 1, at}
}

// run returns the end of the run of matching characters that begins at start.
func run(s string, start int, of func(byte) bool) int {
	for start < len(s) && of(s[start]) {
		start++
	}
	return start
}

// escaped reports whether the text before i is the end of an escape and not part of a word: the n
// of an escaped line break, or the digits of %20.
func escaped(s string, i int) bool {
	if i >= 2 && s[i-2] == '\\' {
		return strings.IndexByte("nrt", s[i-1]) >= 0
	}
	if i >= 3 && s[i-3] == '%' {
		_, n := percentEscape(s, i-3)
		return n > 0
	}
	if i >= 6 {
		_, ok := hexRune(s[i-6:])
		return ok
	}
	return false
}
