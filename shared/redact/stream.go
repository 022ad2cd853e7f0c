package redact

import (
	"slices"
	"strings"
)

// Stream removes known values from a text that arrives in pieces. It holds back the end of the text
// as long as a value may begin there, and nothing else. It is not safe for concurrent use.
type Stream struct {
	known *Redactor
	held  string
}

// NewStream returns a stream that removes all present and future values of r. A nil r knows none.
// The stream ignores names and forms.
func NewStream(r *Redactor) *Stream { return &Stream{known: r.Values()} }

// Next takes a piece and returns the text that is complete so far.
func (s *Stream) Next(piece string) string {
	text := s.held + piece
	var spans []span
	from := len(text)
	for at := s.known; at != nil; at = at.parent {
		k := at.known.Load()
		spans = k.find(text, spans)
		from = min(from, k.begun(text))
	}
	slices.SortFunc(spans, func(a, b span) int { return a.start - b.start })
	for _, found := range slices.Backward(spans) { // a value in whose end another one may begin is held back too
		if found.start < from && found.end > from {
			from = found.start
		}
	}
	s.held = text[from:]
	return s.known.flat(text[:from])
}

// Rest ends the text and returns the part that was held back.
func (s *Stream) Rest() string {
	rest := s.held
	s.held = ""
	return s.known.flat(rest)
}

// begun returns where a value may begin, in any encoding, that the end of the text holds only in part; the
// length of the text if there is none.
func (k *known) begun(text string) int {
	if k == nil {
		return len(text)
	}
	return k.begins(view{text: text}, maxLayers)
}

func (k *known) begins(v view, layers int) int {
	from := v.from(k.tail(v.text))
	if layers == 0 {
		return from
	}
	for _, e := range nested {
		if under, ok := v.decoded(e, true); ok {
			from = min(from, k.begins(under, layers-1))
		}
	}
	if k.spaces && strings.IndexByte(v.text, '+') >= 0 {
		if under, ok := v.decoded(inQuery, true); ok {
			from = min(from, under.from(k.tail(under.text)))
		}
	}
	return from
}

// tail returns where the end of a text begins that is the beginning of a value; the length of the text if
// it is none.
func (k *known) tail(text string) int {
	for i := max(0, len(text)-k.longest+1); i < len(text); i++ {
		tail := text[i:]
		if len(tail) > 1 {
			if two := uint32(tail[0])<<8 | uint32(tail[1]); k.first[two>>6]>>(two&63)&1 == 0 {
				continue
			}
		}
		for _, all := range k.needles {
			if slices.ContainsFunc(all, func(n needle) bool { return strings.HasPrefix(n.text, tail) }) {
				return i
			}
		}
	}
	return len(text)
}
