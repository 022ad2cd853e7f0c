package redact

import (
	"slices"
	"strings"
)

// Stream takes the values that a redactor knows out of a text that comes in pieces. It keeps
// back the end of what has come for as long as a value may begin there, and no more. It is
// not safe for concurrent use.
type Stream struct {
	known *Redactor
	held  string
}

// NewStream returns a stream that takes out the values that r knows, now and later. A nil r knows
// none. The stream leaves a text alone that only has the name or the shape of a secret, and an
// escaped value whose escape lies in two pieces.
func NewStream(r *Redactor) *Stream { return &Stream{known: r.Values()} }

// Next takes a piece, and answers what may be told by now.
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
	for _, found := range spans { // a value that is whole is told as one
		if found.start < from && found.end > from {
			from = found.end
		}
	}
	s.held = text[from:]
	return s.known.Text(text[:from])
}

// Rest ends the text, and answers what was kept back.
func (s *Stream) Rest() string {
	rest := s.held
	s.held = ""
	return s.known.Text(rest)
}

// begun is where the first value begins of which a text may hold the beginning at its end;
// its length where none does.
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
