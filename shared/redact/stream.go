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
// The stream ignores names and forms, and misses an escaped value whose escape is split between two
// pieces.
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
	for _, found := range spans { // a complete value is returned as one
		if found.start < from && found.end > from {
			from = found.end
		}
	}
	s.held = text[from:]
	return s.known.Text(text[:from])
}

// Rest ends the text and returns the part that was held back.
func (s *Stream) Rest() string {
	rest := s.held
	s.held = ""
	return s.known.Text(rest)
}

// begun returns where a value may begin that the end of the text holds only in part; the length of
// the text if there is none.
func (k *known) begun(text string) int {
	if k == nil {
		return len(text)
	}
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
