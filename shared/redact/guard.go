package redact

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/lanekeeper/lanekeeper/shared/jsonscan"
)

// Guard takes out of what a model tells strangers the values that are known, whatever has the shape
// of a token or a key, and the canary, which is a word of the system prompt: behind the canary
// nothing more is told. A text that comes in pieces comes out as a whole one does, and nothing is
// kept back that can't be the beginning of such a thing. It is safe for concurrent use.
type Guard struct {
	known   *Redactor
	canary  string
	encoded []string // the canary in hex and base64
}

const (
	// shown is how many characters of a canary may be told: so many begin it by chance, and are
	// not kept back.
	shown = 3
	// maxHeld is the most bytes that are kept back; where more would have to be, nothing more is told.
	maxHeld = 8 << 10
	// seenSize is how much of what was told is looked at again, for what begins in it. It is longer
	// than the prefix of any shape, and than what stands before one.
	seenSize = 48
	// beforeSize is how much stands before a shape and says whether it begins there.
	beforeSize = 8
)

// NewGuard returns a guard. known may be nil. The canary has letters and digits alone, 8 or more; empty: there
// is none.
func NewGuard(known *Redactor, canary string) *Guard {
	g := &Guard{known: known.Values(), canary: strings.ToLower(canary)}
	if canary == "" {
		return g
	}
	for _, form := range []string{canary, strings.ToUpper(canary)} {
		value := []byte(form)
		g.encoded = append(g.encoded, hex.EncodeToString(value), strings.ToUpper(hex.EncodeToString(value)))
		for skip := range 3 { // where it begins within longer base64
			padded := append(make([]byte, skip, skip+len(value)), value...)
			text := base64.RawStdEncoding.EncodeToString(padded)
			g.encoded = append(g.encoded, text[(8*skip+5)/6:len(padded)*8/6])
		}
	}
	return g
}

// Text is a whole text without what may not be told.
func (g *Guard) Text(s string) string {
	told := g.Stream()
	return told.Next(s) + told.Rest()
}

// Tells reports whether a text holds the canary.
func (g *Guard) Tells(s string) bool {
	at, _ := g.tells(s, plainly(s, 0, nil))
	return at >= 0
}

// GuardedStream is a text on its way through a guard. It is not safe for concurrent use.
type GuardedStream struct {
	g      *Guard
	seen   string // the end of what has gone through
	all    bool   // seen is all of it
	letter []mark // the last letters and digits that have gone through
	held   string // what has come since
	over   bool   // nothing more is told
}

// Stream returns a stream that a text goes through.
func (g *Guard) Stream() *GuardedStream { return &GuardedStream{g: g, all: true} }

// Next takes a piece, and answers what may be told by now.
func (s *GuardedStream) Next(piece string) string { return s.take(piece, false) }

// Rest ends the text, and answers what was kept back.
func (s *GuardedStream) Rest() string { return s.take("", true) }

func (s *GuardedStream) take(piece string, last bool) string {
	if s.over {
		return ""
	}
	text, base := s.seen+s.held+piece, len(s.seen)
	from := len(text)
	spans, begun := s.g.secrets(text, s.all)
	letters := plainly(text[base:], base, s.letter)
	told, open := s.g.tells(text, letters)
	if !last {
		from = min(begun, open)
		slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
		for _, found := range slices.Backward(spans) { // what has begun is told when it has ended
			if found.start < from && found.end >= from && found.end > base {
				from = found.start
			}
		}
		from = max(from, base)
	}
	if told >= 0 && told <= from {
		from, s.over = told, true
	}
	if s.over = s.over || len(text)-from > maxHeld; s.over {
		return edited(text, base, from, spans) + Mark
	}
	out := edited(text, base, from, spans)
	s.held = text[from:]
	if s.all = s.all && from <= seenSize; s.all {
		s.seen = text[:from]
	} else {
		s.seen = text[from-seenSize : from]
	}
	shift := from - len(s.seen)
	s.letter = nil
	for _, m := range letters {
		if m.at < from {
			s.letter = append(s.letter, mark{m.char, m.at - shift})
		}
	}
	s.letter = s.letter[max(0, len(s.letter)-shown):]
	return out
}

// edited is a part of a text with marks in the place of the spans in it.
func edited(text string, base, from int, spans []span) string {
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	var edits []jsonscan.Edit
	for _, next := range spans {
		if next.start < base || next.start >= from {
			continue
		}
		next.end = min(next.end, from)
		if n := len(edits); n > 0 && next.start-base < edits[n-1].End {
			edits[n-1].End = max(edits[n-1].End, next.end-base)
			continue
		}
		edits = append(edits, jsonscan.Edit{Start: next.start - base, End: next.end - base, With: Mark})
	}
	return jsonscan.Apply(text[base:from], edits)
}

// secrets are the parts of a text that hold a known value or look like a token, and where the first
// begins of which more may come. whole says that the text has its beginning.
func (g *Guard) secrets(text string, whole bool) (spans []span, begun int) {
	begun = len(text)
	for at := g.known; at != nil; at = at.parent {
		k := at.known.Load()
		spans = k.find(text, spans)
		begun = min(begun, k.begun(text))
	}
	f := finder{s: text, escapes: strings.ContainsAny(text, `\%`), ends: map[*shape]int{}}
	start := 0
	if !whole {
		start = beforeSize
	}
	for i := start; i < len(text); i++ {
		found, more := f.token(i)
		if more {
			begun = min(begun, found.start)
		}
		if found.end > found.start {
			spans = append(spans, found) // within one another may begin
		}
	}
	return spans, begun
}

// token is what is secret of a token or a key that begins at i, behind the prefix that says what it
// is, and whether more of it may come.
func (f *finder) token(i int) (found span, more bool) {
	s := f.s
	if s[i] == '-' {
		const begin = "-----BEGIN "
		if !strings.HasPrefix(s[i:], begin) {
			return span{}, false
		}
		if i < f.pem {
			return span{}, false // within one that has begun
		}
		if found = pem(s, i); found.end == 0 {
			return span{start: i + len(begin)}, len(s)-i < len(begin)+64 && !strings.Contains(s[i+len(begin):], "-----")
		}
		f.pem = found.end
		return span{i + len(begin), found.end}, found.end == len(s)
	}
	if s[i] == 'e' {
		const begin = "eyJ"
		if !strings.HasPrefix(s[i:], begin) {
			return span{}, false
		}
		more = f.dots(i) == len(s)
		if found = f.jwt(i); found.end == 0 {
			return span{start: i + len(begin)}, more
		}
		return span{i + len(begin), found.end}, more
	}
	for n := range shapes[s[i]] {
		shape := &shapes[s[i]][n]
		// A prefix that also ends words has to begin one.
		inside := shape.digits && i > 0 && alphanumeric(s[i-1]) && !(f.escapes && escaped(s, i))
		if inside || !strings.HasPrefix(s[i:], shape.prefix) {
			continue
		}
		tail := i + len(shape.prefix)
		end := f.ends[shape]
		if tail >= end {
			end = run(s, tail, shape.of)
			f.ends[shape] = end
		}
		found, more = span{tail, tail}, more || end == len(s)
		if end-tail < shape.min || shape.digits && tail < f.digitless {
			continue
		}
		if shape.digits && !strings.ContainsAny(s[tail:end], "0123456789") {
			f.digitless = end
			continue
		}
		return span{tail, end}, end == len(s)
	}
	return found, more
}

// mark is a letter or a digit in a text, in lower case.
type mark struct {
	char byte
	at   int
}

// plainly are the letters and digits of a text, which begins at base, behind those before it.
func plainly(text string, base int, before []mark) []mark {
	out := append(make([]mark, 0, len(before)+len(text)), before...)
	for i := range len(text) {
		if c := text[i]; alphanumeric(c) {
			if upper(c) {
				c += 'a' - 'A'
			}
			out = append(out, mark{c, base + i})
		}
	}
	return out
}

// tells is where a text tells the canary, behind its first characters; less than 0: it does not. open
// is where it may begin to; the length of the text where nothing does.
func (g *Guard) tells(text string, letters []mark) (at, open int) {
	at, open = -1, len(text)
	if g.canary == "" {
		return at, open
	}
	found := func(i int) {
		if at < 0 || i < at {
			at = i
		}
	}
	var plain strings.Builder
	for _, m := range letters {
		plain.WriteByte(m.char)
	}
	if i := strings.Index(plain.String(), g.canary); i >= 0 {
		found(letters[i+shown].at)
	}
	if n := begins(plain.String(), g.canary); n > shown {
		open = min(open, letters[len(letters)-n+shown].at)
	}
	for _, form := range g.encoded {
		if i := strings.Index(text, form); i >= 0 {
			found(i + shown)
		}
		if n := begins(text, form); n > shown {
			open = min(open, len(text)-n+shown)
		}
	}
	return at, open
}

// begins is with how many characters of a word a text ends, but for the whole of it.
func begins(text, word string) int {
	for n := min(len(text), len(word)-1); n > shown; n-- {
		if strings.HasSuffix(text, word[:n]) {
			return n
		}
	}
	return 0
}
