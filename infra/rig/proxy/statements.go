package proxy

import (
	"bytes"
	"regexp"
	"slices"
)

// statements are the prepared statements of one connection to Postgres, by their names.
type statements struct {
	texts map[string][]byte
	tail  []byte // of what was sent: a statement may be split between two pieces
}

// longest is how many bytes of a connection are kept to find the beginning of a statement.
const longest = 64 << 10

var preparing = regexp.MustCompile(`PREPARE (\w+) AS ([^\x00]+)\x00`)

// spell returns data, followed by the texts of the prepared statements that it names.
func (s *statements) spell(data []byte) []byte {
	said := data
	for name, text := range s.texts {
		if bytes.Contains(data, []byte("\x00"+name+"\x00")) {
			said = slices.Concat(said, []byte("\n"), text)
		}
	}
	s.tail = append(s.tail, data...)
	end := 0
	for _, at := range preparing.FindAllSubmatchIndex(s.tail, -1) {
		if s.texts == nil {
			s.texts = map[string][]byte{}
		}
		s.texts[string(s.tail[at[2]:at[3]])] = bytes.Clone(s.tail[at[4]:at[5]])
		end = at[1]
	}
	s.tail = bytes.Clone(s.tail[max(end, len(s.tail)-longest):])
	return said
}
